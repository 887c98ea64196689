"""`checkrail hooks`: the built-in hooks, and all about one of them."""

import json

import pytest

from checkrail.builtin import BUILTINS


def test_all_of_them_are_listed(checkrail):
    done = checkrail("hooks")
    assert (done.code, done.err) == (0, "")
    head, *rows = done.rows
    assert head == ["hook", "lane", "what it does"]
    listed = rows[: len(BUILTINS)]
    assert listed == [[it.name, str(it.lane), it.summary] for it in BUILTINS.values()]
    assert rows[-1] == ["All about one: checkrail hooks NAME"]


def test_all_of_them_for_machines(invoke):
    told = invoke("hooks", "--json").data
    assert [hook["name"] for hook in told] == list(BUILTINS)
    for hook in told:
        assert hook.keys() == {"name", "summary", "points", "lane", "config", "example"}
        assert hook["config"]["type"] == "object"
        assert hook == invoke("hooks", hook["name"], "--json").data


@pytest.mark.parametrize("name", BUILTINS)
def test_one_of_them_tells_where_it_stands_and_what_it_takes(name, invoke):
    builtin = BUILTINS[name]
    done = invoke("hooks", name)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith(f"{name} ({builtin.lane}): {builtin.summary}\n")
    for point in builtin.points:
        assert str(point) in done.out
    config = done.out.partition("Config:\n")[2].partition("\n\n")[0].splitlines()
    shapes = builtin.config_model.model_json_schema()["properties"]
    assert [line.split(":")[0] for line in config] == [f"  {key}" for key in shapes]
    for line, shape in zip(config, shapes.values(), strict=True):
        assert shape["description"] in line
        if "default" in shape:
            assert line.endswith(f"(default {json.dumps(shape['default'])})")


@pytest.mark.parametrize("name", BUILTINS)
def test_the_example_of_one_of_them_works(name, invoke, tmp_path):
    text = invoke("hooks", name).out.partition("In a file:\n\n")[2]
    (tmp_path / "checkrail.yaml").write_text(text)
    done = invoke("check", "checkrail.yaml", "--json")
    assert done.code == 0, done.data
    builtin = BUILTINS[name]
    point = builtin.points[0]
    assert {*done.data["plan"]} == {*(builtin.points if builtin.together else [point])}
    for place, (hook,) in done.data["plan"].items():
        lane = builtin.lane_at(place)
        target = builtin.example.get(builtin.runs_agent, name)
        assert (hook["name"], hook["target"], hook["lane"]) == (name, target, lane)
    fired = invoke("fire", "checkrail.yaml", point, "--json")
    failures = [record["failure"] for record in fired.data["records"] if "failure" in record]
    assert failures == (["unreachable"] if builtin.runs_agent else [])  # there is no server here


def test_a_name_that_is_unknown_is_told_with_the_right_one(checkrail):
    done = checkrail("hooks", "redakt")
    assert (done.code, done.out) == (2, "")
    said = "there is no built-in hook 'redakt' (did you mean 'redact'?): see `checkrail hooks`"
    assert done.err.endswith(f"Error: {said}\n")


def test_a_name_like_no_other_is_told_without_a_guess(invoke):
    done = invoke("hooks", "zzz", "--json")
    assert (done.code, done.out) == (2, "")
    assert "there is no built-in hook 'zzz': see `checkrail hooks`" in done.err
