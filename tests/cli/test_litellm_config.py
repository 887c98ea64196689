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


def test_it_makes_a_file(checkrail, tmp_path):
    checkrail("litellm-config", "-w", "config.yaml")
    assert CALLBACK in (tmp_path / "config.yaml").read_text()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("litellm_settings: {cache: true}\n", "by hand"),
        ("litellm_settings:\n  callbacks: [lago]\n", "by hand"),
        ("litellm_settings:\n  callbacks: lago\n", "by hand"),
        ("litellm_settings: on\n", "by hand"),
        ("- a\n", "which is a mapping"),
        ("a: [\n", "cannot be read"),
    ],
)
def test_what_it_cannot_write_it_leaves_alone(checkrail, write, text, says):
    file = write("config.yaml", text)
    done = checkrail("litellm-config", "--write", "config.yaml")
    assert (done.code, done.out) == (1, "")
    assert says in done.err
    assert file.read_text() == text
