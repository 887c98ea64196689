"""Whatever a document holds, it is loaded, or refused with problems that have lines."""

import json
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from checkrail.config import ConfigError, load_text
from checkrail.config.document import parse_document
from checkrail.config.problems import Report
from checkrail.config.schema import TOP, entry_keys
from checkrail.engine.points import ALIASES, HookPoint

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False, width=16)
    | st.text(max_size=6)
    | st.sampled_from(
        [
            "off",
            "async",
            "gate",
            "observe",
            "block",
            "rule",
            "json:loads",
            "${HOME}",
            "a.b:c",
            "/[/",
        ],
    )
)
data = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=8,
)
hooks = st.dictionaries(st.sampled_from([*entry_keys()]), data, max_size=5)
points = st.sampled_from([*HookPoint, *ALIASES, "path", "timeout", "nonsense"])
documents = st.fixed_dictionaries(
    {
        "hooks": data
        | st.dictionaries(points, data | hooks | st.lists(hooks, max_size=3), max_size=3)
    },
    optional={
        "definitions": data | st.dictionaries(st.sampled_from("abc"), hooks, max_size=3),
        **{key: data for key in TOP if key not in ("hooks", "definitions")},
    },
)


@given(documents)
@example({"hooks": {}, "python_path": "~nobody_at_all"})
@example({"hooks": {}, "python_path": "\0"})
@example({"hooks": {"path": "./\0.py:x"}})
def test_every_document_is_loaded_or_refused(document):
    try:
        load_text(json.dumps(document, indent=1), "json")
    except ConfigError as error:
        found = error.problems
    else:
        return
    assert found
    assert all(problem.line for problem in found)
    assert all(str(problem) for problem in found)


def parsed(text: str, kind: str):
    report = Report("x")
    document = parse_document(text.encode(), kind, Path(), report)
    assert report.problems == []
    assert document is not None
    return document


@given(data)
def test_json_gives_what_the_standard_library_gives(value):
    text = json.dumps(value, indent=1)
    assert parsed(text, "json").data == json.loads(text)


@given(st.recursive(scalars, lambda inner: st.lists(inner, max_size=3), max_leaves=8))
def test_json_is_yaml(value):
    text = json.dumps(value, indent=1)
    if "\\ud" not in text:  # pairs of surrogates are no YAML
        found = parsed(text, "yaml")
        assert found.data == json.loads(text)
        assert found.lines == {**parsed(text, "json").lines}


@given(st.lists(st.sampled_from(["[t]", "[[t.a]]", "[t.b]", "x = 1", "y = [{z = 1}]", "#"])))
def test_every_key_of_toml_has_a_line(lines):
    report = Report("x")
    document = parse_document("\n".join(lines).encode(), "toml", Path(), report)
    if document is None:
        assert report.problems
        return

    def check(value, where):
        if isinstance(value, dict):
            for key, item in value.items():
                assert lines[document.lines[*where, key] - 1] != "#"
                check(item, (*where, key))
        elif isinstance(value, list):
            for number, item in enumerate(value):
                check(item, (*where, number))

    check(document.data, ())
