"""Who a request is from: headers first, then what its body says, then its key by a digest."""

import json

import pytest

from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import User
from checkrail.gateway.identity import LONGEST, Identity

KEY = "sk-a-secret-key"
SESSION = "0b7a5c1e-8a40-4e6e-9f57-3a3a6d2a9b10"


def ids(headers=(), body=None, **known):
    raw = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    sent = [(name.encode(), value.encode()) for name, value in dict(headers).items()]
    return dict(Identity(sent, raw, **known))


def test_headers_say_it_first():
    found = ids(
        {
            "x-request-id": "r-1",
            "x-checkrail-run-id": "run-1",
            "x-checkrail-session-id": "s-1",
            "x-checkrail-user": "ada",
            "x-checkrail-agent": "support",
            "authorization": f"Bearer {KEY}",
        },
        {"user": "eve", "metadata": {"run_id": "x", "session_id": "x", "agent_name": "x"}},
    )
    key = found["metadata"].pop("api_key")
    assert key.startswith("key-")
    assert found == {
        "request_id": "r-1",
        "run_id": "run-1",
        "session_id": "s-1",
        "agent_name": "support",
        "user": "ada",
        "metadata": {},
    }


@pytest.mark.parametrize(
    "name", ["x-claude-code-session-id", "session-id", "session_id", "x-session-id"]
)
def test_coding_agents_name_their_session_in_headers_of_their_own(name):
    assert ids({name: SESSION})["session_id"] == SESSION
    assert ids({name: SESSION, "x-checkrail-session-id": "s-1"})["session_id"] == "s-1"
    assert ids({name: SESSION}, {"metadata": {"session_id": "s-1"}})["session_id"] == "s-1"
    assert "session_id" not in ids({name: " "})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"user": "ada"}, {"user": "ada"}),
        ({"safety_identifier": "ada"}, {"user": "ada"}),
        ({"metadata": {"user_id": "ada"}}, {"user": "ada"}),
        (
            {"metadata": {"user": "ada", "agent": "support"}},
            {"user": "ada", "agent_name": "support"},
        ),
        (
            {"metadata": {"run_id": "run-1", "session_id": "s-1", "agent_name": "support"}},
            {"run_id": "run-1", "session_id": "s-1", "agent_name": "support"},
        ),
        (
            {"metadata": {"user_id": f"user_1f_account_2e_session_{SESSION}"}},
            {"user": "user_1f_account_2e", "session_id": SESSION},
        ),
        (
            {"metadata": {"user_id": json.dumps({"device_id": "d1", "session_id": SESSION})}},
            {"user": "d1", "session_id": SESSION},
        ),
    ],
)
def test_else_the_request_says_it(body, expected):
    found = ids(body=body)
    assert found.pop("request_id")
    assert found == expected


@pytest.mark.parametrize(
    "headers", [{"authorization": f"Bearer {KEY}"}, {"x-api-key": KEY}, {"api-key": KEY}]
)
def test_else_the_user_is_the_key_by_its_digest_and_never_the_key(headers):
    found = ids(headers)
    assert found["user"] == found["metadata"]["api_key"]
    assert found["user"] == ids({"x-api-key": KEY})["user"]
    assert found["user"] != ids({"x-api-key": KEY + "2"})["user"]
    assert KEY not in repr(found)


def test_a_key_of_the_gateway_has_its_name():
    found = ids({"x-api-key": KEY, "x-checkrail-user": "ada"}, key="ci")
    assert (found["user"], found["metadata"]) == ("ada", {"api_key": "ci"})
    assert ids({}, key="ci")["user"] == "ci"


def test_somebody_whom_the_server_knows_cannot_be_somebody_else():
    user = User("shop")
    found = ids(
        {"x-checkrail-user": "ada"}, {"metadata": {"run_id": "of-others"}}, key="ci", user=user
    )
    assert found["user"] is user
    assert found["metadata"] == {"api_key": "ci", "end_user": "ada"}
    assert "run_id" not in found


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"no json",
        b"[1]",
        b"\xff",
        b"[" * 100_000,
        b'{"metadata": 5, "user": ["x"]}',
        b'{"metadata": {"run_id": 5, "session_id": "", "user_id": {"a": 1}}}',
        b'{"metadata": {"user_id": "{no json"}, "user": " "}',
    ],
)
def test_a_body_that_says_nothing_sensible_says_nothing(body):
    assert ids(body=body).keys() == {"request_id"}


@pytest.mark.parametrize("value", ["x" * (LONGEST + 1), "a\tb", " "])
def test_what_can_be_no_id_is_none(value):
    found = ids({"x-request-id": value, "x-checkrail-user": value, "x-checkrail-run-id": value})
    assert found.keys() == {"request_id"}
    assert found["request_id"] != value


def test_a_request_without_an_id_gets_one_that_stays():
    identity = Identity([], b"{}")
    assert identity["request_id"] == identity.request_id == identity["request_id"]
    assert Identity([], b"{}").request_id != identity.request_id


def test_a_scope_takes_them_as_they_are():
    identity = Identity([(b"x-checkrail-user", b"ada"), (b"x-api-key", KEY.encode())], b"{}")
    context = HookRegistry().scope(**identity).context
    assert (context.user.identity, context.request_id) == ("ada", identity.request_id)
    assert context.metadata["api_key"].startswith("key-")


def test_no_spelling_of_a_key_makes_another_caller_of_it():
    spellings = [f"Bearer {KEY}", f"bearer  {KEY}", f"Bearer\t{KEY}", f"BEARER \t {KEY} ", KEY]
    found = {ids({"authorization": spelling})["metadata"]["api_key"] for spelling in spellings}
    assert len(found) == 1
