import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail.agent.tools import ToolRefusedError
from checkrail.agent.tools.tool import LEGAL_NAME, check_name, check_timeout, legal_names

LONG = "a" * 70


@pytest.mark.parametrize(
    ("names", "prefix", "legal"),
    [
        (["read", "read_all"], "", ["read", "read_all"]),
        (["read"], "files_", ["files_read"]),
        (["files/read.all", "größe"], "", ["files_read_all", "gr__e"]),
        (["a.b", "a_b", "a b"], "", ["a_b_2", "a_b", "a_b_3"]),
        (["read", "read"], "", ["read"]),
        (["read"], "my files: ", ["my_files__read"]),
        ([], "x", []),
    ],
)
def test_names_are_made_legal_and_legal_ones_stay(names, prefix, legal):
    assert list(legal_names(names, prefix).values()) == legal


def test_long_names_are_cut_and_still_told_apart():
    found = legal_names([LONG + "1", LONG + "2"])
    assert len({*found.values()}) == 2
    assert all(len(name) == 64 for name in found.values())
    assert found == legal_names([LONG + "2", LONG + "1"])


@given(st.lists(st.text(alphabet="ab._-é /", max_size=70)), st.text(alphabet="x_:", max_size=5))
def test_every_name_has_a_legal_form_of_its_own(names, prefix):
    found = legal_names(names, prefix)
    assert found.keys() == {*names}
    assert len({*found.values()}) == len(found)
    assert all(LEGAL_NAME.fullmatch(name) for name in found.values() if name)


@pytest.mark.parametrize("name", ["", "a b", "a\n", "é", "x" * 65])
def test_an_illegal_name_is_refused(name):
    with pytest.raises(ToolRefusedError, match="is no name that all models accept"):
        check_name(name)


@pytest.mark.parametrize("timeout", [0, -1, "5", float("nan")])
def test_a_timeout_that_is_none_is_refused(timeout):
    with pytest.raises(ToolRefusedError, match="its timeout is"):
        check_timeout("lookup", timeout)


@pytest.mark.parametrize("timeout", [None, 1, 0.5])
def test_seconds_and_no_limit_are_timeouts(timeout):
    check_timeout("lookup", timeout)
