"""Hooks that are web services: what they are sent, and what their answers do."""

import asyncio
import sys

import pytest
from standardwebhooks import Webhook, WebhookVerificationError
from tests.actions.web import Service, hang_up, reply, silence

from checkrail.actions import ACTION_TYPES, ActionError
from checkrail.actions.http import http
from checkrail.actions.outbound import Outbound
from checkrail.actions.outside import Outside
from checkrail.engine.errors import InvalidOutcomeError, UnreachableError
from checkrail.engine.outcomes import Block, Continue
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import RunResult, ToolCall
from checkrail.extras import MissingExtraError

SECRET = "whsec_bm90LXNvLXNlY3JldC1zZWNyZXQtMTIzNDU2"
HERE = Outside(allow=("127.0.0.0/8",))


async def test_an_event_is_sent_and_its_answer_decides(event_at):
    async with Service(reply({"action": "block", "reason": "No", "status": 402})) as service:
        event = await event_at("before_tool_call", config={"most": 5}, run_id="r1")
        assert await http(service.url, outside=HERE)(event) == Block("No", 402)
    ((first, headers, _),) = service.asked
    assert first == "POST /hooks/check?page=1 HTTP/1.1"
    assert headers["content-type"] == headers["accept"] == "application/json"
    assert not [name for name in headers if name.startswith("webhook")]
    (sent,) = service.requests
    assert sent["point"] == "before_tool_call"
    assert sent["tool_call"]["args"]["amount"] == 5
    assert (sent["config"], sent["run_id"]) == ({"most": 5}, "r1")


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_method_and_headers_are_as_they_were_said(event_at, method):
    headers = {"Content-Type": "application/vnd.hook+json", "X-Team": "desk"}
    fields = {"url": "", "method": method, "headers": headers}
    async with Service(reply({"action": "continue"})) as service:
        fields["url"] = service.url
        hook, decisions = ACTION_TYPES["http"].build(fields, ("before_run",), outside=HERE)
        assert await hook(await event_at("before_run")) == Continue()
    assert decisions is None
    ((first, sent, _),) = service.asked
    assert first.startswith(f"{method} ")
    assert (sent["content-type"], sent["x-team"]) == ("application/vnd.hook+json", "desk")


async def test_a_changed_value_goes_on(event_at):
    changed = {"action": "continue", "parameters": {"question": "how"}}
    async with Service(reply(changed)) as service:
        answer = await http(service.url, outside=HERE)(await event_at("before_run"))
    assert answer == Continue({"question": "how"})


@pytest.mark.parametrize(
    "says", [reply({}), reply(b""), reply(b" \n"), reply(b"", status="204 No Content")]
)
async def test_an_observer_may_say_nothing(event_at, says):
    async with Service(says) as service:
        hook = http(service.url, outside=HERE)
        assert await hook(await event_at("after_run")) is None
        assert await hook(await event_at("before_run", lane="observe")) is None


@pytest.mark.parametrize("status", ["200 OK", "204 No Content"])
async def test_whoever_decides_has_to_say_something(event_at, status):
    async with Service(reply(b"", status=status)) as service:
        with pytest.raises(InvalidOutcomeError, match="answered nothing"):
            await http(service.url, outside=HERE)(await event_at("before_run"))


@pytest.mark.parametrize(
    ("status", "error", "told"),
    [
        ("500 Oh", UnreachableError, "answered 500"),
        ("503 Busy", UnreachableError, "answered 503"),
        ("429 Slowly", UnreachableError, "answered 429"),
        ("404 Gone", ActionError, "answered 404"),
        ("401 Who", ActionError, "answered 401"),
        ("302 There", ActionError, "a redirect, and those are not followed"),
        ("304 Same", ActionError, "a redirect"),
    ],
)
async def test_other_statuses_are_failures(event_at, status, error, told):
    says = reply({"action": "continue"}, "location: /elsewhere", status=status)
    async with Service(says) as service:
        with pytest.raises(error, match=told) as caught:
            await http(service.url, outside=HERE)(await event_at("before_run"))
        assert len(service.asked) == 1
    assert str(caught.value).startswith(f"http://127.0.0.1:{service.port} answered")
    assert "page" not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"Thank you, s3cret!",
        b"\xff\xfe s3cret",
        b'{"action": "continue"',
        b'{"action": "continue", "parameters": NaN}',
        b"[" * 100_000,
        b'["s3cret"]',
        b'"s3cret"',
        b'{"s3cret": 1}',
        b'{"action": "retry"}',
        b'{"action": "s3cret' + b"y" * 100 + b'"}',
        b'{"action": "block", "status": "s3cret"}',
    ],
)
async def test_what_is_no_answer_is_invalid(event_at, content):
    async with Service(reply(content)) as service:
        with pytest.raises(InvalidOutcomeError) as caught:
            await http(service.url, outside=HERE)(await event_at("before_run"))
    if b"s3cret" in content and b"action" not in content:
        assert "s3cret" not in str(caught.value)


@pytest.mark.usefixtures("no_descriptor_left")
async def test_a_service_that_hangs_up_is_unreachable(event_at):
    async with Service(hang_up) as service:
        hook = http(service.url, outside=HERE)
        with pytest.raises(UnreachableError, match="the connection ended early"):
            await hook(await event_at("before_run"))
    with pytest.raises(UnreachableError, match="Connection refused"):
        await hook(await event_at("before_run"))


async def test_https_is_spoken_where_the_url_says_so(event_at):
    async with Service(reply({"action": "continue"})) as service:
        url = service.url.replace("http:", "https:")
        hook = http(url, outside=HERE)
    with pytest.raises(UnreachableError, match=r"^https://127\.0\.0\.1:\d+ gave no answer"):
        await hook(await event_at("before_run"))


async def test_a_name_without_an_address_is_unreachable(event_at):
    async def nobody(host, port):
        return []

    outside = Outside(outbound=Outbound(resolver=nobody))
    with pytest.raises(UnreachableError, match="its name has no address"):
        await http("https://hooks.example/s3cret", outside=outside)(await event_at("before_run"))


@pytest.mark.parametrize("secret", [SECRET, "a plain text"])
@pytest.mark.parametrize("whose", ["own", "shared"])
async def test_requests_are_signed_with_a_secret(event_at, secret, whose):
    async with Service(reply({})) as service:
        outside = Outside(allow=HERE.allow)
        hook = http(service.url, secret=secret if whose == "own" else None, outside=outside)
        outside.secret = secret if whose == "shared" else "another"  # read when it is called
        await hook(await event_at("after_run"))
    ((_, headers, content),) = service.asked
    as_key = secret.encode() if secret == "a plain text" else secret
    assert Webhook(as_key).verify(content, headers)["point"] == "after_run"


async def test_a_signer_has_a_secret_of_its_own(event_at):
    outside = Outside(allow=HERE.allow, secret=SECRET)
    async with Service(reply({})) as service:
        for signer in (("ann", "poet"), ("bob", "poet"), ("ann", "poet2"), ()):
            await http(service.url, outside=outside, signer=signer)(await event_at("after_run"))
    (_, headers, content), *others = service.asked
    own = outside.signing_secret(("ann", "poet"))
    assert own.startswith("whsec_")
    assert Webhook(own).verify(content, headers)["point"] == "after_run"
    for _, headers, content in others:
        with pytest.raises(WebhookVerificationError):
            Webhook(own).verify(content, headers)
    Webhook(SECRET).verify(content, headers)  # the server's own, for what its files name
    assert Outside().signing_secret(("ann", "poet")) is None


async def test_a_delivery_that_is_repeated_is_the_same_message(event_at):
    async with Service(reply({})) as service:
        event = await event_at("after_run", metadata={"delivery_id": "d1"})
        later = await event_at("after_run", metadata={"delivery_id": "d2"})
        named = await event_at("after_run", metadata={"delivery_id": "d1"}, config={"to": "bob"})
        hook, other = (http(url, outside=HERE) for url in (service.url, f"{service.url}0"))
        signed = http(service.url, outside=HERE, secret=SECRET)
        for each in (event, event, later, named):
            await hook(each)
        await other(event)
        await signed(event)
    ids = [headers["webhook-id"] for _, headers, _ in service.asked]
    assert ids[0] == ids[1] == ids[5]
    assert len({*ids}) == 4
    assert all(one.startswith("msg_") for one in ids)


async def test_messages_of_no_delivery_have_names_of_their_own(event_at):
    async with Service(reply({})) as service:
        hook = http(service.url, outside=HERE, secret=SECRET)
        for _ in range(2):
            await hook(await event_at("after_run"))
    assert len({headers["webhook-id"] for _, headers, _ in service.asked}) == 2


@pytest.mark.usefixtures("no_descriptor_left")
async def test_the_client_of_outside_is_used_once_it_is_there(event_at):
    outside = Outside()
    async with Service(reply({"action": "continue"})) as service:
        hook = http(service.url, outside=outside)
        with pytest.raises(UnreachableError, match=r"127\.0\.0\.1 is this machine itself"):
            await hook(await event_at("before_run"))
        outside.outbound = Outbound(dev=True)
        for _ in range(3):
            assert await hook(await event_at("before_run")) == Continue()
        await outside.outbound.aclose()
    assert len(service.asked) == 3


@pytest.mark.usefixtures("no_descriptor_left")
def test_a_hook_works_in_one_event_loop_after_the_other():
    async def ask():
        registry = HookRegistry()
        async with Service(reply({"action": "block", "reason": "No"})) as service:
            registry.register(http(service.url, outside=HERE), "before_run", name="web")
            return (await registry.fire("before_run", {})).reason

    assert [asyncio.run(ask()) for _ in range(3)] == ["No"] * 3


@pytest.mark.usefixtures("no_descriptor_left")
async def test_many_at_once_get_an_answer_each(event_at):
    async with Service(reply({"action": "continue"})) as service:
        hook, event = http(service.url, outside=HERE), await event_at("before_run")
        answers = await asyncio.gather(*(hook(event) for _ in range(20)))
    assert answers == [Continue()] * 20


@pytest.mark.usefixtures("no_descriptor_left")
async def test_a_timeout_of_the_engine_closes_the_connection():
    registry = HookRegistry()
    async with Service(silence) as service:
        hook = http(service.url, outside=HERE, timeout=0.1)
        registry.register(hook, "before_run", name="web", timeout=0.1, on_error="block")
        verdict = await registry.fire("before_run", {})
        assert (verdict.decision, verdict.status, verdict.code) == ("block", 504, "hook_timeout")
        await asyncio.wait_for(service.closed.wait(), 30)


@pytest.mark.usefixtures("no_descriptor_left")
async def test_a_cancellation_closes_the_connection():
    registry = HookRegistry()
    async with Service(silence) as service:
        registry.register(http(service.url, outside=HERE), "before_run", name="web", timeout=60)
        firing = asyncio.create_task(registry.fire("before_run", {}))
        await service.came.wait()
        firing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await firing
        await asyncio.wait_for(service.closed.wait(), 30)


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"headers": {"Host": "x"}}, "the header Host among `headers` cannot be set"),
        ({"headers": {"a b": "x"}}, "the header 'a b' among `headers` has characters"),
        ({"headers": {"X": "s3cret\n"}}, "the header 'X' among `headers` has characters"),
        ({"secret": ""}, "the signing secret is empty"),
        ({"secret": "whsec_s3cret!"}, "what follows is not base64"),
        ({"url": "https://ann:s3cret@host/"}, "a user name or password in front of its host"),
        ({"url": "https://0x7f.1/s3cret"}, "a number in an unusual spelling"),
        ({"url": "https://host:0/s3cret"}, "the URL's port is 0"),
    ],
)
def test_what_can_be_seen_to_be_wrong_is_refused_when_it_is_made(fields, told):
    with pytest.raises(ActionError) as caught:
        ACTION_TYPES["http"].build({"url": "https://hooks.example/"} | fields, ("before_run",))
    assert told in str(caught.value)
    assert "s3cret" not in str(caught.value)


def test_what_may_be_secret_is_not_shown():
    fields = {"url": "https://h.example/s3cret", "headers": {"A": "s3cret"}, "secret": "s3cret"}
    read = ACTION_TYPES["http"].fields.model_validate(fields)
    outside = Outside(secret="s3cret")
    assert "s3cret" not in repr(read) + str(read) + repr(outside)


def test_without_its_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpcore2", None)
    with pytest.raises(MissingExtraError, match=r'needs httpx2: pip install "checkrail\[server\]"'):
        http("https://hooks.example/")


async def test_the_live_agent_is_not_sent(event_at):
    from checkrail.engine.event import LIVE

    async with Service(reply({"action": "continue"})) as service:
        metadata = {LIVE: object(), "team": "desk"}
        event = await event_at("before_tool_call", ToolCall("1", "x", {}), metadata=metadata)
        await http(service.url, outside=HERE)(event)
    assert service.requests[0]["metadata"] == {"team": "desk"}


async def test_a_finished_run_is_told_whole(event_at):
    async with Service(reply({})) as service:
        value = RunResult("success", {"answer": 42}, {"question": "?"})
        await http(service.url, outside=HERE)(await event_at("after_run", value))
    (sent,) = service.requests
    assert sent["result"]["output"] == {"answer": 42}
    assert sent["verdict"]["decision"] == "continue"
