import pytest

from checkrail.actions.expression_names import Use, find_uses


def names(text: str) -> list[str]:
    return [use.name for use in find_uses(text)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("tool_call.args.amount > 1000", ["tool_call"]),
        ("a.b == c.d && e", ["a", "c", "e"]),
        ("true || false == null", []),
        ("'a' in b", ["b"]),
        ("size(a) > b.size()", ["a", "b"]),
        ("'quoted a' == \"and b\" + c", ["c"]),
        (r"'it\'s a' == b", ["b"]),
        (r"r'\' == b", ["b"]),
        ('"""long "a" text""" == b', ["b"]),
        ("'''long 'a' text''' == b", ["b"]),
        (r"rb'a' == b'c' + d", ["d"]),
        ("a // b\n == c", ["a", "c"]),
        ("a[b].c", ["a", "b"]),
        ("1e5 > 0x1F + 1u + 2.5", []),
        ("{'a': b, c: 1}", ["b", "c"]),
        ("a ? b : c", ["a", "b", "c"]),
        ("x.all(y, y > z)", ["x", "z"]),
        ("x.all(y, y > 1) && y", ["x", "y"]),
        ("x.exists(y, y.all(z, z == y)) || z", ["x", "z"]),
        ("x.map(y, y > 1, y * 2)", ["x"]),
        ("all(y, y)", ["y", "y"]),
        ("", []),
        ("((", []),
        ("))", []),
    ],
)
def test_the_names_that_are_read_from_outside(text, found):
    assert names(text) == found


@pytest.mark.parametrize(
    ("text", "member"),
    [
        ('a["b"]', "b"),
        ("a['b'].c", "b"),
        ("a[b]", None),
        ("a['b' + 'c']", None),
        (r"a['b\'c']", None),
        ("a['b\"c']", None),
        ("a[0]", None),
        ("a['']", None),
    ],
)
def test_a_key_is_a_member_where_it_is_written_out(text, member):
    assert next(find_uses(text)).member == member


@pytest.mark.parametrize(
    ("text", "sought"),
    [
        ("'x' in a", ("'x'", "a")),
        ("'x' in a.b.c", ("'x'", "a.b.c")),
        ("5 in a && true", ("5", "a")),
        ("!('x' in a)", ("'x'", "a")),
        ("b.c in a.d", ("b.c", "a.d")),
        ("b().c in a", None),
        ("b[0] in a", None),
        ("['x'] in a", None),
        ("'x' in a[0]", None),
        ("'x' in a.b()", None),
        ("a == 'x'", None),
        ("in a", None),
    ],
)
def test_what_is_looked_for_in_what(text, sought):
    (*_, use) = (use for use in find_uses(text) if use.name == "a")
    assert use.sought == sought


def test_where_a_name_is_read_and_what_is_taken_of_it():
    text = "a.b > 1 &&\n  c.d() == e"
    assert list(find_uses(text)) == [
        Use("a", 1, 1, "b"),
        Use("c", 2, 3, "d", call=True),
        Use("e", 2, 12),
    ]
