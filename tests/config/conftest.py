import os
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from checkrail.config import ConfigError, Problem, environment, load

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file into a folder of its own."""

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"), encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def problems(write: Write) -> Callable[..., list[Problem]]:
    """Give what is wrong with a text, in the order of its lines."""

    def problems_of(text: str, name: str = "checkrail.yaml") -> list[Problem]:
        with pytest.raises(ConfigError) as raised:
            load(write(name, text))
        return list(raised.value.problems)

    return problems_of


@pytest.fixture
def told(problems: Callable[..., list[Problem]]) -> Callable[..., list[str]]:
    """Give what is wrong with a text as it is told, without the folder."""

    def told_of(text: str, name: str = "checkrail.yaml") -> list[str]:
        found = problems(text, name)
        return [str(problem).replace(problem.file, name, 1) for problem in found]

    return told_of


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch) -> Iterator[None]:
    """Leave no variable that a file of a test has set, and let none of this machine count."""
    monkeypatch.delenv("CHECKRAIL_DATABASE_URL", raising=False)
    before = {**os.environ}
    yield
    os.environ.clear()
    os.environ.update(before)
    environment._put.clear()


@pytest.fixture(autouse=True)
def clean_imports(tmp_path: Path) -> Iterator[None]:
    """Leave nothing of what a test imported from its folder."""
    path = [*sys.path]
    yield
    sys.path[:] = path
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]
