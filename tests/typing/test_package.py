"""What a type checker sees of Checkrail; mypy reads this folder as strictly as the source."""

from importlib.resources import files


def test_the_package_says_that_it_is_typed() -> None:
    assert files("checkrail").joinpath("py.typed").is_file()
