"""Who may write."""

import pytest

from checkrail import HookRegistry, InboundMessage, Session
from checkrail.builtin import allow_users
from checkrail.engine.values import User

ALLOWED = {"allow": ["ann", "slack:T1:*", "/@example\\.com$/"], "deny": ["slack:T1:U9"]}


async def fire(point, user_id, *, config=ALLOWED, **context):
    registry = HookRegistry()
    registry.register(allow_users, config=config)
    value = {
        "on_session_start": Session("s1", user_id, "web"),
        "before_inbound": InboundMessage(user_id, "web", "Hello"),
    }[point]
    return await registry.fire(point, value, **context)


@pytest.mark.parametrize("point", ["on_session_start", "before_inbound"])
@pytest.mark.parametrize(
    ("user_id", "allowed"),
    [
        ("ann", True),
        ("slack:T1:U1", True),
        ("bob@example.com", True),
        ("slack:T1:U9", False),
        ("slack:T2:U1", False),
        ("Ann", False),
        ("anna", False),
        ("bob@example.com.evil.test", False),
        ("evil\nann", False),
        ("ann\n", False),
        ("", False),
        (None, False),
    ],
)
async def test_who_is_not_allowed_is_refused(point, user_id, allowed):
    verdict = await fire(point, user_id)
    assert verdict.decision == ("continue" if allowed else "block")
    if not allowed:
        assert (verdict.status, verdict.code) == (403, "user_not_allowed")
        assert verdict.reason == "You may not write here"


async def test_the_user_of_the_event_counts_and_not_what_a_hook_made_of_the_message():
    assert (await fire("before_inbound", "ann", user=User("mallory"))).decision == "block"
    assert (await fire("before_inbound", "mallory", user=User("ann"))).decision == "continue"


@pytest.mark.parametrize(("user_id", "allowed"), [("ann", True), (None, True), ("bob", False)])
async def test_without_a_list_everybody_may_write_who_is_not_denied(user_id, allowed):
    verdict = await fire("before_inbound", user_id, config={"deny": ["bob"], "status": 404})
    assert verdict.status == (None if allowed else 404)


async def test_a_name_that_is_too_long_to_be_matched_is_refused():
    assert (await fire("before_inbound", "a" * 2000)).decision == "block"
