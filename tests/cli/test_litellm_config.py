"""`checkrail litellm-config` gives the lines that put hooks into a LiteLLM proxy."""

import pytest
from ruamel.yaml import YAML

CALLBACK = "checkrail.adapters.litellm.callback"


def read(text):
    return YAML(typ="safe", pure=True).load(text)


def test_it_prints_the_lines(checkrail):
    done = checkrail("litellm-config")
    assert (done.code, done.err) == (0, "")
    assert read(done.out) == {"litellm_settings": {"callbacks": [CALLBACK]}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "model_list: [] # none yet\n",
        "model_list: []",
        "litellm_settings:\n",
        "litellm_settings:\n  num_retries: 0 # none\n# the end\n",
        "litellm_settings:\n    num_retries: 0\nmodel_list: []\n",
        "model_list:\n- model_name: a\n\nlitellm_settings: # ours\n  cache: true",
    ],
)
def test_it_writes_them_into_a_file_whose_lines_stay(checkrail, write, text):
    file = write("config.yaml", text)
    before = file.read_text()
    done = checkrail("litellm-config", "--write", "config.yaml")
    assert (done.code, done.err) == (0, "")
    assert "config.yaml: written" in done.out
    after = file.read_text()
    known = read(before) or {}
    settings = {**(known.get("litellm_settings") or {}), "callbacks": [CALLBACK]}
    assert read(after) == {**known, "litellm_settings": settings}
    kept = iter(after.splitlines())
    assert all(line in kept for line in before.splitlines())  # in their order
    again = checkrail("litellm-config", "--write", "config.yaml")
    assert "it has the callback already" in again.out
    assert file.read_text() == after


@pytest.mark.parametrize(
    ("text", "callbacks"),
    [
        ("litellm_settings: {cache: true} # ours\nmodel_list: []\n", [CALLBACK]),
        ("model_list: []\nlitellm_settings: {}\n", [CALLBACK]),
        ('"litellm_settings": { "cache": true }\n', [CALLBACK]),
        ("litellm_settings: {\n  cache: true\n}\n", [CALLBACK]),
        ("{litellm_settings: {cache: true}, model_list: []}\n", [CALLBACK]),
        ("litellm_settings: {callbacks: [lago], cache: true}\n", ["lago", CALLBACK]),
        ("litellm_settings: {cache: true, callbacks: lago}\n", ["lago", CALLBACK]),
        ("litellm_settings:\n  callbacks: [lago, 'x.y', ] # two\n", ["lago", "x.y", CALLBACK]),
        ("litellm_settings:\n  callbacks: lago\n  cache: true\n", ["lago", CALLBACK]),
        ("other: {callbacks: [a]}\nlitellm_settings: {callbacks: [b]}\n", ["b", CALLBACK]),
        ("{model_list: [{model_name: a}]} # ours\n", [CALLBACK]),
        ("{}\n", [CALLBACK]),
    ],
)
def test_it_writes_into_settings_of_one_line(checkrail, write, text, callbacks):
    file = write("config.yaml", text)
    done = checkrail("litellm-config", "--write", "config.yaml")
    assert (done.code, done.err) == (0, "")
    known = read(text)
    settings = {**known.get("litellm_settings", {}), "callbacks": callbacks}
    assert read(file.read_text()) == {**known, "litellm_settings": settings}
    assert ("#" in text) is ("#" in file.read_text())
    again = checkrail("litellm-config", "--write", "config.yaml")
    assert "it has the callback already" in again.out


def test_it_makes_a_file(checkrail, tmp_path):
    checkrail("litellm-config", "-w", "config.yaml")
    assert CALLBACK in (tmp_path / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("litellm_settings:\n  callbacks:\n    - lago\n", "by hand"),
        ("litellm_settings: on\n", "by hand"),
        ("- a\n", "which is a mapping"),
        ("a: [\n", "cannot be read"),
        ("a: 1\n...\n", "by hand"),
    ],
)
def test_what_it_cannot_write_it_leaves_alone(checkrail, write, text, says):
    file = write("config.yaml", text)
    done = checkrail("litellm-config", "--write", "config.yaml")
    assert (done.code, done.out) == (1, "")
    assert says in done.err
    assert file.read_text() == text
