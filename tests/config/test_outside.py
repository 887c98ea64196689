"""Hooks of files that call services and agents: what they are handed, and what can be wrong."""

import logging
import sys

import pytest
from standardwebhooks import Webhook
from tests.actions.web import Service, reply

from checkrail.actions.outside import Outside
from checkrail.config import (
    ConfigError,
    Reloader,
    load,
    load_blueprint,
    load_blueprint_hooks,
    load_text,
)
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import RunResult

AGENT = "hooks: {on_run_start: {type: agent, agent_name: check, on_error: block}}\n"


class Agents:
    """Stands where the run server stands."""

    def __init__(self):
        self.asked = []

    async def __call__(self, agent_name, parameters, event, timeout):
        self.asked.append((agent_name, timeout))
        return {"action": "block", "block_reason": f"{agent_name} says no"}


async def reason(specs) -> str:
    registry = HookRegistry()
    registry.swap(specs)
    return (await registry.fire("on_run_start", {})).reason


async def test_whoever_loads_hands_it_to_the_hooks(write):
    agents = Agents()
    outside = Outside(agents=agents, serving=True)
    path = write("checkrail.yaml", AGENT)
    told = {"on_run_start": {"type": "agent", "agent_name": "check", "on_error": "block"}}
    for specs in (
        load(path, outside=outside).specs,
        load_text(AGENT, outside=outside).specs,
        load_blueprint_hooks("a", told, outside=outside),
    ):
        assert await reason(specs) == "check says no"
    assert agents.asked == [("check", 300)] * 3


async def test_what_a_request_names_itself_is_not_signed_with_the_servers_secret():
    outside = Outside(allow=("127.0.0.1",), secret="whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    own = outside.signing_secret(("ann", "poet"))
    async with Service(reply({})) as service:
        blueprint = {
            "name": "poet",
            "model": {"provider": "scripted", "replies": ["x"]},
            "definitions": {"mine": {"url": service.url}, "taken": {"url": service.url}},
            "hooks": {
                "on_run_finish": [
                    *({"$ref": name} for name in ("audit", "mine", "taken")),
                    {"url": service.url},
                ]
            },
        }
        lent = {"audit": {"url": service.url}, "taken": {"url": service.url}}
        told = {"definitions": lent, "outside": outside, "signer": ("ann", "poet")}
        registry = HookRegistry()
        registry.swap(load_blueprint(blueprint, **told).hooks)
        await registry.fire("after_run", RunResult("success", {}))
    keys = [outside.secret, own, own, own]
    assert len(service.asked) == 4
    for key, (_, headers, content) in zip(keys, service.asked, strict=True):
        Webhook(key).verify(content, headers)


async def test_it_is_read_when_a_hook_is_called(write):
    outside = Outside(serving=True)
    loaded = load(write("checkrail.yaml", AGENT), outside=outside)
    assert "could not be reached" in await reason(loaded.specs)
    outside.agents = Agents()
    assert await reason(loaded.specs) == "check says no"


async def test_a_reload_hands_on_the_same(write):
    outside = Outside(agents=Agents(), serving=True)
    registry = HookRegistry()
    reloader = Reloader(write("checkrail.yaml", AGENT), registry, outside)
    reloader.load()
    write("checkrail.yaml", AGENT.replace("agent_name: check", "agent_name: other"))
    assert reloader.reload() is True
    assert (await registry.fire("on_run_start", {})).reason == "other says no"


async def test_the_agents_of_the_file_have_it_too(write):
    outside = Outside(agents=Agents(), serving=True)
    write("agents/b.yaml", f"name: b\ncommand: [x]\n{AGENT}")
    text = f"agents:\n  check: {{command: [x]}}\n  a: {{command: [x], {AGENT.strip()}}}\n"
    loaded = load(write("checkrail.yaml", text), outside=outside)
    assert loaded.warnings == ()
    for name in ("a", "b"):
        assert await reason(loaded.agents[name].hooks) == "check says no"


@pytest.mark.parametrize(
    ("extra", "time"),
    [
        ("", 300),
        ("timeout: 3", 3),
        ("timeout_seconds: 4", 4),
        ("defaults", 9),
        ("defaults, timeout: 3", 3),
    ],
)
async def test_the_time_that_a_run_has_is_that_of_its_hook(extra, time):
    agents = Agents()
    defaults = "defaults: {timeout: 9}\n" if extra.startswith("defaults") else ""
    said = extra.removeprefix("defaults").removeprefix(", ")
    text = f"{defaults}{AGENT}".replace("on_error: block", f"on_error: block, {said}")
    (spec,) = load_text(text, outside=Outside(agents=agents, serving=True)).specs
    await reason([spec])
    assert (spec.timeout, agents.asked[0][1]) == (time, time)


def test_agents_are_warned_of_where_no_server_is_meant_to_run(caplog):
    (warning,) = load_text(AGENT).warnings
    assert str(warning) == (
        "<text>:1 hooks.on_run_start: agent hooks need the run server, which is not running here "
        "(until then it fails as unreachable)"
    )
    assert load_text(AGENT, outside=Outside(serving=True)).warnings == ()
    assert load_text(AGENT.replace("block}", "block, mode: off}")).warnings == ()
    with caplog.at_level(logging.WARNING, "checkrail"):
        load_text("hooks: {on_result: {url: 'https://hooks.example/'}}")
    assert not caplog.text


def test_on_error_may_come_from_the_defaults_by_kind_too():
    text = f"defaults: {{on_error: {{timeout: continue, error: block}}}}\n{AGENT}"
    (spec,) = load_text(text.replace(", on_error: block", "")).specs
    assert spec.on_error == {"timeout": "continue", "error": "block"}


@pytest.mark.parametrize(("allow", "decision"), [("[]", "block"), ("[127.0.0.1]", "continue")])
async def test_without_a_server_the_file_says_where_hooks_may_go(allow, decision):
    async with Service(reply({"action": "continue"})) as service:
        text = f"""
            outbound: {{ allow: {allow}, webhook_secret: sign-with-this }}
            hooks:
              before_run: {{ url: "{service.url}", on_error: block }}
        """
        registry = HookRegistry()
        registry.swap(load_text(text).specs)
        verdict = await registry.fire("before_run", {})
    assert (verdict.decision, len(service.asked)) == (decision, decision == "continue")
    assert all("webhook-signature" in headers for _, headers, _ in service.asked)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("url: ftp://x", "url: found the text 'ftp://x', expected a text like "),
        ("url: 'https://a:b@host/'", "url: the URL has a user name or password"),
        ("url: 'https://host:99999/'", "url: the URL's port is 99999"),
        ("headers: {X: 1}\nurl: 'https://h/'", "headers.X: found something else, expected a te"),
        ("headers: {A: b}\nurl: 'https://h:0/'", "url: the URL's port is 0"),
        ("url: 'https://h/'\nheaders: [x]", "headers: found a list, expected a mapping"),
        ("url: 'https://h/'\nheaders: {Host: x}", "headers: the header Host among `headers` cann"),
        ("url: 'https://h/'\nheaders: {A b: x}", "headers: the header 'A b' among `headers` has"),
        ("url: 'https://h/'\nheaders: {url a: x}", "headers: the header 'url a' among `headers`"),
        ("url: 'https://h/'\nsecret: 12345678", "secret: found something else, expected a text"),
        ("url: 'https://h/'\nsecret: whsec_%%%", "secret: the signing secret begins with whsec_"),
        ("url: 'https://h/'\nmethod: GET", "method: found the text 'GET', expected 'POST', 'PUT'"),
        ("block: x\nsecret: abc", "secret: `secret`, which is for hooks of type http, beside"),
        ("type: agent\nagent_name: 5\non_error: block", "agent_name: found the number 5, expected"),
        ("type: agent\nagent_name: ${X}\non_error: block", "a variable in `agent_name`"),
    ],
)
def test_problems_are_told_with_their_place(told, keys, expected):
    lines = "".join(f"    {line}\n" for line in keys.splitlines())
    (problem,) = told(f"hooks:\n  before_run:\n{lines}")
    assert expected in problem


@pytest.mark.parametrize("key", ["secret: whsec_%s!", "headers: {A: 5, B: '%s'}", "secret: [%s]"])
def test_no_problem_repeats_a_secret_of_the_file(key):
    text = f"hooks: {{before_run: {{url: 'https://h/', {key % 's3cretive'}}}}}"
    with pytest.raises(ConfigError) as raised:
        load_text(text)
    assert "s3cretive" not in str(raised.value)


def test_a_secret_that_stands_in_the_file_is_scrubbed():
    loaded = load_text("hooks: {before_run: {url: 'https://h/', secret: in-the-file}}")
    assert loaded.scrub("in-the-file") == "(the secret)"
    assert "in-the-file" not in repr(loaded)


def test_a_hook_that_is_off_needs_no_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpcore2", None)
    text = "hooks: {before_run: {url: 'https://h/'%s}}"
    assert load_text(text % ", enabled: false").specs[0].mode == "off"
    with pytest.raises(ConfigError, match=r'needs httpx2: pip install "checkrail\[server\]"'):
        load_text(text % "")


SERVICE = 'hooks: {before_run: {type: http, url: "%s", on_error: block}}\n'


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://169.254.169.254/latest/meta-data", "where clouds keep their metadata"),
        ("https://10.1.2.3/hook", "a private network"),
        ("http://hooks.example.com/hook", "it is not https"),
    ],
)
def test_a_url_that_no_request_may_go_to_is_a_problem(url, why):
    with pytest.raises(ConfigError) as error:
        load_text(SERVICE % url)
    (problem,) = error.value.problems
    assert why in problem.found
    assert "outbound.allow" in problem.hint


def test_a_url_that_the_file_lists_is_none():
    listed = "outbound: {allow: [10.1.0.0/16]}\n" + SERVICE % "http://10.1.2.3/hook"
    assert load_text(listed).warnings == ()


def test_of_this_machine_the_file_is_warned_unless_a_server_loads_it():
    text = SERVICE % "http://127.0.0.1:9000/hook"
    (warning,) = load_text(text).warnings
    assert "127.0.0.1 is this machine itself" in warning.found
    assert "`checkrail dev` alone allows it" in warning.found
    assert load_text(text, outside=Outside(serving=True)).warnings == ()


def test_a_hook_that_is_off_may_name_any_url():
    assert load_text((SERVICE % "http://10.1.2.3").replace("block}", "block, enabled: false}"))
