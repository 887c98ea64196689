"""The JSON Schema of a project's file and the loader say the same, as far as a schema can."""

import copy
import json
import re
from pathlib import Path

import jsonschema_rs
import pytest
from ruamel.yaml import YAML

from checkrail.config import ConfigError, load_text
from checkrail.config import server_keys as server
from checkrail.config.agent_keys import AGENT, GRAPH, PROCEDURAL, find_blueprint
from checkrail.config.agent_models import MODEL_KEYS
from checkrail.config.agent_tools import SERVER_KEYS
from checkrail.config.environment import ENV
from checkrail.config.gateway_reader import GATEWAY, PRICE, UPSTREAM
from checkrail.config.json_schema import file_schema
from checkrail.config.schema import DEFAULTS, TOP, entry_keys
from checkrail.config.script import REPLY
from checkrail.config.server_reader import OUTBOUND
from checkrail.engine.points import ALIASES, HookPoint

ROOT = Path(__file__).parents[2]
SCHEMA = file_schema()
VALID = jsonschema_rs.validator_for(SCHEMA)


def keys_at(*path):
    """The keys that the schema knows at a place, whatever else may stand there."""
    found = SCHEMA
    for step in path:
        found = unfolded(found)
        found = found["properties"][step] if step != "*" else found["additionalProperties"]
    return {*unfolded(found)["properties"]}


def unfolded(schema):
    """A mapping among what may stand at a place."""
    if "$ref" in schema:
        return unfolded(SCHEMA["$defs"][schema["$ref"].rpartition("/")[2]])
    others = [unfolded(each) for each in (*schema.get("anyOf", ()), *schema.get("allOf", ()))]
    return next((each for each in others if each.get("type") == "object"), schema)


SECTIONS = {
    (): TOP,
    ("hooks",): [*HookPoint, *ALIASES, "path", "timeout"],
    ("hooks", "before_run"): entry_keys(),
    ("definitions", "*"): entry_keys(),
    ("defaults",): DEFAULTS,
    ("env",): ENV,
    ("agents", "*"): [*AGENT, *GRAPH.keys, *PROCEDURAL],
    ("agents", "*", "model"): MODEL_KEYS,
    ("agents", "*", "mcp", "*"): SERVER_KEYS,
    ("agents", "*", "hooks", "on_result"): entry_keys(),
    ("gateway",): GATEWAY,
    ("gateway", "upstreams", "*"): UPSTREAM,
    ("gateway", "prices", "*"): PRICE,
    ("server",): server.SERVER.keys,
    ("auth",): server.AUTH.keys,
    ("http",): server.HTTP.keys,
    ("http", "cors"): server.CORS.keys,
    ("store",): server.STORE.keys,
    ("store", "index"): server.INDEX.keys,
    ("checkpointer",): server.CHECKPOINTER.keys,
    ("retention",): server.RETENTION.keys,
    ("limits",): server.LIMITS.keys,
    ("approvals",): server.APPROVALS.keys,
    ("agents_api",): server.AGENTS_API.keys,
    ("outbound",): OUTBOUND.keys,
}


def test_it_is_a_schema():
    jsonschema_rs.meta.validate(SCHEMA)
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


@pytest.mark.parametrize("path", SECTIONS, ids=lambda path: ".".join(path) or "top")
def test_it_has_every_key_that_the_loader_reads(path):
    missing = {*map(str, SECTIONS[path])} - keys_at(*path)
    assert not missing


def test_a_script_has_all_its_keys():
    replies = unfolded(SCHEMA["$defs"]["model"])["properties"]["replies"]["anyOf"][0]["items"]
    assert {*unfolded(replies)["properties"]} == {*REPLY}


def documented():
    """The projects and files of hooks in the docs and the examples that are right."""
    yaml = YAML(typ="safe", pure=True)
    for page in sorted((ROOT / "docs").glob("*.md")):
        text = page.read_text(encoding="utf-8")
        block = r"<!-- file: (\S+)\.(?:yaml|json) -->\n```\w+\n(.*?)```"
        for name, written in re.findall(block, text, re.DOTALL):
            if "broken" not in name and "config" not in name:
                yield pytest.param(yaml.load(written), id=f"{page.stem}-{name}")
    for file in sorted((ROOT / "examples").rglob("*.yaml")):
        yield pytest.param(yaml.load(file.read_text(encoding="utf-8")), id=file.parent.name)


@pytest.mark.parametrize("data", [*documented()])
def test_what_the_docs_show_fits(data):
    if isinstance(data, dict) and find_blueprint(data) is None and "name" not in data:
        VALID.validate(data)


WHOLE = {
    "env": {"allow": ["TOKEN"], "TOKEN": "abc", "DEBUG": True},
    "defaults": {"timeout": 3, "on_error": {"timeout": "block"}, "model": "openai/m"},
    "history": "digest",
    "max_retries": 2,
    "definitions": {"secrets": {"redact": ["email"]}},
    "hooks": {
        "before_tool_call": [
            {"name": "a", "tools": ["x*"], "when": "1 > 0", "block": "no", "status": 403},
            {"name": "b", "$ref": "secrets", "priority": 5, "lane": "transform", "mode": "shadow"},
            {"name": "c", "command": ["true"], "timeout": 1.5, "on_error": "block"},
        ],
        "pre_request": [
            {"builtin": "log_request", "config": {"verbose": True, "level": "debug"}},
            {"builtin": "redact", "config": {"kinds": ["secrets"], "restore": "tools"}},
            {"redact": {"kinds": ["secrets"], "patterns": ["email"], "restore": ["tools", "text"]}},
        ],
        "on_run_start": {"type": "approval", "question": "May it?", "timeout": 60},
    },
    "agents": {
        "a": {
            "model": {"replies": ["hello", {"tool": "t", "args": {"x": 1}}]},
            "system_prompt": "Be kind",
            "tools": [{"agent": "d"}],
            "max_iterations": 3,
            "tags": ["x"],
            "hooks": {"on_result": [{"block": "no", "when": "false"}]},
        },
        "b": {"type": "procedural", "command": ["true"], "env": {"A": "b"}, "demands": ["gpu"]},
        "c": "./c.py:graph",
        "d": {"system_prompt": "without a model of its own"},
    },
    "server": {"port": 2025, "capacity": 4, "log_level": "info", "lease_seconds": 30},
    "auth": {"keys": True},
    "http": {"cors": {"allow_origins": ["https://x.example"], "max_age": 5}, "disable_mcp": True},
    "store": {"ttl": {"default_ttl": 5, "refresh_on_read": True}},
    "checkpointer": {"ttl": {"strategy": "delete", "default_ttl": 5}},
    "retention": {"runs_days": 3},
    "limits": {"body_bytes": 1000, "header_seconds": 0},
    "approvals": {"roles": ["member"]},
    "outbound": {"allow": ["x.example"]},
    "data_dir": "./data",
    "gateway": {
        "upstreams": {"x": {"url": "https://x.example/v1", "format": "openai", "models": "x/*"}},
        "prices": {"x/*": {"input": 1, "output": 2.5}},
        "blocked_tool": "drop",
    },
}


@pytest.mark.parametrize(
    "hook",
    [
        {"builtin": "rate_limit", "config": {"limit": "many"}},
        {"builtin": "log_request", "config": {"verbos": True}},
        {"builtin": "rate_limit", "config": {}},
    ],
)
def test_options_of_built_in_hooks_are_known_where_they_are_used(hook):
    used = {"hooks": {"before_llm_call": hook}}
    assert not VALID.is_valid(used)
    assert not accepted(used)[0]
    unused = {"hooks": {}, "definitions": {"later": hook}}
    assert VALID.is_valid(unused)
    assert accepted(unused)[0]


def accepted(data):
    """Whether the loader takes a document, and what it says to it."""
    try:
        load_text(json.dumps(data), "json", base=ROOT)
    except ConfigError as error:
        return False, error.problems
    return True, ()


def places(data, path=()):
    """Every place in a document."""
    yield path
    items = data.items() if isinstance(data, dict) else enumerate(data)
    for key, value in items:
        if isinstance(value, (dict, list)):
            yield from places(value, (*path, key))
        else:
            yield (*path, key)


def changed(path, value, *, inside=False):
    """The document with another value at a place, or with an unknown key inside it."""
    made = copy.deepcopy(WHOLE)
    holder = made
    for step in path if inside else path[:-1]:
        holder = holder[step]
    holder["no_such_key" if inside else path[-1]] = value
    return made


def test_a_whole_file_fits_both():
    assert accepted(WHOLE) == (True, ())
    VALID.validate(WHOLE)


PLACES = [path for path in places(WHOLE) if path]


@pytest.mark.parametrize("value", [None, "word", -0.5, [], {}])
def test_what_the_schema_refuses_the_loader_refuses(value):
    refused = [path for path in PLACES if not VALID.is_valid(changed(path, value))]
    assert len(refused) > len(PLACES) / 3
    assert [path for path in refused if accepted(changed(path, value))[0]] == []


def test_a_key_that_the_loader_does_not_know_is_unknown_to_the_schema():
    for path in [(), *PLACES]:
        holder = WHOLE
        for step in path:
            holder = holder[step]
        if not isinstance(holder, dict):
            continue
        data = changed(path, 1, inside=True)
        _, problems = accepted(data)
        unknown = any("unknown key 'no_such_key'" in each.found for each in problems)
        assert bool(problems) >= (not VALID.is_valid(data)) >= unknown, path
