"""Secrets that are taken out of requests stand again in the tool calls that come back."""

from __future__ import annotations

import itertools
import json
import logging
import sys
import urllib.request
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from checkrail import Block, Fail
from checkrail.config import load_text
from checkrail.llm.patterns import scrub_text
from checkrail.llm.secret_vault import KEPT, PLACEHOLDER

from .agents import CONVERSATION, FileAgent, compact
from .command import gateway_process, here
from .dialects import CLOUDS, DIALECTS
from .provider import Provider, Say
from .sdks import SDKS, WAYS
from .talking import Talk

TOKEN = "sk-proj-Qz7Xw9Kv3Jh5Gm2Yt8Rb"
PASSWORD = 'pä"ss\\\\w0rd😀x9'
PEM = """-----BEGIN RSA PRIVATE KEY-----
MIIEpAIBAAKCAQEA7bq9ZkXyR1Jw0mKq
Vt3uYc5eS8hL2nD6fG4jPxQzWvB9aTrE
-----END RSA PRIVATE KEY-----"""
ENV = f"# ü\nOPENAI_API_KEY={TOKEN}\nDB_PASSWORD='{PASSWORD}'\n{PEM}\nDEBUG=1\r\n\tend"
HIDDEN = ("Qz7Xw9Kv", "w0rd", "7bq9ZkXy", "aTrE")
RULE = "{redact: {kinds: [secrets], restore: tools}}"
BUILTIN = "{builtin: redact, config: {kinds: [secrets], restore: tools}}"
STREAMED = ("chat", "messages", "responses")
"""The APIs whose streams tell arguments as a text."""
BOTH = "{redact: {kinds: [secrets], restore: [tools, text]}}"


@pytest.fixture
def provider():
    with Provider() as made:
        yield made


@pytest.fixture(params=DIALECTS)
def dialect(request):
    return DIALECTS[request.param]


@pytest.fixture(params=[False, True], ids=["whole", "streamed"])
async def talk(request, dialect, provider):
    async with Talk(dialect, provider, stream=request.param) as made:
        load(made, RULE)
        yield made


def load(talk: Talk, rule: str, more: str = "") -> None:
    """Let a redaction hold, and more hooks."""
    talk.hooks.swap(load_text(f"hooks:\n  before_llm_call: [{rule}]\n{more}").specs)


def upstream_saw(provider: Provider) -> str:
    """Return all that went to the model, escapes undone."""
    bodies = [request.body.decode() for request in provider.requests]
    return " ".join(
        [*bodies, *(body.encode().decode("unicode_escape", "ignore") for body in bodies)]
    )


def leaks(*places: Any) -> list[str]:
    found = " ".join(map(str, places))
    return [part for part in HIDDEN if part in found]


async def copy_three_times(agent: FileAgent, **say: Any) -> None:
    """Have a model read a file, write what it read, and write again what it wrote."""
    provider = agent.talk.provider

    def write(path: str, content: str) -> Say:
        return Say("I write.", [("write", {"path": path, "content": content})], **say)

    provider.say(Say("I read.", [("read", {"path": ".env"})], **say))
    provider.say(lambda asked: write("copy", agent.last_result(asked)))
    provider.say(lambda asked: write("again", agent.last_arguments(asked)["content"]))
    provider.say(lambda asked: Say(agent.last_arguments(asked)["content"], **say))
    for _ in range(4):
        await agent.turn()


@pytest.mark.parametrize("dump", [json.dumps, compact], ids=["escaped", "compact"])
@pytest.mark.parametrize("rule", [RULE, BUILTIN], ids=["rule", "builtin"])
async def test_a_file_is_copied_byte_for_byte(talk, provider, rule, dump, caplog):
    caplog.set_level(logging.DEBUG)
    load(talk, rule)
    agent = FileAgent(talk, {".env": ENV}, dump)
    await copy_three_times(agent)
    assert agent.files == {".env": ENV, "copy": ENV, "again": ENV}
    assert not leaks(upstream_saw(provider), talk.told, caplog.text)
    assert len(set(PLACEHOLDER.findall(upstream_saw(provider)))) == 3
    assert "OPENAI_API_KEY=[redacted:secret-" in said_last(agent)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("cloud", CLOUDS)
async def test_a_file_is_copied_at_clouds_too(cloud, stream, provider, caplog):
    caplog.set_level(logging.DEBUG)
    async with Talk(CLOUDS[cloud], provider, stream=stream) as talk:
        load(talk, BOTH)
        agent = FileAgent(talk, {".env": ENV})
        await copy_three_times(agent)
    assert agent.files == {".env": ENV, "copy": ENV, "again": ENV}
    assert said_last(agent) == ENV
    assert not leaks(upstream_saw(provider), talk.told, caplog.text)


async def test_what_went_to_the_model_stays_the_same_byte_for_byte(talk, provider):
    agent = FileAgent(talk, {".env": ENV})
    await copy_three_times(agent)
    bodies = [request.json for request in provider.requests]
    name = CONVERSATION[talk.dialect.name]
    for before, after in itertools.pairwise(bodies):
        said = len(before[name])
        assert compact(after[name][:said]) == compact(before[name])
    for _ in range(2):
        provider.say(Say("Done."))
        await talk.ask(agent.body)
    assert provider.requests[-1].body == provider.requests[-2].body


@pytest.mark.parametrize(
    ("fragment", "cut"), [(1, None), (2, 1), (3, 17), (7, None), (13, 1), (29, 17)]
)
async def test_pieces_of_a_stream_may_end_anywhere(dialect, provider, fragment, cut):
    async with Talk(dialect, provider, stream=True) as talk:
        load(talk, BOTH)
        agent = FileAgent(talk, {".env": ENV})
        await copy_three_times(agent, fragment=fragment, cut=cut)
    assert agent.files == {".env": ENV, "copy": ENV, "again": ENV}
    assert said_last(agent) == ENV
    assert not leaks(upstream_saw(provider))


@pytest.mark.parametrize("way", DIALECTS)
@settings(
    max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    secrets=st.lists(
        st.text(st.characters(exclude_characters="«»", exclude_categories=["Cs"]), min_size=1),
        min_size=1,
        max_size=4,
    ),
    how=st.tuples(st.integers(1, 40), st.booleans(), st.booleans()),
)
async def test_any_text_comes_back(way, provider, secrets, how):
    fragment, stream, escaped = how
    rule = "{redact: {patterns: ['/«[^»]*»/'], restore: [tools, text]}}"
    file = "\n".join(f'{number}: "«{secret}»"' for number, secret in enumerate(secrets))
    provider.anew()
    async with Talk(DIALECTS[way], provider, stream=stream) as talk:
        load(talk, rule)
        agent = FileAgent(talk, {".env": file}, json.dumps if escaped else compact)
        await copy_three_times(agent, fragment=fragment)
    assert agent.files == {".env": file, "copy": file, "again": file}
    assert said_last(agent) == file
    assert "«" not in upstream_saw(provider)


def said_last(agent: FileAgent) -> str:
    """Return the last text of the model, as its client has it."""
    last = agent.messages[-1]
    content = last["parts" if "parts" in last else "content"]
    return content if isinstance(content, str) else content[0]["text"]


async def ask_to_write(agent: FileAgent, content: Any, **ids: Any) -> Any:
    """Have a model call `write`, and return what the client got."""
    agent.talk.provider.say(Say("", [("write", {"path": "f", "content": content})]))
    return await agent.turn(**ids)


async def learn(agent: FileAgent, text: str = f"token={TOKEN}", **ids: Any) -> str:
    """Send a secret, and return what the model saw in its place."""
    agent.tell(text)
    agent.talk.provider.say(Say("Fine."))
    await agent.turn(**ids)
    *_, last = PLACEHOLDER.finditer(agent.talk.provider.last.body.decode())
    return last[0]


async def test_a_placeholder_that_nobody_made_stays_a_text(talk):
    agent = FileAgent(talk, {})
    await learn(agent)
    for forged in ("[redacted:secret-bcdfghjklmnpqrst]", "[redacted:secrets]", "[redacted:", "["):
        await ask_to_write(agent, f"a {forged} b")
        assert agent.files["f"] == f"a {forged} b"


@pytest.mark.parametrize(
    "other", [{"session_id": "s2"}, {"user": "bob"}, {"metadata": {"api_key": "k2"}}]
)
async def test_nobody_gets_what_is_not_theirs(talk, other):
    own = {"session_id": "s1", "user": "ann", "metadata": {"api_key": "k1"}}
    stolen = await learn(FileAgent(talk, {}), **own)
    thief = FileAgent(talk, {})
    hers = await learn(thief, "password = 'an0ther-of-mine'", **{**own, **other})
    got = await ask_to_write(thief, f"{stolen} {hers}", **{**own, **other})
    assert thief.files["f"] == f"{stolen} an0ther-of-mine"
    assert not leaks(got.raw.decode())


async def test_a_text_keeps_its_placeholders_where_tools_alone_are_restored(talk, provider):
    agent = FileAgent(talk, {})
    placeholder = await learn(agent)
    provider.say(Say(f"It is {placeholder}."))
    got = await agent.turn()
    assert got.heard.text == f"It is {placeholder}."
    provider.say(Say(f"It is {placeholder}.", [("write", {"path": "f", "content": placeholder})]))
    got = await agent.turn()
    assert got.heard.text == f"It is {placeholder}."
    assert agent.files["f"] == TOKEN


async def test_text_alone_can_be_restored(talk, provider):
    load(talk, "{redact: {kinds: [secrets], restore: [text]}}")
    agent = FileAgent(talk, {})
    placeholder = await learn(agent)
    provider.say(Say(f"It is {placeholder}.", [("write", {"path": "f", "content": placeholder})]))
    got = await agent.turn()
    assert got.heard.text == f"It is {TOKEN}."
    assert agent.files["f"] == placeholder


async def test_secrets_come_back_wherever_they_are_in_arguments(talk, provider):
    agent = FileAgent(talk, {})
    p = await learn(agent)
    args = {"list": [f"x {p}", {p: [p, 1, None, True]}], "json": json.dumps({"key": p})}
    provider.say(Say("", [("other", args)]))
    got = await agent.turn()
    assert got.heard.calls == [("other", json.loads(json.dumps(args).replace(p, TOKEN)))]
    provider.say(Say("Done."))
    await agent.turn()
    assert agent.last_arguments(provider.last.json) == args
    assert TOKEN not in upstream_saw(provider)


async def test_json_within_arguments_stays_json(talk, provider):
    load(talk, "{redact: {patterns: ['/«[^»]*»/'], restore: tools}}")
    agent = FileAgent(talk, {})
    odd = '«a "quoted" \\ line\n of 1 éclair»'
    p = await learn(agent, f"It is {odd}")
    await ask_to_write(agent, json.dumps({"inner": p}))
    assert json.loads(agent.files["f"]) == {"inner": odd}
    provider.say(Say("Done."))
    await agent.turn()
    assert agent.last_arguments(provider.last.json)["content"] == json.dumps({"inner": p})
    assert "quoted" not in upstream_saw(provider)


async def test_what_a_command_prints_of_a_secret_is_taken_out_too(talk, provider):
    agent = FileAgent(talk, {})
    placeholder = await learn(agent, "password = 'h7nter2x+9more'")
    provider.say(Say("", [("echo", {"say": placeholder})]))
    got = await agent.turn()
    assert got.heard.calls == [("echo", {"say": "h7nter2x+9more"})]
    provider.say(Say("Done."))
    await agent.turn()
    assert "h7nter2" not in upstream_saw(provider)
    assert agent.last_result(provider.last.json).count(placeholder) == 1


@pytest.mark.parametrize("weak", ["letme1", "swordfish", "a b c d e"])
async def test_a_short_secret_or_a_word_is_known_where_it_was_put_back(talk, provider, weak):
    load(talk, "{redact: {patterns: ['/«[^»]*»/'], kinds: [secrets], restore: [tools, text]}}")
    agent = FileAgent(talk, {})
    agent.tell("x", in_parts=True)
    p = await learn(agent, f"password = '{weak}1'" if " " not in weak else f"«{weak}»")
    secret = f"{weak}1" if " " not in weak else f"«{weak}»"
    inner = json.dumps({"a": f'"{p}"'})
    provider.say(Say(f"Use {p}", [("echo", {"run": f"log in {p}", "again": [p, inner]})]))
    got = await agent.turn()
    assert got.heard.text == f"Use {secret}"
    assert got.heard.calls[0][1]["run"] == f"log in {secret}"
    for _ in range(2):
        provider.say(Say("Done."))
        await talk.ask(agent.body)
        asked = provider.last.json
        assert agent.last_arguments(asked) == {"run": f"log in {p}", "again": [p, inner]}
    assert f"Use {p}" in upstream_saw(provider)


async def test_the_same_text_in_json_and_out_of_it_stays_apart(talk, provider):
    secret = '«a"b\\nc d 12345»'
    escaped = json.dumps(secret)[1:-1]
    file = f"raw: {secret}\nescaped: {escaped}\njson: {json.dumps({'x': secret})}"
    load(talk, "{redact: {patterns: ['/«[^»]*»/'], restore: tools}}")
    agent = FileAgent(talk, {".env": file})
    await copy_three_times(agent)
    assert agent.files == {".env": file, "copy": file, "again": file}
    for one in (secret, escaped, json.dumps({"x": secret})):
        agent = FileAgent(talk, {".env": one})
        await copy_three_times(agent)
        assert agent.files == {".env": one, "copy": one, "again": one}
    assert "12345" not in upstream_saw(provider)


async def test_what_is_found_late_is_taken_out_of_what_came_before(talk, provider):
    agent = FileAgent(talk, {})
    agent.tell("It is h7nter2x+9more, I think")
    await learn(agent, "password = 'h7nter2x+9more'")
    assert "h7nter2" not in upstream_saw(provider)


@pytest.mark.parametrize(
    ("way", "stream"), [("chat", False), ("responses", False), *((name, True) for name in STREAMED)]
)
async def test_arguments_that_are_no_json_are_blocked(provider, way, stream):
    async with Talk(DIALECTS[way], provider, stream=stream) as talk:
        load(talk, RULE)
        agent = FileAgent(talk, {})
        placeholder = await learn(agent)
        provider.say(Say("", [("write", f'{{"path": "f", "content": "{placeholder}"')]))
        got = await talk.ask(agent.body)
    assert not got.heard.calls
    assert "write was not called" in got.heard.text


async def test_what_the_provider_keeps_of_a_conversation_is_restored_too(talk):
    agent = FileAgent(talk, {})
    placeholder = await learn(agent, session_id="s1")
    agent.body = talk.dialect.request("And now?", stream=talk.stream)
    await ask_to_write(agent, placeholder, session_id="s1")
    assert agent.files["f"] == TOKEN


async def test_a_secret_that_is_not_known_any_more_blocks_the_call(talk):
    agent = FileAgent(talk, {})
    placeholder = await learn(agent)
    talk.gateway.vaults._vaults.clear()
    agent.body = talk.dialect.request("And now?", stream=talk.stream)
    got = await ask_to_write(agent, f"token={placeholder}")
    assert agent.files == {}
    assert (
        "write was not called: its arguments have a redacted secret that is not" in got.heard.text
    )


GATES = f"""
  before_tool_call:
    - {{name: judge, tools: [write], when: 'tool_call.args.content == "{TOKEN}"', block: Not this}}
    - name: other
      tools: [other]
      when: tool_call.text.contains("{TOKEN}")
      set: {{args.by: us}}
    - {{name: broken, tools: [broken], when: 'int(tool_call.args.content) > 1', block: Too much}}
"""


async def test_gates_judge_what_will_run_and_records_tell_no_secret(talk, provider, caplog):
    caplog.set_level(logging.DEBUG)
    load(talk, RULE, GATES)
    agent = FileAgent(talk, {})
    p = await learn(agent)
    got = await ask_to_write(agent, p)
    assert got.heard.text == "write was not called: Not this"
    calls = [("other", {"content": p}), ("broken", {"content": p})]
    provider.say(Say("", calls))
    got = await agent.turn()
    assert got.heard.calls == [("other", {"content": TOKEN, "by": "us"})]
    assert "broken was not called" in got.heard.text
    changed = next(each for each in talk.records if each.hook == "other" and each.changed)
    assert changed.redacted
    assert not leaks(talk.told, caplog.text, got.heard.text)


async def test_a_hook_in_python_cannot_tell_a_record_or_a_caller(talk, provider, caplog):
    caplog.set_level(logging.DEBUG)

    def refuse(event: Any, call: Any) -> Any:
        if call.name == "boom":
            raise ValueError(f"wrong: {call.args}")
        return {"block": Block, "fail": Fail}[call.name](f"I saw {call.args['content']}")

    load(talk, RULE)
    talk.hooks.register(refuse, "before_tool_call", name="tells", lane="gate", on_error="block")
    agent = FileAgent(talk, {})
    p = await learn(agent)
    for name in ("block", "fail", "boom"):
        provider.say(Say("", [(name, {"content": p})]))
        got = await talk.ask(agent.body)
        assert not leaks(got.raw.decode())
    assert not leaks(talk.told, caplog.text)


async def test_a_model_that_is_told_why_reads_no_secret(dialect, provider):
    async with Talk(dialect, provider, stream=True, blocked_tool="continue") as talk:
        load(talk, RULE, GATES)
        agent = FileAgent(talk, {})
        weak = await learn(agent, "password = 'letme1'")
        p = await learn(agent)
        provider.say(Say("", [("write", {"content": p}), ("other", {"content": weak})]))
        provider.say(Say("Then not."))
        got = await agent.turn()
    assert got.heard.text == "Then not."
    assert not leaks(upstream_saw(provider))
    assert "letme1" not in upstream_saw(provider)
    assert provider.last.body.decode().count(p) >= 2


async def test_shadow_takes_nothing_out_and_holds_nothing(talk, provider):
    load(talk, "{mode: shadow, redact: {kinds: [secrets], restore: tools}}")
    assert not talk.hooks.has("after_llm_call")
    provider.say(Say("Hello"))
    await talk.ask(talk.dialect.request(TOKEN, stream=talk.stream))
    assert TOKEN in upstream_saw(provider)


async def test_answers_in_the_background_are_refused(provider):
    async with Talk(DIALECTS["responses"], provider) as talk:
        load(talk, RULE)
        got = await talk.ask(talk.dialect.request(TOKEN, background=True))
        assert got.status == 400
        assert "ask without background" in got.heard.error["message"]


async def test_two_redactions_of_one_request_share_what_they_found(talk, provider):
    second = "{redact: {patterns: ['/B-[0-9]+/', email], restore: [text]}}"
    load(talk, f"{RULE}, {second}")
    agent = FileAgent(talk, {})
    await learn(agent, f"token={TOKEN} for B-123456 and ann@example.com")
    seen = provider.last.body.decode()
    for told in ("B-123456", "ann@example", TOKEN):
        assert told not in seen
    names = [found[0] for found in PLACEHOLDER.finditer(seen)]
    assert len(set(names)) == 3
    provider.say(Say(" ".join(names), [("write", {"path": "f", "content": " ".join(names)})]))
    got = await agent.turn()
    assert got.heard.text == f"{names[0]} B-123456 ann@example.com"
    assert agent.files["f"] == f"{TOKEN} {names[1]} {names[2]}"


OUTSIDE = """
import json, pathlib, sys
told = sys.stdin.read()
pathlib.Path("told.json").write_text(told)
call = json.loads(told)["tool_call"]
call["args"]["by"] = "us"
print(json.dumps({"action": "continue", "tool_call": call}))
"""


async def test_a_hook_outside_is_shown_placeholders(talk, provider, tmp_path):
    (tmp_path / "outside.py").write_text(OUTSIDE)
    hook = {"command": [sys.executable, "outside.py"], "cwd": str(tmp_path), "timeout": 60}
    judge = {"when": f'tool_call.args.content != "{TOKEN}"', "block": "no"}
    load(talk, RULE, f"  before_tool_call: {json.dumps([hook, judge])}")
    agent = FileAgent(talk, {})
    placeholder = await learn(agent)
    provider.say(Say("", [("write", {"path": "f", "content": placeholder})]))
    got = await agent.turn()
    told = (tmp_path / "told.json").read_text()
    assert json.loads(told)["tool_call"]["args"] == {"path": "f", "content": placeholder}
    assert got.heard.calls == [("write", {"path": "f", "content": TOKEN, "by": "us"})]
    assert not leaks(told, talk.told)


async def test_secrets_beyond_what_is_kept_are_taken_out_and_not_put_back(talk, provider):
    agent = FileAgent(talk, {})
    secrets = [f"sk-proj-Qz7Xw9Kv3Jh5Gm2Yt8Rb{number:04}" for number in range(KEPT + 50)]
    await learn(agent, "\n".join(secrets))
    seen = provider.last.body.decode()
    assert not leaks(seen)
    names = [found[0] for found in PLACEHOLDER.finditer(seen)]
    assert len(set(names)) == len(secrets)
    await ask_to_write(agent, names[-1])
    assert agent.files["f"] == secrets[-1]
    got = await ask_to_write(agent, names[0])
    assert "write was not called: its arguments have a redacted secret" in got.heard.text


def test_after_a_restart_a_conversation_goes_on_as_it_was(provider, tmp_path):
    rule = f"hooks: {{before_llm_call: [{RULE}]}}"
    body = DIALECTS["chat"].with_result(ENV)
    log = []
    for _ in range(2):
        provider.say(Say("Fine."))
        with gateway_process(
            tmp_path, rule, {"here": here(provider)}, keys={"ann": "not-a-real-key-of-ann"}
        ) as gateway:
            send(gateway, body)
            seen = provider.last.body.decode()
            *_, last = PLACEHOLDER.finditer(seen)
            provider.say(Say("", [("write", {"path": "f", "content": last[0]})]))
            call = send(gateway, body)["choices"][0]["message"]["tool_calls"][0]
            assert json.loads(call["function"]["arguments"])["content"] == PEM
            log.append(gateway.log)
    assert provider.requests[0].body == provider.requests[2].body
    kept = [file.read_bytes() for file in tmp_path.rglob("*") if file.is_file()]
    assert not leaks(kept, log)
    key = tmp_path / ".checkrail" / "placeholders.key"
    assert key.stat().st_mode & 0o777 == 0o600
    assert "[redacted:secrets]" in scrub_text(key.read_text())


async def test_official_sdks_get_the_secrets_and_send_placeholders_again(provider, tmp_path):
    rule = f"hooks: {{before_llm_call: [{RULE}]}}"

    def call(asked: Any) -> Say:
        placeholder = PLACEHOLDER.search(json.dumps(asked))
        return Say("I look.", [("forecast", {"city": placeholder[0], "days": 3})], fragment=3)

    with gateway_process(tmp_path, rule, {"here": here(provider)}) as gateway:
        for sdk, way in itertools.product(SDKS.values(), WAYS):
            client = sdk.client(gateway.url, sync=False)
            provider.say(call, Say("Done."))
            asked = sdk.question(f"With {TOKEN}")
            told = await getattr(sdk, way)(client, asked)
            assert told.calls == [("call_1", "forecast", {"city": TOKEN, "days": 3})]
            await getattr(sdk, way)(client, sdk.with_results(asked, told, f"It was {TOKEN}"))
            assert provider.last.body.decode().count("[redacted:secret-") == 3
            await client.close()
    assert not leaks(upstream_saw(provider))


def send(gateway: Any, body: Any) -> Any:
    """Send a request to a gateway that runs, and return its answer."""
    headers = {"authorization": "Bearer not-a-real-key-of-ann", "content-type": "application/json"}
    url = f"{gateway.url}/v1/chat/completions"
    asked = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(asked, timeout=60) as answer:
        return json.load(answer)
