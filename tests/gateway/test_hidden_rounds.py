"""`blocked_tool: continue`: the model goes on, and knows later on what it was told."""

import json
import re
from dataclasses import replace

import pytest

from checkrail.config import load_text
from checkrail.engine.event import Context
from checkrail.engine.values import AssistantMessage, User
from checkrail.gateway.hidden_rounds import HiddenRounds

from .agents import FileAgent
from .command import gateway_process, here
from .dialects import CLOUDS, EVERY
from .provider import Fail, Provider, Say
from .sdks import SDKS, WAYS, settled
from .talking import Talk

HOOKS = """
hooks:
  before_tool_call:
    - {name: limit, tools: [transfer], block: The finance desk has to do that}
"""
FORBIDDEN = ("transfer", {"amount": 98765})
ALLOWED = ("forecast", {"city": "Zürich", "days": 3})
REASON = "The finance desk has to do that"


@pytest.fixture(scope="module")
def provider():
    with Provider() as made:
        yield made


@pytest.fixture(autouse=True)
def anew(provider):
    provider.anew()


@pytest.fixture(scope="module")
def gateway(provider, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateway")
    upstreams = {"here": here(provider)}
    with gateway_process(folder, HOOKS, upstreams, blocked_tool="continue") as running:
        yield running


@pytest.fixture(params=SDKS)
def sdk(request):
    return SDKS[request.param]


@pytest.fixture(params=WAYS)
def way(request):
    return request.param


@pytest.fixture
async def client(sdk, gateway):
    made = sdk.client(gateway.url, sync=False)
    yield made
    await settled(made.close())


def said(way, first, last, *, parts):
    """Return what a caller has of two answers: what had come of the first cannot be taken back."""
    return last if way == "create" else ("" if parts else "\n\n").join(filter(None, (first, last)))


@pytest.mark.parametrize("begun", [("Let me.", ""), ("Let me.", "Hm."), ("", "Hm."), ("", "")])
async def test_the_model_goes_on_in_the_same_answer(begun, way, sdk, client, provider):
    first, thinking = begun
    blocked = Say(first, [FORBIDDEN], thinking=thinking)
    provider.say(blocked, Say("Then so.", [ALLOWED], thinking=thinking, turn=2))
    told = await getattr(sdk, way)(client, sdk.question("Move it."))
    if sdk.name == "responses":  # what the provider keeps can be named later, so it is not joined
        first = ""
    assert told.text == said(way, first, "Then so.", parts=bool(thinking) and sdk.name != "chat")
    assert told.calls == [("call_2_1", *ALLOWED)]
    assert told.stop == sdk.calling
    assert REASON in provider.last.body.decode()
    assert len(provider.requests) == 2


async def test_all_that_was_used_is_in_the_usage(way, sdk, client, provider):
    replies = [Say("Let me.", [FORBIDDEN], usage=(100, 10), cached=30, turn=1)] * 2
    provider.say(*replies, Say("No.", usage=(300, 30), cached=200, turn=3))
    told = await getattr(sdk, way)(client, sdk.question("Move it."))
    sent, answered = told.usage
    assert answered == 50
    assert sent == 500 - (260 if sdk.name == "messages" else 0)  # which counts cached ones apart


async def test_the_next_request_has_the_hidden_rounds(way, sdk, client, provider):
    question = sdk.question("Move it.")
    ask = getattr(sdk, way)
    provider.say(Say("Let me.", [FORBIDDEN]), Say("Then so.", [ALLOWED], turn=2))
    told = await ask(client, question)
    hidden = provider.last.json
    for number in (3, 4):
        question = sdk.with_results(question, told, f"Sunny {number}")
        provider.say(Say("", [ALLOWED], turn=number))
        told = await ask(client, question)
        assert count(provider.last, REASON) == count(provider.last, "98765") == 1
        assert turns_of(provider.last.json)[: len(turns_of(hidden))] == turns_of(hidden)
        assert told.usage == (11, 7)


async def test_hidden_rounds_stand_where_they_were(sdk, client, provider):
    question = sdk.question("Move it.")
    for number in (1, 3):
        provider.say(Say("Let me.", [FORBIDDEN], turn=number), Say("", [ALLOWED], turn=number + 1))
        told = await sdk.streamed(client, question)
        question = sdk.with_results(question, told, "Sunny")
    provider.say(Say("All done."))
    await sdk.streamed(client, question)
    body = provider.last.body.decode()
    ids = ["call_1", "call_2_1", "call_3_1", "call_4_1"]
    assert [body.index(f'"{one}"') for one in ids] == sorted(body.index(f'"{one}"') for one in ids)
    assert count(provider.last, REASON) == 2


async def test_a_caller_may_leave_out_texts_beside_calls(way, sdk, client, provider):
    question = sdk.question("Move it.")
    for number in (1, 3):
        provider.say(
            Say("Let me.", [FORBIDDEN], turn=number), Say("So.", [ALLOWED], turn=number + 1)
        )
        told = await getattr(sdk, way)(client, question)
        question = sdk.with_results(question, replace(told, text=""), "Sunny")
    provider.say(Say("All done."))
    await getattr(sdk, way)(client, question)
    assert count(provider.last, REASON) == count(provider.last, "98765") == 2


async def test_nobody_else_gets_them(sdk, client, gateway, provider):
    question = sdk.question("Move it.")
    provider.say(Say("Let me.", [FORBIDDEN]), Say("Then so.", [ALLOWED], turn=2))
    told = await sdk.streamed(client, question)
    other = sdk.with_results(sdk.question("Move the other."), told, "Sunny")
    await sdk.create(client, other)
    assert count(provider.last, REASON) == 0
    stranger = sdk.client(gateway.url, sync=False, api_key="sk-stranger")
    await sdk.create(stranger, sdk.with_results(question, told, "Sunny"))
    await settled(stranger.close())
    assert count(provider.last, REASON) == 0
    await sdk.create(client, sdk.with_results(question, told, "Sunny"))
    assert count(provider.last, REASON) == 1


async def test_a_model_that_does_not_give_way_ends_with_a_text(way, sdk, client, provider):
    provider.always(Say("Let me.", [FORBIDDEN]))
    told = await getattr(sdk, way)(client, sdk.question("Move it."))
    assert told.calls == []
    assert told.text.endswith(f"transfer was not called: {REASON}")
    assert told.stop == sdk.plain
    assert len(provider.requests) == 6
    provider.always(Say("Hello"))


async def test_an_upstream_that_fails_in_a_hidden_round_is_an_error(way, sdk, client, provider):
    provider.say(Say("Let me.", [FORBIDDEN]), Fail(500, "broken"))
    with pytest.raises(sdk.package.APIError):
        await getattr(sdk, way)(client, sdk.question("Move it."))


async def test_a_hidden_round_that_breaks_off_is_an_error(way, sdk, client, provider):
    provider.say(Say("Let me.", [FORBIDDEN]), Say("A long enough answer", dies=1))
    with pytest.raises(sdk.package.APIError):
        await getattr(sdk, way)(client, sdk.question("Move it."))


@pytest.mark.parametrize("keeps", [True, False])
async def test_a_later_request_may_name_the_answer_alone(keeps, gateway, provider):
    """The provider knows the conversation by its last answer."""
    sdk = SDKS["responses"]
    client = sdk.client(gateway.url, sync=True)
    provider.say(Say("Let me.", [FORBIDDEN]), Say("Then so.", turn=2), Say("Yes?"))
    with client.responses.stream(**sdk.question("Move it."), store=keeps) as stream:
        answer = stream.get_final_response()
    client.responses.create(model="model-1", input="And?", previous_response_id=answer.id)
    client.close()
    assert answer.id == ("resp_2" if keeps else "resp_1")
    assert provider.last.json["previous_response_id"] == "resp_2"
    assert answer.output_text == ("Then so." if keeps else "Let me.\n\nThen so.")


async def test_secrets_are_put_back_for_the_caller_alone(provider, tmp_path, sdk, way):
    secret = "AKIAIOSFODNN7EXAMPLE"
    rules = (
        f"{HOOKS}  before_llm_call: [{{redact: {{kinds: [secrets], restore: [tools, text]}}}}]\n"
    )
    with gateway_process(tmp_path, rules, {"here": here(provider)}) as gateway:
        client = sdk.client(gateway.url, sync=False)
        question = sdk.question(f"Use {secret}")
        provider.say(Say("Let me.", [FORBIDDEN]))
        provider.decide(lambda received: received.json and repeat_placeholder(received))
        told = await getattr(sdk, way)(client, question)
        assert secret in told.text
        assert told.calls[0][2]["city"].endswith(secret)
        await getattr(sdk, way)(client, sdk.with_results(question, told, "Sunny"))
        await settled(client.close())
    provider.decide(lambda _: None)
    assert count(provider.last, REASON) == 1
    assert all(secret not in each.body.decode() for each in provider.requests)


def repeat_placeholder(received):
    """Say what stands in place of a secret as soon as the model was told of the refusal."""
    if REASON not in received.body.decode():
        return None
    found = re.search(r"Use ([^\"\\]+)", received.body.decode())
    return Say(f"It is {found[1]}", [("forecast", {"city": found[1], "days": 3})], turn=2)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", ["gemini", *CLOUDS])
async def test_the_model_goes_on_where_the_path_names_it(name, stream, provider):
    async with Talk(EVERY[name], provider, stream=stream, blocked_tool="continue") as talk:
        talk.hooks.swap(load_text(HOOKS).specs)
        provider.say(Say("Let me.", [FORBIDDEN]), Say("Then so.", [ALLOWED]))
        got = await talk.ask()
    assert got.heard.text == ("Let me.\n\nThen so." if stream else "Then so.")
    assert (got.heard.calls, got.heard.usage, got.heard.ended) == ([ALLOWED], True, True)
    assert got.heard.stop == EVERY[name].calling
    assert count(provider.last, REASON) == 1
    assert len(provider.requests) == 2


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("names_calls", [False, True])
async def test_calls_without_ids_are_known_again(stream, names_calls, provider):
    async with Talk(EVERY["gemini"], provider, stream=stream, blocked_tool="continue") as talk:
        talk.hooks.swap(load_text(HOOKS).specs)
        agent = FileAgent(talk, {"a": "Sunny"}, names_calls=names_calls)
        provider.say(Say("Let me.", [FORBIDDEN]), Say("Then so.", [("read", {"path": "a"})]))
        await agent.turn()
        hidden = provider.last.json["contents"]
        _, call, result = hidden
        assert call["parts"][-1]["functionCall"] == {"name": "transfer", "args": FORBIDDEN[1]}
        assert call["parts"][-1]["thoughtSignature"] == "c2lnbmVk"
        told = {"name": "transfer", "response": {"error": REASON}}
        assert result["parts"] == [{"functionResponse": told}]
        for _ in range(2):
            provider.say(Say("", [("read", {"path": "a"})]))
            await agent.turn()
            assert count(provider.last, REASON) == count(provider.last, "98765") == 1
            assert provider.last.json["contents"][: len(hidden)] == hidden


class TestMemory:
    ANN = Context(user=User("ann"))
    ASKED = ({"role": "user", "content": "Move it."},)
    ANSWER = AssistantMessage("Then so.")
    ROUNDS = ({"role": "assistant", "content": "Hidden"}, {"role": "tool", "content": "No"})

    def sent(self, text="Then so."):
        said = {"role": "assistant", "content": text}
        return [*self.ASKED, said, {"role": "user", "content": "And?"}]

    def test_an_answer_is_known_however_it_is_written(self):
        memory = HiddenRounds()
        memory.store(self.ANN, self.ASKED, self.ANSWER, self.ROUNDS)
        for text in ("Then so.", " Then  so.\n", [{"type": "text", "text": "Then so."}]):
            sent = self.sent(text)
            assert [*memory.restore(self.ANN, sent)] == [*self.ASKED, *self.ROUNDS, *sent[1:]]

    def test_what_is_not_known_is_the_very_same(self):
        memory = HiddenRounds()
        memory.store(self.ANN, self.ASKED, self.ANSWER, self.ROUNDS)
        other = self.sent("Or so.")
        assert memory.restore(self.ANN, other) is other
        earlier = [{"role": "user", "content": "Before."}, *self.sent()]
        assert memory.restore(self.ANN, earlier) is earlier
        ours = self.sent()
        assert memory.restore(Context(user=User("bob")), ours) is ours

    def test_no_more_is_kept_than_there_is_room_for(self):
        memory = HiddenRounds(weight=200)
        for number in range(9):
            asked = [{"role": "user", "content": f"Question {number}"}]
            memory.store(self.ANN, asked, self.ANSWER, self.ROUNDS)
        memory.store(self.ANN, self.ASKED, self.ANSWER, [{"role": "user", "content": "x" * 300}])
        kept = [
            number
            for number in range(9)
            if len(
                memory.restore(
                    self.ANN, [{"role": "user", "content": f"Question {number}"}, *self.sent()[1:]]
                )
            )
            > 3
        ]
        assert kept == [7, 8]


def count(received, text):
    """Return how often a text stands in a request."""
    return received.body.decode().count(text)


def turns_of(body):
    """Return what a conversation holds, without the parts of the last turn."""
    return [json.dumps(each, sort_keys=True) for each in body.get("messages") or body["input"]]
