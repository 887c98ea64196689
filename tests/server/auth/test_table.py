import ast
import importlib
import inspect
import re
from itertools import combinations
from unittest.mock import Mock

import pytest
from fastapi import APIRouter, FastAPI, WebSocket
from starlette.applications import Starlette
from starlette.routing import Mount, Route

from checkrail.config.server import ServerConfig
from checkrail.server.app import build_app
from checkrail.server.auth import TABLE, choose_authenticator, missing_routes
from checkrail.server.auth.route_table import (
    AGENTS,
    APPROVALS,
    ASSISTANTS,
    CRONS,
    EVENTS,
    GATEWAY,
    HOOKS,
    RUNNER,
    RUNS,
    SERVER,
    SESSIONS,
    SOCKET,
    STORE,
    THREADS,
    Rule,
    Rules,
)
from checkrail.server.services import Services

USERS = (
    *(*SERVER, *ASSISTANTS, *AGENTS, *THREADS, *RUNS, *SESSIONS, *EVENTS),
    *(*APPROVALS, *CRONS, *STORE),
)
EVERY = (*USERS, *HOOKS, *RUNNER)
CALLS = ("get", "post", "put", "patch", "delete", "stream", "request_reconnect")


def routes_of_the_server():
    """The routes of the app as the server builds it, with nothing behind them."""
    nothing = [None] * 3
    known = choose_authenticator()
    services = Services(ServerConfig(), Mock(), Mock(), *nothing, known, None, gateway=Starlette())
    return build_app(services, Starlette()).router.routes


OURS = routes_of_the_server()


def find(method, path, rules=TABLE, routes=OURS):
    """Find the rule of a request."""
    kind = "websocket" if method == SOCKET else "http"
    scope = {"type": kind, "method": method, "path": path, "headers": []}
    return rules.find(scope, routes)


def paths_in(node, assigned):
    """Give the paths that an expression of the client can be, with x for what is filled in."""
    if isinstance(node, ast.IfExp):
        return paths_in(node.body, assigned) + paths_in(node.orelse, assigned)
    if isinstance(node, ast.Name):
        return paths_in(assigned[node.id], assigned)
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "x" for part in node.values]
        return ["".join(parts)]
    return [node.value]


def requests_of(module):
    """Read from a client's source what it can send."""
    tree = ast.parse(inspect.getsource(importlib.import_module(module)))
    nodes = [*ast.walk(tree)]
    assigned = {
        node.targets[0].id: node.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    for node in nodes:
        called = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if not called or node.func.attr not in CALLS or "http" not in ast.unparse(node.func.value):
            continue
        method = node.func.attr.upper()
        if node.func.attr in ("stream", "request_reconnect"):
            method = node.args[1].value
        yield from ((method, path) for path in paths_in(node.args[0], assigned))


@pytest.mark.parametrize("kind", ["_async", "_sync"])
@pytest.mark.parametrize(
    ("client", "resources"),
    [
        ("assistants", {"assistants"}),
        ("threads", {"threads"}),
        ("runs", {"threads"}),
        ("cron", {"crons"}),
        ("store", {"store"}),
        ("stream", {"threads", "assistants"}),
    ],
)
def test_everything_that_the_official_client_sends_is_in_the_table(kind, client, resources):
    sent = {*requests_of(f"langgraph_sdk.{kind}.{client}")}
    found = {each: find(*each).rule for each in sent}
    assert found
    assert [each for each, rule in found.items() if rule is None] == []
    assert {rule.resource for rule in found.values()} <= resources


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/threads/x/commands"),
        ("POST", "/threads/x/stream/events"),
        (SOCKET, "/threads/x/stream/events"),
        ("GET", "/ok"),
        ("GET", "/info"),
        ("GET", "/metrics"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
    ],
)
def test_the_rest_of_the_surface_is_in_the_table(method, path):
    assert find(method, path).rule


def test_what_changes_something_is_not_for_viewers():
    for rule in USERS:
        reads = rule.action in (None, "read", "search", "get", "list_namespaces")
        assert (rule.needs in ("public", "viewer")) is reads, rule


def test_hooks_are_for_admins_and_a_runner_s_routes_for_runners():
    assert {rule.needs for rule in HOOKS} == {"admin"}
    shown = {"/runners", "/queue"}
    assert {rule.needs for rule in RUNNER if rule.path not in shown} == {"runner"}
    assert {rule.needs for rule in RUNNER if rule.path in shown} == {"admin"}


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"])
def test_everything_of_the_gateway_is_for_members(method):
    records = ("", "/stats", "/{call_id}")  # which viewers may read
    calls = {f"/gateway/calls{path}" for path in records}
    assert {rule.needs for rule in GATEWAY if rule.path not in calls} == {"member"}
    assert find(method, "/gateway/v1/chat/completions").rule in GATEWAY


def test_only_what_tells_nothing_about_anybody_is_public():
    public = {rule.path for rule in EVERY if rule.needs == "public"}
    docs = {"/docs", "/docs/page.css", "/docs/page.js", "/openapi.json"}
    assert public == {"/ok", "/info"} | docs


def could_be_one(one, other):
    pairs = zip(one.path.split("/"), other.path.split("/"), strict=True)
    return all(a == b or "{" in a + b for a, b in pairs)


def test_where_two_rules_fit_a_path_the_one_with_more_text_is_found():
    clashes = [
        (one, other)
        for one, other in combinations(EVERY, 2)
        if one.method == other.method
        and one.path.count("/") == other.path.count("/")
        and could_be_one(one, other)
    ]
    for pair in clashes:
        plain = min(pair, key=lambda rule: rule.path.count("{"))
        assert find(plain.method, re.sub(r"{\w+}", "x", plain.path)).rule is plain


@pytest.mark.parametrize("rule", EVERY, ids=lambda rule: f"{rule.method} {rule.path}")
def test_each_rule_is_found_with_what_was_filled_in(rule):
    names = re.findall(r"{(\w+)}", rule.path)
    path = rule.path
    for at, name in enumerate(names):
        path = path.replace(f"{{{name}}}", f"v{at}")
    found = find(rule.method, path)
    assert found.rule is rule
    assert found.params == {name: f"v{at}" for at, name in enumerate(names)}


def test_a_path_of_which_only_the_method_is_unknown_says_which_are_known():
    found = find("PUT", "/threads/t/runs/crons")
    assert found.rule is None
    assert found.methods == ("DELETE", "GET", "POST")  # of the crons, and of a run with that id
    assert find("GET", "/threads/t/stream/events").methods == ("POST",)


@pytest.mark.parametrize(
    ("path", "ours"),
    [("/threads/t/nothing", True), ("/store", True), ("/mine", False), ("/", False), ("", False)],
)
def test_a_path_below_our_prefixes_is_ours_though_it_has_no_rule(path, ours):
    found = find("GET", path)
    assert (found.rule, found.methods, found.ours) == (None, (), ours)


def test_a_rule_may_be_for_a_whole_tree():
    rules = Rules([Rule("GET", "/static/{path:path}", "public"), Rule("GET", "/static", "admin")])
    routes = [Route("/static", there), Route("/static/{rest:path}", there)]
    assert find("GET", "/static/a/b.css", rules, routes).params == {"rest": "a/b.css"}
    assert find("GET", "/static/", rules, routes).rule.needs == "public"
    assert find("GET", "/static", rules, routes).rule.needs == "admin"
    assert rules.has("GET", "/static/{path:path}")


def test_two_rules_for_one_route_are_refused():
    with pytest.raises(ValueError, match=r"two rules for GET /a/\{y\}"):
        Rules([Rule("GET", "/a/{x}", "viewer"), Rule("GET", "/a/{y}", "admin")])


def test_the_route_that_comes_first_in_the_app_is_the_one_that_counts():
    rules = Rules([Rule("GET", "/a/{x}", "admin"), Rule("GET", "/a/b", "public")])
    first, second = Route("/a/{name}", there), Route("/a/b", there)
    assert find("GET", "/a/b", rules, [first, second]).rule.needs == "admin"
    assert find("GET", "/a/b", rules, [second, first]).rule.needs == "public"


def test_a_route_without_a_rule_hides_those_behind_it():
    rules = Rules([Rule("GET", "/a/{x}", "public")])
    routes = [Route("/a/b/{rest:path}", there), Route("/a/b", there), Route("/a/{x}", there)]
    assert find("GET", "/a/c", rules, routes).rule.needs == "public"
    assert find("GET", "/a/b/c", rules, routes).rule is None
    open_to_all = [Mount("/a/b", Starlette()), Route("/a/{x:path}", there)]
    assert find("GET", "/a/b/c", rules, open_to_all).rule is None


def test_a_socket_at_a_path_of_requests_is_told_what_the_path_takes():
    assert find(SOCKET, "/threads/t").methods == ("DELETE", "GET", "PATCH")
    assert find(SOCKET, "/gateway/v1/x").rule is None


def small_app():
    return FastAPI(redoc_url=None, swagger_ui_oauth2_redirect_url=None)


async def there():
    return "there"


async def socket(socket: WebSocket):
    await socket.accept()


def test_an_app_whose_routes_are_all_in_the_table_misses_none():
    app, router = small_app(), APIRouter(prefix="/threads")
    router.add_api_route("/{id}", there, methods=["GET", "PATCH"])
    router.add_api_route("/{id:uuid}/runs/{run}", there, methods=["DELETE"])
    router.add_api_websocket_route("/{thread}/stream/events", socket)
    app.include_router(router)
    app.mount("", Starlette())
    assert missing_routes(app) == []


def test_routes_that_are_not_in_the_table_are_listed():
    app, router, inner = small_app(), APIRouter(prefix="/threads"), APIRouter()
    inner.add_api_route("/deep", there, methods=["GET", "POST"])
    router.include_router(inner, prefix="/{id}")
    router.add_api_websocket_route("/{id}/listen", socket)
    router.add_api_route("/{id}", there, methods=["PUT"])
    app.include_router(router)
    app.add_api_route("/new", there)
    app.add_api_route("/threads/{path:path}", there)
    app.mount("/static", Starlette())
    assert sorted(missing_routes(app)) == [
        "GET /new",
        "GET /static/{path:path}",
        "GET /threads/{id}/deep",
        "GET /threads/{path:path}",
        "POST /threads/{id}/deep",
        "PUT /threads/{id}",
        "WEBSOCKET /threads/{id}/listen",
    ]


def test_a_plain_app_of_fastapi_shows_what_it_adds_by_itself():
    assert missing_routes(FastAPI()) == [
        "GET /docs/oauth2-redirect",
        "HEAD /docs/oauth2-redirect",
        "GET /redoc",
        "HEAD /redoc",
    ]
