import asyncio
import threading
from copy import copy
from dataclasses import dataclass

import pytest
from fastapi import HTTPException
from langgraph_sdk import Auth
from starlette.testclient import WebSocketDenialResponse

from checkrail.runs.graphs.users import GraphUser
from checkrail.server.auth import AuthConfigError, AuthError, choose_authenticator
from checkrail.server.auth.langgraph import parse_caller

EVENTS = "/threads/t/stream/events"


def auth_by(handler):
    auth = Auth()
    auth.authenticate(handler)
    return auth


@pytest.fixture
def ask(serve):
    """Call the guarded app, which knows callers by a handler."""

    def call(handler, *, path="/threads/t", method="GET", options=None, **more):
        client = serve(choose_authenticator(auth_by(handler)), **(options or {}))
        return client.request(method, path, **more)

    return call


def test_a_handler_is_given_everything_it_asks_for_by_name(serve):
    seen = {}

    async def handler(
        *, request, headers, path, method, path_params, query_params, body, scope, authorization
    ):
        seen.update(locals(), same_body=await request.json())
        return "ann"

    client = serve(choose_authenticator(auth_by(handler)))
    answer = client.post(
        "/threads/t-1/runs?a=1&b=2", json={"input": 1}, headers={"authorization": "Bearer abc"}
    )
    assert answer.json() == {"thread_id": "t-1", "body": {"input": 1}}
    assert seen["request"].headers["authorization"] == "Bearer abc"
    assert seen["request"].path_params == {"thread_id": "t-1"}
    assert (seen["path"], seen["method"]) == ("/threads/t-1/runs", "POST")
    assert seen["path_params"] == {"thread_id": "t-1"}
    assert seen["query_params"] == {"a": "1", "b": "2"}
    assert seen["body"] == seen["same_body"] == {"input": 1}
    assert seen["scope"]["type"] == "http"
    assert seen["authorization"] == "Bearer abc"


def test_headers_are_found_by_bytes_and_by_text(ask):
    seen = {}

    async def handler(headers):
        assert "abc" not in repr(headers)
        seen["bytes"] = headers.get(b"x-token"), headers[b"x-token"], b"x-token" in headers
        seen["text"] = headers.get("X-Token"), headers["x-token"], "X-TOKEN" in headers
        seen["none"] = headers.get("x-other"), headers.get(b"x-other", b"?"), "é☃" in headers
        return "ann"

    assert ask(handler, headers={"x-token": "abc"}).is_success
    assert seen["bytes"] == (b"abc", b"abc", True)
    assert seen["text"] == ("abc", "abc", True)
    assert seen["none"] == (None, b"?", False)


def test_what_was_not_sent_is_none(ask):
    async def handler(authorization, body):
        assert authorization is None
        assert body is None
        return "ann"

    assert ask(handler).is_success


def test_a_body_that_a_handler_read_is_there_for_the_route(ask):
    async def handler(request):
        return (await request.json())["who"]

    answer = ask(handler, method="POST", path="/threads/t/runs", json={"who": "ann"})
    assert answer.json()["body"] == {"who": "ann"}


async def given(body):
    return "ann"


async def reading(request):
    return await request.json() and "ann"


@pytest.mark.parametrize("handler", [given, reading])
def test_a_large_body_is_not_read_for_somebody_who_is_not_known_yet(ask, handler):
    answer = ask(
        handler,
        method="POST",
        path="/threads/t/runs",
        json={"text": "x" * 2000},
        options={"body_limit": 1000},
    )
    assert answer.status_code == 413
    assert answer.json()["error"] == "body_too_large"


async def test_a_client_that_goes_away_meanwhile_is_let_go():
    async def gone():
        return {"type": "http.disconnect"}

    scope = {"type": "http", "method": "POST", "headers": []}
    with pytest.raises(AuthError, match="went away"):
        await choose_authenticator(auth_by(given)).authenticate(scope, gone)


def test_a_plain_function_may_block_for_it_runs_in_a_thread(ask):
    threads = []

    def handler(authorization, optional=7):
        threads.append(threading.current_thread())
        with pytest.raises(RuntimeError):
            asyncio.get_running_loop()
        return f"user {optional}"

    assert ask(handler).json()["owner"] == "user 7"


def test_an_object_that_can_be_called_is_a_handler(ask):
    class Handler:
        async def __call__(self, method):
            return method

    assert ask(Handler()).json()["owner"] == "GET"


def test_a_function_that_returns_a_coroutine_is_a_handler(ask):
    async def inner():
        return "ann"

    assert ask(lambda path: inner()).json()["owner"] == "ann"


@dataclass
class Person:
    identity: str
    team: str = "red"


class Slotted:
    __slots__ = ("identity", "permissions")

    def __init__(self):
        self.identity = "sam"
        self.permissions = ["read"]


@pytest.mark.parametrize(
    ("returned", "fields"),
    [
        ("ann", {"identity": "ann", "permissions": []}),
        (
            {"identity": "ann", "permissions": ("a", "b"), "email": "a@b.c", "token": {"x": [1]}},
            {"identity": "ann", "permissions": ["a", "b"], "email": "a@b.c", "token": {"x": [1]}},
        ),
        (Person("bob"), {"identity": "bob", "permissions": [], "team": "red"}),
        (Slotted(), {"identity": "sam", "permissions": ["read"]}),
        (
            {"identity": "ann", "display_name": "Ann", "org_id": 7},
            {"identity": "ann", "permissions": [], "display_name": "Ann", "org_id": "7"},
        ),
    ],
)
def test_a_user_is_a_text_a_dict_or_an_object(returned, fields):
    caller = parse_caller(returned)
    plain = {"display_name": fields["identity"], "is_authenticated": True}
    assert dict(GraphUser(caller.request_user)) == {**plain, **fields}
    assert caller.role == "member"


def test_runs_and_hooks_are_told_the_fields_that_are_known_and_those_that_are_named():
    returned = {
        "identity": "ann",
        "email": "a@b.c",
        "display_name": "Ann",
        "token": "t",
        "team": {"name": "red"},
    }
    assert parse_caller(returned).user.extras == {"display_name": "Ann"}
    assert parse_caller(returned, ["team", "none"]).user.extras == {
        "display_name": "Ann",
        "team": {"name": "red"},
    }
    hidden = {"identity": "ann", "display_name": {"token": "t"}, "is_authenticated": ["t"]}
    assert parse_caller(hidden).user.extras == {}


@pytest.mark.parametrize(
    "returned",
    [None, "", {}, {"identity": ""}, {"identity": 7}, 7, ["ann"], {"name": "ann"}, object()],
)
def test_who_is_not_named_is_nobody(ask, returned):
    async def handler():
        return returned

    answer = ask(handler)
    assert answer.status_code == 401
    assert "named no user" in answer.json()["message"]


def test_who_is_not_authenticated_is_nobody(ask):
    async def handler():
        return {"identity": "ann", "is_authenticated": False}

    assert ask(handler).status_code == 401


@pytest.mark.parametrize(
    ("said", "role"),
    [
        ("admin", "admin"),
        ("viewer", "viewer"),
        ("runner", "member"),
        ("editor", "member"),
        (7, "member"),
    ],
)
def test_a_handler_makes_admins_and_viewers_and_everybody_else_is_a_member(ask, said, role):
    async def handler():
        return {"identity": "ann", "role": said}

    assert ask(handler).json()["role"] == role


@pytest.mark.parametrize("kind", [Auth.exceptions.HTTPException, HTTPException])
def test_an_http_exception_is_answered_as_it_says(ask, kind):
    async def handler():
        raise kind(status_code=418, detail="Only tea", headers={"X-Pot": "short"})

    answer = ask(handler)
    assert answer.status_code == 418
    assert answer.headers["x-pot"] == "short"
    assert answer.json() == {"error": "refused", "message": "Only tea", "detail": "Only tea"}


def test_a_bare_http_exception_of_the_sdk_is_a_401(ask):
    async def handler():
        raise Auth.exceptions.HTTPException

    answer = ask(handler)
    assert answer.status_code == 401
    assert answer.json()["message"] == "Unauthorized"


def test_the_detail_of_an_http_exception_may_be_data(ask):
    async def handler():
        raise HTTPException(status_code=403, detail={"plan": "free"})

    answer = ask(handler).json()
    told = {"error": "forbidden", "message": "Forbidden", "detail": "Forbidden"}
    assert answer == told | {"info": {"plan": "free"}}


def test_a_status_without_a_name_is_answered_all_the_same(ask):
    async def handler():
        raise HTTPException(status_code=499, detail=[1])

    assert ask(handler).json()["message"] == "Refused"


@pytest.mark.parametrize("status", [200, 99, 600, "403", 402.5])
def test_a_status_that_refuses_nobody_is_a_500(ask, status):
    async def handler():
        error = HTTPException(status_code=403, detail="no")
        error.status_code = status
        raise error

    assert ask(handler).status_code == 500


def test_a_failed_assertion_is_a_401(ask):
    async def handler(authorization):
        raise AssertionError("Send a token")  # a plain assert is more than that under pytest

    answer = ask(handler)
    assert answer.status_code == 401
    assert answer.json()["message"] == "Send a token"


def test_a_handler_that_fails_lets_nobody_in_and_tells_nobody_what_was_sent(ask, caplog):
    async def handler(authorization):
        raise ValueError(authorization)

    answer = ask(handler, headers={"authorization": "Bearer s3cret"})
    assert answer.status_code == 500
    assert answer.json()["error"] == "auth_failed"
    assert "'handler' raised ValueError" in caplog.text
    assert __file__ in caplog.text
    assert "s3cret" not in caplog.text + answer.text


def test_a_socket_is_authenticated_before_it_is_accepted(serve):
    async def handler(method, path_params, request, body, headers):
        if not headers.get("x-who"):
            raise AssertionError("Say who")
        assert body is None
        assert request.headers["x-who"] == "ann"
        return f"{headers['x-who']} {method} {path_params['thread_id']}"

    client = serve(choose_authenticator(auth_by(handler)))
    with client.websocket_connect(EVENTS, headers={"x-who": "ann"}) as socket:
        assert socket.receive_json() == {"owner": "ann GET t"}
    with pytest.raises(WebSocketDenialResponse) as refused, client.websocket_connect(EVENTS):
        pass
    assert refused.value.status_code == 401
    assert refused.value.json()["message"] == "Say who"


def test_an_auth_object_that_authenticates_nobody_is_refused_at_start():
    with pytest.raises(AuthConfigError, match=r"no authentication handler\. Write one"):
        choose_authenticator(Auth())


@pytest.mark.parametrize(
    "handler", [lambda token: token, lambda path, /: path], ids=["unknown", "positional"]
)
def test_a_parameter_that_nobody_can_fill_is_refused_at_start(handler):
    with pytest.raises(AuthConfigError, match="Handlers are given, by name: authorization, body"):
        choose_authenticator(auth_by(handler))


def test_with_an_auth_object_keys_open_the_runners_routes_and_nothing_else(serve, keys):
    async def handler(headers):
        return headers.get("x-who")

    client = serve(choose_authenticator(auth_by(handler), keys))
    key = {"x-api-key": keys.add("machine", "runner")}
    assert client.get("/threads/t", headers=key).status_code == 401
    assert client.get("/threads/t", headers={"x-who": "ann"}).json()["owner"] == "ann"
    assert client.get("/runner/runs", headers={"x-who": "ann"}).status_code == 401
    assert client.get("/runner/runs", headers=key).status_code == 404  # there is no such route yet
    assert client.get("/runners", headers=key).status_code == 401


def test_a_user_is_shown_by_attributes_and_by_keys():
    caller = parse_caller({"identity": "ann", "permissions": ["x"], "team": {"name": "red"}})
    user = GraphUser(caller.request_user)
    assert isinstance(user, Auth.types.BaseUser)
    assert (user.identity, user.display_name, user.permissions) == ("ann", "ann", ["x"])
    assert user.is_authenticated
    assert user.team == user["team"] == user.get("team") == {"name": "red"}
    assert "team" in user
    assert "team" in [*user]
    assert user.get("nothing", 1) == 1
    assert not hasattr(user, "nothing")
    assert repr(user) == "GraphUser('ann')"
    assert copy(user).team == {"name": "red"}
