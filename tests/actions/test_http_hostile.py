"""Web services that are not what they should be: bounded or refused, and `on_error` decides."""

import asyncio
import json
import logging
from contextlib import AsyncExitStack

import pytest
from tests.actions.web import Names, Service, drip, hang_up, reply, silence

from checkrail.actions.outbound import Outbound
from checkrail.actions.outside import Outside
from checkrail.config import load_text
from checkrail.engine.registry import HookRegistry

TOKEN, SECRET = "tok-5f0c9d1e77aa", "the-signing-secret-of-the-desk"
GOOD = reply({"action": "continue"}, "connection: close")
TEN_MB = reply(b'{"action": "continue", "reason": "' + b"x" * 10_000_000 + b'"}')
ECHO = reply({"action": "block", "reason": f"I was sent Bearer {TOKEN}"})

CONFIG = """
    env: { allow: ["HOOK_*"] }
    hooks:
      before_run:
        name: web
        type: http
        url: %s
        headers:
          Authorization: "Bearer ${HOOK_TOKEN}"
          X-Plain: plain
          X-Tenant: ${HOOK_TENANT}
        secret: ${HOOK_SECRET}
        timeout_seconds: %s
        on_error: %s
"""


class Case:
    """A hook of a file, the service that it asks, and everything that is to be seen of it."""

    def __init__(self, stack, caplog):
        self.stack = stack
        self.caplog = caplog
        self.records = []

    async def fire(self, says, on_error, *, outside=None, host=None, timeout=20.0, times=1):
        self.service = await self.stack.enter_async_context(Service(says))
        url = f"http://{host or '127.0.0.1'}:{self.service.port}/${{HOOK_PATH}}"
        outside = Outside(outbound=Outbound(dev=True)) if outside is None else outside
        if outside.outbound is not None:
            self.stack.push_async_callback(outside.outbound.aclose)
        self.loaded = load_text(CONFIG % (url, timeout, on_error), outside=outside)
        assert bool(self.loaded.warnings) == (outside.outbound is None)
        registry = HookRegistry(self.records.append)
        registry.swap(self.loaded.specs)
        for _ in range(times):
            self.verdict = await registry.fire("before_run", {"question": "why"})
        return self.verdict

    def told(self):
        """Give all that is to be read of it afterwards."""
        records = [record.wire() for record in self.records]
        seen = (records, self.verdict.reason, repr(self.loaded), repr(self.loaded.specs))
        return json.dumps([str(each) for each in seen]) + self.caplog.text


@pytest.fixture
async def case(caplog, monkeypatch):
    caplog.set_level(logging.DEBUG)
    values = {"TOKEN": TOKEN, "SECRET": SECRET, "PATH": "private-path-9"}
    for name, value in (values | {"TENANT": "acme-corporation"}).items():
        monkeypatch.setenv(f"HOOK_{name}", value)
    async with AsyncExitStack() as stack:
        yield Case(stack, caplog)


def moved():
    """Give a client whose DNS leads to a listed address first, and to loopback's next one then."""
    return Outside(outbound=Outbound(["127.0.0.1"], resolver=Names(["127.0.0.1"], ["127.0.0.2"])))


CASES = {
    "private address": (GOOD, "unreachable", {"outside": Outside()}),
    "redirect": (reply(b"", "location: http://10.0.0.1/", status="302 There"), "error", {}),
    "ten megabytes": (TEN_MB, "invalid", {}),
    "one byte after the other": (drip, "timeout", {"timeout": 0.5}),
    "no answer at all": (silence, "timeout", {"timeout": 0.5}),
    "hangs up": (hang_up, "unreachable", {}),
    "no HTTP": (b"220 mail.example ESMTP\r\n\r\n", "unreachable", {}),
    "no JSON": (reply(b"<html>It works!</html>"), "invalid", {}),
    "wrong answer": (reply({"action": "maybe"}), "invalid", {}),
    "repeats the token": (ECHO, "invalid", {}),
    "busy": (reply(b"", status="429 Slowly"), "unreachable", {}),
    "broken": (reply(b"Traceback", status="500 Oh"), "unreachable", {}),
    "unknown": (reply(b"", status="404 Nothing"), "error", {}),
}
STATUS = {"unreachable": 502, "timeout": 504}


@pytest.mark.parametrize("on_error", ["block", "continue"])
@pytest.mark.parametrize("name", CASES)
async def test_what_becomes_of_it_is_for_on_error_to_say(case, name, on_error):
    says, kind, options = CASES[name]
    verdict = await case.fire(says, on_error, **options)
    _, failed = case.records
    assert (failed.kind, failed.failure) == ("hook_failed", kind)
    assert verdict.decision == on_error
    if on_error == "block":
        assert (verdict.status, verdict.code) == (STATUS.get(kind, 500), f"hook_{kind}")
    if kind == "timeout":
        await asyncio.wait_for(case.service.closed.wait(), 30)
    assert len(case.service.asked) == (name != "private address")
    for secret in (TOKEN, SECRET, "private-path-9"):
        assert secret not in case.told()


@pytest.mark.parametrize("on_error", ["block", "continue"])
async def test_a_name_that_leads_elsewhere_at_the_second_look_is_refused(case, on_error):
    async with Service(GOOD, "127.0.0.2") as inner:
        verdict = await case.fire(GOOD, on_error, outside=moved(), host="hooks.example", times=2)
        assert (verdict.decision, len(case.service.asked), inner.asked) == (on_error, 1, [])
    assert [record.failure for record in case.records[1::2]] == [None, "unreachable"]
    assert "127.0.0.2 is this machine itself" in case.records[3].error
    assert not [secret for secret in (TOKEN, SECRET) if secret in case.told()]


async def test_what_was_sent_was_sent_to_the_service_alone(case):
    verdict = await case.fire(GOOD, "block")
    assert verdict.decision == "continue"
    ((first, headers, content),) = case.service.asked
    assert first == "POST /private-path-9 HTTP/1.1"
    assert (headers["authorization"], headers["x-plain"]) == (f"Bearer {TOKEN}", "plain")
    assert headers["webhook-signature"].startswith("v1,")
    assert TOKEN.encode() not in content
    signature = headers["webhook-signature"]
    assert not [one for one in (TOKEN, SECRET, "private-path-9", signature) if one in case.told()]
    (spec,) = case.loaded.specs
    assert spec.target_type == "http"
    assert spec.target_name.endswith("/${HOOK_PATH}")


async def test_a_value_that_happens_to_hold_another_header_is_no_secret(case):
    told = {"kind": "plain", "tenant": "acme-corporation"}
    says = reply({"action": "continue", "parameters": told}, "connection: close")
    assert (await case.fire(says, "block")).value == told
    assert case.service.asked[0][1]["x-tenant"] == "acme-corporation"
