import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from pydantic import BaseModel

from checkrail import CheckrailError, ToolCall, ToolResult
from checkrail.builtin import BUILTINS, BuiltinConfigError, schema_check
from checkrail.builtin.schema_check import compile_schema, find_problems
from checkrail.builtin.schema_work import SchemaWork
from checkrail.engine.errors import HookRefusedError
from checkrail.testing import RecordingRegistry, assert_allowed, assert_blocked

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
    },
    "required": ["name"],
    "additionalProperties": False,
}


def checked(point="before_run", lane="gate", **config):
    registry = RecordingRegistry()
    registry.register(BUILTINS["schema_check"].make(config), point, lane=lane)
    return registry


@pytest.mark.parametrize("point", ["before_run", "on_run_start", "on_result"])
@pytest.mark.parametrize("lane", ["transform", "gate"])
async def test_what_fits_passes_and_what_does_not_is_blocked(point, lane):
    registry = checked(point, lane, schema=PERSON)
    assert_allowed(await registry.fire(point, {"name": "ann", "tags": ["a"]}))
    assert_blocked(
        await registry.fire(point, {"name": 7}),
        by="schema_check",
        status=422,
        code="schema_mismatch",
    )


async def test_the_reason_lists_where_and_what():
    value = {"name": "too long a name", "tags": ["a", "z"], "more": 1}
    verdict = await checked(schema=PERSON).fire("before_run", value)
    assert verdict.reason.startswith("the value at before_run does not fit its schema: ")
    assert "$.name: it is longer than 5 characters" in verdict.reason
    assert "$.tags[1]: " in verdict.reason
    assert "'more' was unexpected" in verdict.reason


async def test_the_reason_never_quotes_the_value():
    value = {"name": "hunter2secret", "tags": ["password"]}
    verdict = await checked(schema=PERSON).fire("before_run", value)
    assert "hunter2" not in verdict.reason
    assert "password" not in verdict.reason


async def test_a_long_list_is_cut():
    registry = checked(schema={"type": "array", "items": {"type": "string"}})
    verdict = await registry.fire("before_run", list(range(50)))
    assert verdict.reason.endswith("; and 45 more")
    assert verdict.reason.count("$[") == 5


async def test_tool_arguments_are_what_is_checked_of_a_call():
    registry = checked("before_tool_call", schema=PERSON)
    assert_allowed(await registry.fire("before_tool_call", ToolCall("1", "f", {"name": "ann"})))
    verdict = await registry.fire("before_tool_call", ToolCall("1", "f", {}))
    assert_blocked(verdict, reason="the arguments of 'f'")
    assert '$: "name" is a required property' in verdict.reason


async def test_the_content_is_what_is_checked_of_a_result():
    registry = checked("after_tool_call", schema={"type": "array"})
    assert_allowed(await registry.fire("after_tool_call", ToolResult("1", "f", [1, (2, 3)])))
    assert_blocked(await registry.fire("after_tool_call", ToolResult("1", "f", "text")))


@pytest.mark.parametrize(
    ("tool", "args", "allowed"),
    [
        ("get_user", {"id": 1}, True),
        ("get_user", {"id": "x"}, False),
        ("get_user", {}, False),
        ("get_all", {}, True),
        ("get_all", {"id": "x"}, False),
        ("forget_all", {"id": "x"}, True),
        ("put_user", {"id": "x"}, True),
    ],
)
async def test_every_schema_whose_glob_matches_the_tool_has_to_hold(tool, args, allowed):
    registry = checked(
        "before_tool_call",
        schemas={
            "get_*": {"properties": {"id": {"type": "integer"}}},
            "get_user": {"required": ["id"]},
        },
    )
    verdict = await registry.fire("before_tool_call", ToolCall("1", tool, args))
    assert (verdict.decision == "continue") is allowed


def test_schemas_of_tools_are_refused_where_there_is_no_tool():
    with pytest.raises(HookRefusedError, match="reads ToolCall, but before_run"):
        checked(schemas={"f": {}})
    with pytest.raises(HookRefusedError, match="Register it at before_tool_call"):
        RecordingRegistry().register(schema_check, "on_result", config={"schemas": {"f": {}}})


async def test_models_are_checked_as_the_data_they_hold():
    class Person(BaseModel):
        name: str

    registry = checked("on_result", schema=PERSON)
    assert_allowed(await registry.fire("on_result", Person(name="ann")))
    assert_blocked(await registry.fire("on_result", Person(name="annabelle")))


async def test_what_is_no_json_is_blocked_not_let_through():
    registry = checked("on_result", "transform", schema={"items": {"type": "number"}})
    verdict = await registry.fire("on_result", ["\ud800"])
    assert_blocked(verdict, by="schema_check", status=422)


async def test_false_lets_nothing_through():
    assert_blocked(await checked(schema=False).fire("before_run", {}))


async def test_the_status_can_be_said():
    assert_blocked(await checked(schema=False, status=400).fire("before_run", {}), status=400)


async def test_references_within_the_schema_work():
    schema = {"$defs": {"p": PERSON}, "$ref": "#/$defs/p"}
    registry = checked(schema=schema)
    assert_allowed(await registry.fire("before_run", {"name": "ann"}))
    assert_blocked(await registry.fire("before_run", {}))


@pytest.fixture
def server():
    """A real server that would answer, and keeps what it was asked for."""
    asked = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, args=[0.01])
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}", asked
        http.shutdown()
        thread.join()


@pytest.mark.parametrize(
    "make",
    [
        lambda url: {"$ref": f"{url}/schema.json"},
        lambda url: {"properties": {"a": {"anyOf": [{"$ref": f"{url}/schema.json#/$defs/x"}]}}},
        lambda url: {"$id": f"{url}/root.json", "$ref": "other.json"},
        lambda url: {"$dynamicRef": f"{url}/schema.json#x"},
        lambda url: {"$schema": f"{url}/meta.json"},
    ],
)
def test_nothing_is_fetched(server, make):
    url, asked = server
    with pytest.raises(BuiltinConfigError, match="expected a JSON Schema"):
        BUILTINS["schema_check"].make({"schema": make(url)})
    assert asked == []


def test_no_file_is_read(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text("{}")
    with pytest.raises(BuiltinConfigError, match="is not fetched: put it under"):
        BUILTINS["schema_check"].make({"schema": {"$ref": path.as_uri()}})


def test_without_its_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)
    with pytest.raises(CheckrailError, match=r'pip install "checkrail\[config\]"'):
        BUILTINS["schema_check"].make({"schema": {}})


async def test_as_a_plain_function():
    registry = RecordingRegistry()
    registry.register(schema_check, "before_run", config={"schema": PERSON})
    assert_blocked(await registry.fire("before_run", {}), code="schema_mismatch")
    assert_allowed(await registry.fire("before_run", {"name": "ann"}))


def test_of_very_many_errors_the_first_is_told_and_soon():
    """The library makes all errors at once: here four million."""
    schema = {"items": {"allOf": [{"type": "string"}] * 200}}
    began = time.thread_time()
    found = find_problems(compile_schema("schema", schema), [1] * 20_000)
    assert found == ['$[0]: it is not of type "string"']
    assert time.thread_time() - began < 1
    assert len(find_problems(compile_schema("schema", schema), [1, 2])) == 400
    assert find_problems(compile_schema("schema", schema), ["a"] * 20_000) == []


def test_an_estimate_goes_through_a_value_once_for_all_schemas():
    gone_through = []

    class Items(list):
        def __iter__(self):
            gone_through.append(self)
            return super().__iter__()

    class Names(dict):
        def __iter__(self):
            gone_through.append(self)
            return super().__iter__()

    lists = [{"items": {"pattern": f"(a){{1,{n}}}"}} for n in range(2, 52)]
    names = [{"patternProperties": {f"(a){{1,{n}}}": True}} for n in range(2, 52)]
    work = SchemaWork({"properties": {"l": {"allOf": lists}, "n": {"allOf": names}}}, 200, 0)
    work.check(
        {
            "l": Items([*range(1000)]),
            "n": Names(dict.fromkeys(map(str, range(99)))),
            "t": "a" * 100_000,
        }
    )
    assert len(gone_through) <= 4
