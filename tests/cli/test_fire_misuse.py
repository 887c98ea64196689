"""`checkrail fire` with what it cannot use: told in words of the command, never of Python."""

import json

import pytest

RULES = '{"hooks": {"before_tool_call": {"name": "never", "tools": ["x"], "block": "no"}}}'


@pytest.fixture
def refused(invoke, write):
    """Give the line that says what was wrong."""
    write("checkrail.json", RULES)

    def refuse(*args, stdin=""):
        done = invoke("fire", "checkrail.json", *args, stdin=stdin)
        assert (done.code, done.out) == (2, "")
        assert done.err.startswith("Usage: checkrail fire [OPTIONS] FILE POINT\n")
        return done.err.partition("Error: ")[2].strip()

    return refuse


def test_a_point_that_does_not_exist(refused):
    said = refused("before_tool_cal")
    assert said.startswith("there is no hook point 'before_tool_cal' (did you mean 'before_tool_")
    assert "on_session_end" in said


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("on_run_finish", "fire after_run or on_run_error instead"),
        ("on_timeout", "fire on_run_error instead"),
    ],
)
def test_a_name_that_stands_for_several_or_some_events(name, says, refused):
    assert refused(name) == f"{name!r} can only be registered for: {says}"


@pytest.mark.parametrize("text", ["{", "delete_file", "{'name': 'x'}", ""])
@pytest.mark.parametrize("option", ["--value", "--context"])
def test_what_is_no_json(option, text, refused):
    assert refused("before_run", option, text).startswith(f"{option} is not JSON: ")


def test_nothing_on_standard_input(refused):
    assert refused("before_run", "--value", "-").startswith("--value is not JSON: ")


@pytest.mark.parametrize("text", ["NaN", "[Infinity]"])
def test_numbers_that_json_does_not_have(text, refused):
    assert refused("before_run", "--value", text).startswith("--value is not JSON: ")


def test_json_that_nests_too_deeply(refused, write):
    write("deep.json", "[" * 100_000 + "]" * 100_000)
    assert "--value" in refused("before_run", "--value", "@deep.json")


@pytest.mark.parametrize("option", ["--value", "--context"])
def test_a_file_that_is_not_there(option, refused):
    said = refused("before_run", option, "@gone.json")
    assert said.startswith(f"{option}: ")
    assert "gone.json" in said
    assert "o such file" in said


def test_a_folder_in_place_of_a_file(refused):
    assert "s a directory" in refused("before_run", "--value", "@.")


def test_a_file_that_is_no_text(refused, tmp_path):
    (tmp_path / "image.json").write_bytes(b"\x89PNG\xff")
    said = refused("before_run", "--value", "@image.json")
    assert said.startswith("--value")
    assert "utf-8" in said.lower()


@pytest.mark.parametrize(
    ("point", "value", "says"),
    [
        ("before_tool_call", [1], "at $: found a list, expected an object"),
        ("before_tool_call", 5, "at $: found 5, expected an object"),
        ("before_tool_call", {"name": 3}, "at $.name: found 3, expected a text"),
        ("before_tool_call", {"tool": "x"}, "at $.tool: found a key that is not known here"),
        ("before_inbound", {"content": None}, "at $.content: found null, expected a text"),
        ("before_llm_call", {"messages": [1]}, "at $.messages[0]: found 1, expected an object"),
        ("after_llm_call", {"tool_calls": [{"nam": "x"}]}, "at $.tool_calls[0].nam: found a key"),
        ("after_tool_call", {"is_error": "no"}, "at $.is_error: found 'no', expected true or fal"),
        ("on_session_start", {"thread_ids": "t1"}, "at $.thread_ids: found 't1', expected"),
    ],
)
def test_a_value_of_another_shape(point, value, says, refused):
    said = refused(point, "--value", json.dumps(value))
    assert said.startswith(f"--value does not fit: {says}")


def test_arguments_of_a_tool_that_are_no_json(refused):
    said = refused("before_tool_call", "--value", '"delete_file"')
    assert "tool arguments at before_tool_call" in said
    assert "not JSON" in said


@pytest.mark.parametrize("point", ["on_session_start", "before_llm_call", "after_run"])
def test_a_text_where_the_value_has_none(point, refused):
    said = refused(point, "--value", '"text"')
    assert "no primary text" in said or "expected an object" in said
    assert "Continue" not in said, "that is what a hook would do about it, and not who fires"


def test_a_session_needs_its_id_or_is_given_one(invoke, write):
    write("checkrail.json", RULES)
    given = ("fire", "checkrail.json", "on_session_start", "--value", '{"user_id": "ann"}')
    done = invoke(*given)
    assert "__init__" not in done.err
    assert done.code == 0 or "session_id" in done.err


@pytest.mark.parametrize("text", ["[1]", "5", '"ann"', "null"])
def test_a_context_that_is_no_object(text, refused):
    said = refused("before_run", "--context", text)
    assert said.startswith("--context")
    assert "object" in said
    assert "HookRegistry" not in said


@pytest.mark.parametrize("name", ["point", "value", "self", "colour"])
def test_a_context_with_a_name_that_an_event_has_not(name, refused):
    said = refused("before_run", "--context", json.dumps({name: "x"}))
    assert f"{name!r}" in said
    assert "HookRegistry" not in said


def test_a_mistyped_name_in_the_context_is_told_with_the_right_one(refused):
    said = refused("before_run", "--context", '{"agent": "desk"}')
    assert "an event has no field 'agent' (did you mean 'agent_name'?)" in said


def test_a_user_of_another_shape(refused):
    said = refused("before_run", "--context", '{"user": {"name": "ann"}}')
    assert "'name'" in said
    assert "__init__" not in said
