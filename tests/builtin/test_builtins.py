"""What all built-in hooks have in common."""

import subprocess
import sys

import pytest

import checkrail.builtin
from checkrail import CheckrailError, HookRegistry
from checkrail.builtin import BUILTINS, BuiltinConfigError
from checkrail.builtin.base import KEPT
from checkrail.builtin.options import MODELS
from checkrail.engine.errors import HookRefusedError
from checkrail.engine.points import CONTRACTS, HookPoint
from checkrail.testing import RecordingRegistry, assert_allowed, event, sample

NAMES = [
    "log_request",
    "log_response",
    "strip_provider_fields",
    "redact",
    "tool_policy",
    "provider_tools",
    "rate_limit",
    "schema_check",
    "require_tools",
    "inject_system",
    "route_model",
    "cache",
    "budget",
    "greeting",
    "profanity",
    "quiet_hours",
    "allow_users",
    "attachment_limits",
    "session_summary",
]
UNSERVED = [name for name in NAMES if not BUILTINS[name].runs_agent]


NIGHT = {"timezone": "UTC", "from": "22:00", "to": "07:00"}


def test_the_catalogue_names_every_hook_and_its_model():
    assert list(BUILTINS) == NAMES
    assert list(MODELS) == NAMES
    assert all(BUILTINS[name].name == name for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_can_be_made_from_its_example_and_registered_at_its_points(name):
    builtin = BUILTINS[name]
    registry = HookRegistry()
    hook = builtin.make(builtin.example)
    lanes = {"lane": builtin.lane, "observes": builtin.observes}
    spec = registry.register(hook, *builtin.points, **lanes)
    assert spec.name == name
    for point in builtin.points:
        assert builtin.lane_at(point) in CONTRACTS[point].lanes
        assert registry.bound_hooks(point)[0].lane is builtin.lane_at(point)


@pytest.mark.parametrize("name", NAMES)
def test_each_function_brings_its_points_and_its_lanes(name):
    builtin = BUILTINS[name]
    registry = HookRegistry()
    registry.register(getattr(checkrail.builtin, name), config=builtin.example)
    for point in builtin.points:
        assert registry.bound_hooks(point)[0].lane is builtin.lane_at(point)


@pytest.mark.parametrize("name", UNSERVED)
async def test_each_is_a_plain_function_that_reads_its_options_from_the_event(name):
    builtin = BUILTINS[name]
    registry = RecordingRegistry()
    function = getattr(checkrail.builtin, name)
    registry.register(function, *builtin.points, config=builtin.example, name="mine")
    for point in builtin.points:
        await registry.fire(point, sample(point))
    assert [record.failure for record in registry.records] == [None] * 2 * len(builtin.points)


@pytest.mark.parametrize("name", NAMES)
def test_every_option_is_described(name):
    fields = BUILTINS[name].config_model.model_fields
    assert fields
    assert all(field.description for field in fields.values())
    assert BUILTINS[name].config_model.model_json_schema()["additionalProperties"] is False


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_refused_and_the_known_ones_are_named(name):
    with pytest.raises(BuiltinConfigError) as caught:
        BUILTINS[name].make({**BUILTINS[name].example, "colour": "red"})
    error = caught.value
    assert (error.hook, error.key, error.found) == (name, "colour", "unknown")
    fields = BUILTINS[name].config_model.model_fields
    assert all((field.alias or key) in error.expected for key, field in fields.items())
    assert isinstance(error, CheckrailError)


@pytest.mark.parametrize(
    ("name", "config", "text"),
    [
        (
            "log_request",
            {"verbos": True},
            "expected one of the options level, verbose (did you mean 'verbose'?)",
        ),
        ("log_request", {"verbose": "yes"}, "option 'verbose' is 'yes', expected a valid boolean"),
        (
            "log_response",
            {"level": "warn"},
            "'info', 'warning' or 'error' (did you mean 'warning'?)",
        ),
        ("redact", {"kinds": ["emial"]}, "'secrets', 'email' or 'card' (did you mean 'email'?)"),
        ("redact", {"label": "x"}, "option 'label' is unknown"),
        ("redact", {"patterns": {"x": "("}}, "a regular expression for 'x' (missing )"),
        ("redact", {"patterns": {"x": "a*"}}, "a regular expression for 'x' that cannot match"),
        ("redact", {"kinds": []}, "something to look for: give `kinds`, `patterns` or both"),
        ("redact", {"fields": []}, "option 'fields' is [], expected paths, such as args.body"),
        ("redact", {"fields": ["."]}, "option 'fields' is ['.'], expected paths"),
        ("tool_policy", {}, "expected a policy: give `allow`, `deny` or both"),
        ("tool_policy", {"deny": "x"}, "option 'deny' is 'x', expected a valid list"),
        ("tool_policy", {"deny": ["/(/"]}, "option 'deny[0]' is '/(/', expected a glob, or"),
        ("tool_policy", {"deny": ["x"], "status": 200}, "option 'status' is 200, expected greater"),
        ("provider_tools", {}, "expected a policy: give `allow`, `deny` or both"),
        ("provider_tools", {"deny": ["x"], "on_denied": "strp"}, "(did you mean 'strip'?)"),
        ("rate_limit", {}, "option 'limit' is missing, expected a value: it has no default"),
        ("rate_limit", {"limit": 0}, "option 'limit' is 0, expected greater than or equal to 1"),
        ("rate_limit", {"limit": True}, "option 'limit' is True, expected a valid integer"),
        ("rate_limit", {"limit": 1, "per": "soon"}, "option 'per' is 'soon', expected seconds, or"),
        ("rate_limit", {"limit": 1, "per": 0}, "option 'per' is 0, expected greater than 0"),
        ("rate_limit", {"limit": 1, "per": float("inf")}, "option 'per' is inf, expected a finite"),
        ("rate_limit", {"limit": 1, "by": ["users"]}, "(did you mean 'user'?)"),
        ("rate_limit", {"limit": 1, "by": ["keys"]}, "(did you mean 'key'?)"),
        ("budget", {}, "expected a limit: give `tokens`, `cost` or both"),
        ("budget", {"tokens": 0}, "option 'tokens' is 0, expected greater than or equal to 1"),
        ("budget", {"cost": 0}, "option 'cost' is 0, expected greater than 0"),
        ("budget", {"cost": 1, "per": "dai"}, "(did you mean 'day'?)"),
        ("budget", {"cost": 1, "by": ["tool"]}, "option 'by[0]' is 'tool', expected 'key', 'user'"),
        ("cache", {"ttl": 0}, "option 'ttl' is 0, expected greater than 0"),
        ("cache", {"ttl": "soon"}, "option 'ttl' is 'soon', expected seconds, or a number with"),
        ("cache", {"max_entries": 0}, "option 'max_entries' is 0, expected greater than or equal"),
        ("cache", {"share": True}, "(did you mean 'shared'?)"),
        ("inject_system", {}, "expected either `text` or `file`"),
        ("inject_system", {"text": "a", "file": "b"}, "expected either `text` or `file`"),
        ("inject_system", {"text": ""}, "option 'text' is ''"),
        ("inject_system", {"text": "a", "position": "first"}, "'before', 'after' or 'replace'"),
        ("inject_system", {"file": "no/such.txt"}, "option 'file' is 'no/such.txt', expected a"),
        ("route_model", {}, "option 'rules' is missing"),
        ("route_model", {"rules": []}, "option 'rules' is []"),
        ("route_model", {"rules": [{}]}, "option 'rules[0].to' is missing"),
        ("route_model", {"rules": [{"to": "a", "models": []}]}, "option 'rules[0].models' is []"),
        ("route_model", {"rules": [{"to": "a", "users": ["/(/"]}]}, "a glob, or a regular"),
        ("schema_check", {}, "expected either `schema` or `schemas`"),
        ("schema_check", {"schema": {}, "schemas": {}}, "expected either `schema` or `schemas`"),
        (
            "schema_check",
            {"schema": {"type": "bogus"}},
            "{'type': 'bogus'}, expected a JSON Schema ($.type: ",
        ),
        ("schema_check", {"schemas": {"x": {"type": 1}}}, "option 'schemas.x' is {'type': 1}"),
        ("greeting", {}, "option 'text' is missing"),
        ("greeting", {"text": ""}, "option 'text' is ''"),
        ("profanity", {"words": ["*"]}, "a word, or the beginning of words with a * at its end"),
        ("profanity", {"words": ["a*b"]}, "option 'words[0]' is 'a*b', expected a word"),
        ("profanity", {"words": ["?!"]}, "option 'words[0]' is '?!', expected a word"),
        ("profanity", {"defaults": False}, "expected something to look for: give `words`"),
        ("profanity", {"on_found": "msak"}, "(did you mean 'mask'?)"),
        ("quiet_hours", {"from": "22:00", "to": "7:00"}, "option 'timezone' is missing"),
        ("quiet_hours", NIGHT | {"timezone": "Mars/Base"}, "expected the name of a time zone"),
        ("quiet_hours", NIGHT | {"timezone": "../etc/passwd"}, "expected the name of a time zone"),
        ("quiet_hours", NIGHT | {"from": "24:01"}, "'24:01', expected a time of day from 00:00"),
        ("quiet_hours", NIGHT | {"from": 22}, "option 'from' is 22, expected a time of day"),
        ("quiet_hours", NIGHT | {"days": []}, "option 'days' is []"),
        ("quiet_hours", NIGHT | {"days": ["monday"]}, "(did you mean 'mon'?)"),
        ("allow_users", {}, "expected a policy: give `allow`, `deny` or both"),
        ("allow_users", {"allow": ["/(/"]}, "option 'allow[0]' is '/(/', expected a glob, or"),
        ("attachment_limits", {}, "expected a limit: give `max_count`, `max_size`, `max_total`"),
        ("attachment_limits", {"max_size": "10 M"}, "expected bytes, or a number with a unit"),
        ("attachment_limits", {"max_size": -1}, "option 'max_size' is -1, expected greater than"),
        ("attachment_limits", {"max_count": True}, "option 'max_count' is True, expected a valid"),
        ("session_summary", {}, "option 'agent' is missing"),
        ("session_summary", {"agent": "a b"}, "option 'agent' is 'a b'"),
        ("session_summary", {"agent": "a", "timeout": 0}, "option 'timeout' is 0, expected great"),
        ("strip_provider_fields", {"providers": [1]}, "option 'providers[0]' is 1, expected a"),
    ],
)
def test_a_bad_option_is_named_with_what_was_found_and_what_is_expected(name, config, text):
    with pytest.raises(BuiltinConfigError) as caught:
        BUILTINS[name].make(config)
    assert str(caught.value).startswith(f"built-in hook {name!r}: option ")
    assert text in str(caught.value)


def test_a_config_that_is_no_mapping_is_refused():
    with pytest.raises(BuiltinConfigError) as caught:
        BUILTINS["redact"].make(["kinds"])
    assert (caught.value.key, caught.value.found) == ("config", "['kinds']")


def test_what_was_found_is_shown_in_few_words():
    with pytest.raises(BuiltinConfigError) as caught:
        BUILTINS["rate_limit"].make({"limit": "9" * 1000})
    assert len(caught.value.found) < 100


async def test_a_bad_config_that_shows_at_the_first_call_lets_nothing_pass():
    registry = HookRegistry()
    registry.register(checkrail.builtin.tool_policy, "before_tool_call", config={"deni": ["x"]})
    verdict = await registry.fire("before_tool_call", sample("before_tool_call"))
    assert verdict.decision == "fail"
    assert verdict.code == "hook_invalid"
    assert "did you mean 'deny'?" in verdict.reason


@pytest.mark.parametrize(
    ("name", "point", "reads"),
    [
        ("log_request", "after_llm_call", "ModelRequest"),
        ("log_response", "before_llm_call", "AssistantMessage"),
        ("strip_provider_fields", "after_llm_call", "ModelRequest"),
        ("tool_policy", "before_llm_call", "ToolCall"),
        ("inject_system", "after_llm_call", "ModelRequest"),
        ("route_model", "after_llm_call", "ModelRequest"),
        ("cache", "before_tool_call", "ModelRequest"),
        ("budget", "before_tool_call", "ModelRequest"),
        ("greeting", "before_inbound", "OutboundMessage"),
        ("profanity", "before_run", "InboundMessage or OutboundMessage"),
        ("quiet_hours", "before_outbound", "InboundMessage"),
        ("allow_users", "before_outbound", "Session or InboundMessage"),
        ("attachment_limits", "before_outbound", "InboundMessage"),
    ],
)
def test_a_hook_at_a_point_that_it_cannot_read_is_refused(name, point, reads):
    builtin = BUILTINS[name]
    for hook in (builtin.make(builtin.example), getattr(checkrail.builtin, name)):
        with pytest.raises(HookRefusedError, match=f"reads {reads}") as refused:
            HookRegistry().register(hook, point, config=builtin.example)
        assert f"but {point} carries" in refused.value.problem
        assert f"Register it at {builtin.points[0]}" in refused.value.remedy


@pytest.mark.parametrize("name", UNSERVED)
async def test_where_a_hook_can_be_registered_it_can_read_what_flows(name):
    builtin = BUILTINS[name]
    hook = builtin.make(builtin.example)
    for point in HookPoint:
        registry = RecordingRegistry()
        try:
            lane = builtin.lane_at(point)
            registry.register(hook, point, lane=lane, observes=frozenset())
        except HookRefusedError:
            continue
        await registry.fire(point, sample(point), run_id="r", user="ann")
        assert [record.failure for record in registry.records if record.failure] == [], point


def test_a_plain_function_makes_its_hook_once_for_each_config():
    builtin = BUILTINS["tool_policy"]
    first = event("before_tool_call", config={"deny": ["a"]})
    second = event("before_tool_call", config={"deny": ["a"]})
    assert builtin.hook_for(first) is builtin.hook_for(first)
    assert builtin.hook_for(first) is not builtin.hook_for(second)


def test_the_hooks_of_configs_that_nobody_uses_any_more_are_forgotten():
    builtin = BUILTINS["log_response"]
    used = event("after_llm_call", config={"level": "debug"})
    hook = builtin.hook_for(used)
    for _ in range(KEPT * 2):
        builtin.hook_for(event("after_llm_call", config={"level": "info"}))
        assert builtin.hook_for(used) is hook
    assert len(builtin._made) == KEPT


async def test_built_in_hooks_stand_beside_each_other():
    registry = RecordingRegistry()
    for builtin in BUILTINS.values():
        config = {"limit": 100} if builtin.name == "rate_limit" else builtin.example
        lanes = {"lane": builtin.lane, "observes": builtin.observes}
        registry.register(builtin.make(config), *builtin.points, **lanes)
    assert_allowed(await registry.fire("before_llm_call", sample("before_llm_call")))
    names = [record.hook for record in registry.records[::2]]
    transforms = ["strip_provider_fields", "redact", "provider_tools", "inject_system"]
    transforms += ["route_model", "cache"]
    assert names == [*transforms, "rate_limit", "budget", "log_request"]


def test_importing_them_is_light():
    code = (
        "import sys, checkrail.builtin, checkrail.telemetry, checkrail.testing;"
        "heavy = {'pydantic', 'jsonschema_rs', 'opentelemetry', 'prometheus_client'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
