import pytest
from fastapi import FastAPI
from starlette.requests import Request
from starlette.testclient import TestClient, WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from checkrail.server.auth import (
    ANONYMOUS,
    Guard,
    Unauthenticated,
    auth_error_response,
    caller_of,
    choose_authenticator,
)
from checkrail.server.auth.route_table import Rule, Rules

EVENTS = "/threads/t/stream/events"


@pytest.fixture
def ask(serve, keys):
    """Call the guarded app with a key of some role."""
    client = serve(choose_authenticator(keys=keys))

    def call(method, path, role=None, **more):
        headers = {"x-api-key": keys.add(role=role)} if role else {}
        return client.request(method, path, headers=headers, **more)

    return call


def test_a_route_finds_its_caller_and_its_rule(ask):
    assert ask("GET", "/threads/t", "member").json() == {
        "owner": "ann",
        "role": "member",
        "same": True,
        "rule": ["threads", "read"],
    }


def test_a_request_without_credentials_is_refused_in_the_one_shape_of_errors(ask):
    answer = ask("GET", "/threads/t")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json().keys() == {"error", "message", "detail"}
    assert answer.json()["error"] == "unauthenticated"


@pytest.mark.parametrize(
    ("role", "reads", "deletes"),
    [("viewer", 200, 403), ("member", 200, 200), ("admin", 200, 200), ("runner", 403, 403)],
)
def test_the_role_decides_by_the_table(ask, role, reads, deletes):
    assert ask("GET", "/threads/t", role).status_code == reads
    assert ask("DELETE", "/threads/t", role).status_code == deletes


def test_a_refusal_for_the_role_says_which_one_is_needed(ask):
    answer = ask("DELETE", "/threads/t", "viewer").json()
    assert answer["error"] == "forbidden"
    assert answer["info"] == {"needs": "member"}
    assert "you are viewer" in answer["message"]


@pytest.mark.parametrize(
    ("needs", "may"),
    [
        ("viewer", {"viewer", "member", "admin"}),
        ("member", {"member", "admin"}),
        ("admin", {"admin"}),
        ("runner", {"runner", "admin"}),
    ],
)
def test_each_need_is_met_by_these_roles(keys, needs, may):
    app = FastAPI()
    app.add_api_route("/thing", lambda: "there")
    rules = Rules([Rule("GET", "/thing", needs)])
    known = choose_authenticator(keys=keys)
    app.add_middleware(Guard, authenticator=known, routes=app.router.routes, rules=rules)
    client = TestClient(app)
    got = {
        role
        for role in ("admin", "member", "viewer", "runner")
        if client.get("/thing", headers={"x-api-key": keys.add(role=role)}).is_success
    }
    assert got == may


def test_a_refusal_inside_a_route_has_the_same_shape(ask):
    answer = ask("GET", "/threads/t/state", "member")
    assert answer.status_code == 403
    assert answer.json() == {
        "error": "forbidden",
        "message": "Not this thread",
        "detail": "Not this thread",
        "info": {"thread_id": "t"},
    }


async def test_errors_of_others_are_not_answered_as_refusals():
    with pytest.raises(ZeroDivisionError):
        await auth_error_response(Request({"type": "http"}), ZeroDivisionError())


def test_a_route_that_was_not_guarded_has_no_caller():
    with pytest.raises(Unauthenticated):
        caller_of(Request({"type": "http"}))


def test_public_routes_ask_nobody_and_have_no_caller(ask):
    assert ask("GET", "/ok").json() == {"ok": True, "caller": None}
    assert ask("GET", "/openapi.json").is_success
    assert ask("GET", "/docs").is_success


@pytest.mark.parametrize("path", ["/threads/t/forgotten", "/forgotten", "/threads/", "/nothing"])
def test_a_path_that_is_not_in_the_table_does_not_exist_even_for_admins(ask, path):
    assert ask("GET", path).status_code == 401
    answer = ask("GET", path, "admin")
    assert answer.status_code == 404
    assert answer.json()["error"] == "not_found"


def test_a_method_that_is_not_in_the_table_is_not_allowed(ask):
    answer = ask("PUT", "/threads/t", "admin")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "DELETE, GET, PATCH"


def test_a_head_request_needs_what_a_get_needs(ask):
    assert ask("HEAD", "/openapi.json").status_code == 200
    assert ask("HEAD", "/threads/t").status_code == 401


@pytest.mark.parametrize("path", ["//threads/t", "/Threads/t", "/threads//", "/threads/a%2Fb"])
def test_odd_spellings_of_a_path_do_not_open_it(serve, keys, path):
    client = serve(choose_authenticator(keys=keys), custom="open")
    answer = client.get(path)
    assert answer.status_code in (401, 404)
    assert "owner" not in answer.text


def test_the_app_is_guarded_below_a_root_path_too(keys):
    app = FastAPI()
    app.add_api_route("/threads/{thread_id}", lambda: "there")
    known = choose_authenticator(keys=keys)
    app.add_middleware(Guard, authenticator=known, routes=app.router.routes, custom="open")
    client = TestClient(app, root_path="/api")
    assert client.get("/api/threads/t").status_code == 401
    assert client.get("/api/threads/t", headers={"x-api-key": keys.add()}).json() == "there"


def test_custom_routes_are_not_there_unless_they_were_asked_for(serve, keys):
    client = serve(choose_authenticator(keys=keys))
    assert client.get("/mine", headers={"x-api-key": keys.add()}).status_code == 404


def test_open_custom_routes_ask_nobody_but_open_nothing_of_ours(serve, keys):
    client = serve(choose_authenticator(keys=keys), custom="open")
    assert client.get("/mine").json() == {"identity": None, "custom": True}
    assert client.get("/threads/t").status_code == 401
    assert client.get("/threads/t/forgotten").status_code == 401


def test_guarded_custom_routes_know_who_calls(serve, keys):
    client = serve(choose_authenticator(keys=keys), custom="guarded")
    assert client.get("/mine").status_code == 401
    answer = client.get("/mine", headers={"x-api-key": keys.add("eve", "viewer")})
    assert answer.json() == {"identity": "eve", "custom": True}


def test_a_viewer_only_reads_from_guarded_custom_routes(serve, keys):
    client = serve(choose_authenticator(keys=keys), custom="guarded")
    for role, status in (("viewer", 403), ("member", 405)):  # which the route does not have
        headers = {"x-api-key": keys.add(role=role)}
        assert client.get("/mine", headers=headers).status_code == 200
        assert client.post("/mine", headers=headers).status_code == status


def test_a_runners_key_opens_no_custom_route(serve, keys):
    client = serve(choose_authenticator(keys=keys), custom="guarded")
    assert client.get("/mine", headers={"x-api-key": keys.add(role="runner")}).status_code == 403


def test_guarded_custom_sockets_are_refused_before_they_are_accepted(serve, keys):
    client = serve(choose_authenticator(keys=keys), custom="guarded")
    with pytest.raises(WebSocketDenialResponse), client.websocket_connect("/my-socket"):
        pass
    with client.websocket_connect("/my-socket", headers={"x-api-key": keys.add()}) as socket:
        assert socket.receive_json() == {"custom": True}


def test_a_socket_gets_its_caller(serve, keys):
    client = serve(choose_authenticator(keys=keys))
    with client.websocket_connect(EVENTS, headers={"x-api-key": keys.add("bob")}) as socket:
        assert socket.receive_json() == {"owner": "bob"}


def test_a_socket_without_credentials_is_refused_with_the_real_status(serve, keys):
    client = serve(choose_authenticator(keys=keys))
    with pytest.raises(WebSocketDenialResponse) as refused, client.websocket_connect(EVENTS):
        pass
    assert refused.value.status_code == 401
    assert refused.value.json()["error"] == "unauthenticated"


def test_a_socket_at_a_path_without_a_rule_does_not_exist(serve, keys):
    client = serve(choose_authenticator(keys=keys))
    headers = {"x-api-key": keys.add(role="admin")}
    with (
        pytest.raises(WebSocketDenialResponse) as refused,
        client.websocket_connect("/threads/t/nothing", headers=headers),
    ):
        pass
    assert refused.value.status_code == 404


def test_a_server_that_cannot_deny_with_a_status_closes_with_it(serve, keys):
    def without_extension(app):
        async def wrapped(scope, receive, send):
            await app({**scope, "extensions": {}}, receive, send)

        return wrapped

    client = serve(choose_authenticator(keys=keys), wrap=without_extension)
    with pytest.raises(WebSocketDisconnect) as closed, client.websocket_connect(EVENTS):
        pass
    assert closed.value.code == 4401
    assert len(closed.value.reason.encode()) <= 123


def test_a_socket_that_is_refused_after_it_was_accepted_closes_with_the_status(serve, keys):
    client = serve(choose_authenticator(keys=keys))
    headers = {"x-api-key": keys.add("refused-inside")}
    with client.websocket_connect(EVENTS, headers=headers) as socket:
        with pytest.raises(WebSocketDisconnect) as closed:
            socket.receive_json()
        assert closed.value.code == 4404


def test_starting_and_stopping_the_app_is_not_the_guards_business(keys):
    seen = []
    app = FastAPI()

    async def lifespan(scope, receive, send):
        seen.append(scope["type"])
        await app(scope, receive, send)

    with TestClient(Guard(lifespan, choose_authenticator(keys=keys), app.router.routes)):
        assert seen == ["lifespan"]


def test_without_auth_whoever_is_here_is_an_admin(serve):
    answer = serve(choose_authenticator()).delete("/threads/t").json()
    assert (answer["owner"], answer["role"]) == (ANONYMOUS.owner, "admin")


def test_a_caller_does_not_show_what_its_user_carries():
    assert "User" not in repr(ANONYMOUS)
