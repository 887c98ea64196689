"""Every route of the app, called by every kind of caller on things of ann's.

A route, a query option or a header without a line in the tables below fails a test.
"""

import contextlib
import hashlib
import json
import re
import sqlite3
import time
import uuid
from pathlib import Path
from unittest.mock import Mock

import httpx
import pytest
import websockets
from starlette.applications import Starlette
from tests.processes import until
from websockets.sync.client import connect

from checkrail.config.server import ServerConfig
from checkrail.server.app import build_app
from checkrail.server.auth import choose_authenticator
from checkrail.server.auth.route_table import SOCKET, routes_of
from checkrail.server.services import Services

from .conftest import KEYS

CALLERS = ("nobody", "revoked", "runner", "viewer", "other", "member", "admin")
"""Viewer and member are ann's, whose things are called for; other is bob's."""


def read_table():
    """The statuses that each caller gets, by route; the first line names the callers."""
    lines = (Path(__file__).parent / "routes.txt").read_text().splitlines()
    assert tuple(lines[0].split()[3:]) == CALLERS
    found = {}
    for method, path, *statuses in map(str.split, lines[1:]):
        assert f"{method} {path}" not in found
        found[f"{method} {path}"] = dict(zip(CALLERS, statuses, strict=True))
    return found


ROUTES = read_table()

SCRIPTED = {"provider": "scripted", "replies": ["done"]}
TOKEN = "token-of-anns-agent"
HOOKS = {
    "on_run_finish": {
        "type": "http",
        "url": f"https://hooks.example/?a={TOKEN}",
    }
}
ECHO = {"assistant_id": "echo", "input": {"text": "x"}}
CRON = {"assistant_id": "echo", "schedule": "0 0 1 1 *", "input": {}}
LEASED = {"attempt": 1}
SAID = {"content": "x", "agent_name": "talker"}
START = {"id": 1, "method": "state.get", "params": {"namespace": []}}
ITEM = {"namespace": ["shared"], "key": "k"}

BODIES = {
    "POST /agents/check": {"name": "{new}", "model": SCRIPTED},
    "POST /agents": {"name": "{new}", "model": SCRIPTED},
    "POST /assistants": {"graph_id": "echo"},
    "POST /gateway/{path:path}": {"model": "m", "stream": True, "messages": []},
    "POST /runner/register": {"name": "matrix", "tags": ["nowhere"]},
    "POST /runner/runs/{run_id}/completed": {**LEASED, "output": {}},
    "POST /runner/runs/{run_id}/events": {**LEASED, "events": []},
    "POST /runner/runs/{run_id}/failed": {**LEASED, "error": "x", "error_type": "X"},
    "POST /runner/runs/{run_id}/heartbeat": LEASED,
    "POST /runner/runs/{run_id}/left": {**LEASED, "memo": {}},
    "POST /runner/runs/{run_id}/points": {**LEASED, "point": "before_tool_call", "value": {}},
    "POST /runner/runs/{run_id}/stopped": LEASED,
    "POST /runs": ECHO,
    "POST /runs/batch": [ECHO],
    "POST /runs/cancel": {"thread_id": "{thread_id}", "run_ids": ["{run_id}"]},
    "POST /runs/crons": CRON,
    "POST /runs/stream": ECHO,
    "POST /runs/wait": ECHO,
    "POST /messages": SAID,
    "POST /messages/stream": SAID,
    "POST /sessions/{session_id}/resume": {"prompt": "x", "execution_mode": "sync"},
    "POST /threads/prune": {"thread_ids": ["{thread_id}"]},
    "POST /threads/{thread_id}/commands": START,
    "POST /threads/{thread_id}/runs": ECHO,
    "POST /threads/{thread_id}/runs/crons": CRON,
    "POST /threads/{thread_id}/runs/stream": ECHO,
    "POST /threads/{thread_id}/runs/wait": ECHO,
    "POST /threads/{thread_id}/state": {"values": {"text": "y"}},
    "POST /threads/{thread_id}/state/checkpoint": {
        "checkpoint": {"checkpoint_id": "{checkpoint_id}"}
    },
    "POST /threads/{thread_id}/stream/events": {"channels": ["lifecycle", "input"]},
    "POST /assistants/{assistant_id}/latest": {"version": 1},
    "PATCH /agents/{name}": {"system_prompt": "x"},
    "PUT /agents/{name}": {"model": SCRIPTED},
    "PUT /hooks/{name}": {"block": "x"},
    "PUT /store/items": {**ITEM, "value": {"a": 1}},
    "DELETE /store/items": {"namespace": ["shared"], "key": "none"},
}
SUBPROTOCOLS = ["checkrail.chat.v1"]
FIRST = {
    "events": {"id": 1, "method": "subscription.subscribe", "params": {"channels": []}},
    "ws": {"type": "message", "id": "matrix", **SAID},
}
"""What is sent first over a WebSocket, by the last part of its path."""
QUERIES = {
    "GET /store/items": {"namespace": "shared", "key": "k"},
    "GET /runner/runs": {"room": 0},
}
FRESH = {
    "DELETE /agents/{name}": "agent",
    "DELETE /assistants/{assistant_id}": "assistant",
    "DELETE /hooks/{name}": "hook",
    "DELETE /runs/crons/{cron_id}": "cron",
    "DELETE /threads/{thread_id}": "thread",
    "DELETE /threads/{thread_id}/runs/{run_id}": "thread",
    "POST /approvals/{approval_id}/approve": "approval",
    "POST /approvals/{approval_id}/deny": "approval",
    "POST /runner/deregister": "runner",
    "POST /sessions/{session_id}/end": "session",
    "POST /threads/prune": "thread",
}
"""Routes that use up what they are called for: who may call them gets one of their own."""


KINDS = (
    "message",
    "thread",
    "session",
    "assistant",
    "agent",
    "cron",
    "approval",
    "hook",
    "runner",
    "call",
)
PRIVATE = (
    *("thread_id", "run_id", "session_id", "child_id", "cron_id", "approval_id", "checkpoint_id"),
    *("call_id", "message_id"),
)
"""Ids that nobody is told but their owner and admins."""


class Things:
    """Things of ann's, made through the API."""

    def __init__(self, keyed):
        self.keyed = keyed
        self.clients = {caller: keyed.client(caller) for caller in CALLERS}
        self.shared = {"namespace": "x", "channel": "team", "path:path": "v1/chat/completions"}
        self.shared["number"] = "1"
        for kind in KINDS:
            self.shared |= self.make(kind)
        item = {**ITEM, "value": {"a": 1}}
        assert self.clients["member"].put("/store/items", json=item).is_success

    def make(self, kind):
        """Make one thing; give its ids."""
        return getattr(self, f"_make_{kind}")()

    def _post(self, path, body, caller="member"):
        answer = self.clients[caller].post(path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    def _make_message(self):
        return {"message_id": self._post("/messages", SAID)["message_id"]}

    def _make_thread(self):
        thread = self._post("/threads", {})["thread_id"]
        self._post(f"/threads/{thread}/runs/wait", ECHO)
        [run] = self.clients["member"].get(f"/threads/{thread}/runs").json()
        state = self.clients["member"].get(f"/threads/{thread}/state").json()
        [record, *_] = self.clients["member"].get(f"/runs/{run['run_id']}/hooks").json()
        ids = {"thread_id": thread, "run_id": run["run_id"], "record_id": record["record_id"]}
        ids["step_id"] = "queue"
        return {**ids, "checkpoint_id": state["checkpoint"]["checkpoint_id"]}

    def _make_session(self):
        body = {"agent_name": "echo", "parameters": {"text": "x"}, "execution_mode": "sync"}
        made = self._post("/runs", body)["session_id"]
        child = self._post("/runs", {**body, "parent_session_id": made})["session_id"]
        return {"session_id": made, "child_id": child}

    def _make_assistant(self):
        made = self._post("/assistants", {"graph_id": "echo"})
        return {"assistant_id": made["assistant_id"]}

    def _make_agent(self):
        name = f"agent-{uuid.uuid4().hex[:8]}"
        self._post("/agents", {"name": name, "model": SCRIPTED, "hooks": HOOKS})
        return {"name": name}

    def _make_cron(self):
        return {"cron_id": self._post("/runs/crons", CRON)["cron_id"]}

    def _make_approval(self):
        run = self._post("/runs", {**ECHO, "assistant_id": "asked"})["run_id"]
        member = self.clients["member"]
        until(lambda: member.get(f"/approvals?run_id={run}").json(), "the question")
        return {"approval_id": member.get(f"/approvals?run_id={run}").json()[0]["approval_id"]}

    def _make_hook(self):
        name = f"hook-{uuid.uuid4().hex[:8]}"
        assert self.clients["admin"].put(f"/hooks/{name}", json={"block": "x"}).is_success
        return {"hook_name": name}

    def _make_runner(self):
        made = self._post("/runner/register", {"name": "m", "tags": ["nowhere"]}, "runner")
        return {"runner_id": made["runner_id"]}

    def _make_call(self):
        member, body = self.clients["member"], BODIES["POST /gateway/{path:path}"]
        with member.stream("POST", "/gateway/v1/chat/completions", json=body) as answer:
            assert answer.is_success
        until(lambda: member.get("/gateway/calls").json(), "the record of the call")
        return {"call_id": member.get("/gateway/calls").json()[0]["call_id"]}

    def call(self, caller, route, *, fresh=False, query=None, body=None, headers=None):
        """Call a route: the status of its answer, and its text.

        The status is `open` if there is no answer for a while, and `error` for a command that
        was answered with one.
        """
        method, path = route.split()
        ids = {**self.shared, "new": f"agent-{uuid.uuid4().hex[:8]}"}
        if fresh:
            ids |= self.make(FRESH[route])
        if path.startswith("/hooks"):
            ids["name"] = ids["hook_name"]
        if path.startswith("/channels"):
            ids["name"] = "desk"
        path = re.sub(r"\{([^}]+)\}", lambda found: str(ids[found[1]]), path)
        if method == SOCKET:
            return self._handshake(caller, path), ""
        options = {"params": {**QUERIES.get(route, {}), **self.filled(query or {}, ids)}}
        if method in ("POST", "PUT", "PATCH", "DELETE"):
            options["json"] = self.filled(BODIES.get(route, {}) if body is None else body, ids)
        options["headers"] = {"x-runner-id": ids["runner_id"], **(headers or {})}
        polls = (caller, route) == ("runner", "GET /runner/runs")
        options["timeout"] = httpx.Timeout(30, read=0.5 if polls else 30)
        try:
            with self.clients[caller].stream(method, path, **options) as answer:
                if "event-stream" in answer.headers.get("content-type", ""):
                    return str(answer.status_code), ""
                text = answer.read().decode()
        except httpx.ReadTimeout:
            return "open", ""
        failed = path.endswith("/commands") and answer.is_success and "error" in text
        return "error" if failed else str(answer.status_code), text

    def filled(self, value, ids=None):
        """Put the ids of things where a value names them."""
        ids = ids or self.shared
        text = re.sub(r"\{(\w+_id|new)\}", lambda found: ids[found[1]], json.dumps(value))
        return json.loads(text)

    def _handshake(self, caller, path):
        url = self.keyed.url.replace("http", "ws") + path
        headers = self.keyed.headers(caller)
        try:
            with connect(url, additional_headers=headers, subprotocols=SUBPROTOCOLS) as socket:
                socket.send(json.dumps(FIRST[path.rpartition("/")[2]]))
                socket.recv(timeout=30)
                return "101"
        except websockets.InvalidStatus as refused:
            return str(refused.response.status_code)
        except websockets.ConnectionClosed as closed:
            return str(closed.rcvd.code)


@contextlib.contextmanager
def opened(keyed):
    made = Things(keyed)
    try:
        yield made
    finally:
        for client in made.clients.values():
            client.close()


@pytest.fixture(scope="module")
def things(start_keyed, new_database):
    """Things on a server whose callers are known by keys."""
    keyed = start_keyed(new_database("sqlite"))
    keyed.add_keys()
    with opened(keyed) as made:
        yield made


@pytest.fixture
def things_by_auth(start_keyed, new_database):
    """Things on a server whose callers are known by an Auth object, but for runners."""
    keyed = start_keyed(new_database("sqlite"), "auth.yaml")
    keyed.add_key("runner", *KEYS["runner"])
    keyed.names = {caller: caller for caller in KEYS if caller != "runner"}
    with opened(keyed) as made:
        yield made


def app_of_everything():
    """The app as the server builds it, with nothing behind its routes."""
    services = Services(
        ServerConfig(),
        Mock(),
        Mock(),
        *[None] * 3,
        choose_authenticator(),
        None,
        gateway=Starlette(),
    )
    return build_app(services, Starlette())


APP = app_of_everything()
MOUNTED = ("POST", "PUT", "PATCH", "DELETE")


def all_routes():
    """The routes of the app and of what is mounted in it, as the lines of the table name them."""
    found = [f"{method} {path}" for method, path in routes_of(APP)]
    mounted = [each.split()[1] for each in found if each.endswith(":path}")]
    found += [f"{method} {path}" for path in mounted for method in MOUNTED]
    return [*found, "GET /own", "POST /own"]


def test_every_route_of_the_app_has_its_line_and_every_line_its_route():
    assert sorted(ROUTES) == sorted(all_routes())


def test_each_caller_gets_what_the_table_says_and_nothing_of_others(things):
    check_table(things, ROUTES)


def test_callers_by_an_auth_object_get_the_same(things_by_auth):
    """Runners alone have keys there, and only for what runners do."""
    expected = {}
    for route, statuses in ROUTES.items():
        with_keys = ("runner",) if " /runner/" in route else CALLERS[3:]
        expected[route] = {
            caller: status if caller in with_keys or statuses["nobody"] in ("200", "405") else "401"
            for caller, status in statuses.items()
        }
    check_table(things_by_auth, expected)


def check_table(things, table):
    """Call every route as every caller."""
    got = {}
    for route, expected in table.items():
        got[route] = {}
        for caller in CALLERS:
            fresh = route in FRESH and expected[caller][0] == "2" and caller != "other"
            status, text = things.call(caller, route, fresh=fresh)
            got[route][caller] = status
            if caller not in ("viewer", "member", "admin") and status[0] == "2":
                told = [name for name in PRIVATE if things.shared[name] in text]
                assert told == [], (route, caller)
                assert TOKEN not in text, (route, caller)
    wrong = [
        f"{route}: {caller} got {status}, not {table[route][caller]}"
        for route, statuses in got.items()
        for caller, status in statuses.items()
        if status != table[route][caller]
    ]
    assert wrong == []
    member = things.clients["member"]
    for path in ("/threads/{thread_id}", "/runs/{run_id}", "/sessions/{session_id}"):
        assert member.get(things.filled(path)).is_success, "somebody else removed it"
    assert TOKEN in member.get(f"/agents/{things.shared['name']}/versions").text


def test_no_other_method_gets_through(things):
    """What a route does not have is 401 to who is not known, and nothing that works to others."""
    paths = {}
    for route in ROUTES:
        method, path = route.split()
        paths.setdefault(path, set()).add("GET" if method == SOCKET else method)
    for path, methods in paths.items():
        if path == "/own":
            continue
        public = ROUTES.get(f"GET {path}", {}).get("nobody") in ("200", "405")
        for method in {"HEAD", "OPTIONS", "PUT", "DELETE"} - methods:
            for caller in ("nobody", "viewer"):
                status, _ = things.call(caller, f"{method} {path}")
                unknown = caller == "nobody" and not public
                assert status == "401" if unknown else status[0] in "45", (method, path, caller)


READING = {
    "after": "0",
    "agent_name": "echo",
    "assistant_id": "{assistant_id}",
    "before": "{run_id}",
    "channel": "http",
    "check_db": "true",
    "checkpoint": {"checkpoint_id": "{checkpoint_id}"},
    "decision": "block",
    "enabled": True,
    "extract": {"a": "values.text"},
    "around": "queue",
    "by": "status",
    "cap": 5,
    "fields": "list",
    "filter": {"a": 1},
    "fold": "true",
    "from": "2020-01-01T00:00:00Z",
    "graph_id": "echo",
    "hooks": "any",
    "ids": ["{thread_id}"],
    "include": "ttl",
    "key": "k",
    "Last-Event-ID": "0",
    "limit": 5,
    "live": "true",
    "max_depth": 2,
    "metadata": {},
    "model": "m",
    "name": "echo",
    "namespace": "shared",
    "namespace_prefix": ["shared"],
    "offset": 0,
    "open": True,
    "origin": "api",
    "parent_run_id": "{run_id}",
    "parent_session_id": "{session_id}",
    "phase": "success",
    "prefix": ["shared"],
    "q": "x",
    "query": None,
    "recurse": "true",
    "refresh_ttl": True,
    "run_id": "{run_id}",
    "select": None,
    "since": "2026-01-31",
    "session_id": "{session_id}",
    "sort_by": "created_at",
    "sort_order": "asc",
    "show": "all",
    "status": None,
    "to": "2100-01-01T00:00:00Z",
    "types": "run_*",
    "window": "1h",
    "hook": "door",
    "stream_mode": "values",
    "subgraphs": True,
    "suffix": ["shared"],
    "thread_id": "{thread_id}",
    "user": "ann",
    "user_id": "ann",
    "values": {"text": "x"},
    "xray": "true",
}
"""Options that change nothing, each with a value; None is one that is not tried."""

OF_ROUTE = {
    ("GET /runs/{run_id}/hooks", "fields"): "summary",
    ("GET /gateway/calls/stats", "by"): "user",
    ("GET /approvals", "before"): "{approval_id}",
    ("GET /gateway/calls", "before"): "{call_id}",
    ("GET /messages", "before"): "{message_id}",
    ("GET /sessions", "before"): "{session_id}",
    ("GET /threads/{thread_id}/stream", "stream_mode"): "run_modes",
    ("GET /threads/{thread_id}/history", "before"): "{checkpoint_id}",
    ("POST /threads/{thread_id}/history", "before"): "{checkpoint_id}",
}
CHANGING = {"cancel_on_disconnect": "true"}
"""Options that change something, and need a member."""


def options_of(route):
    """The query options, the headers and the members of the body that a route has."""
    method, path = route.split()
    document = APP.openapi()
    operation = document["paths"].get(path, {}).get(method.lower(), {})
    given = {"query": [], "header": [], "body": []}
    for each in operation.get("parameters", ()):
        if each["in"] != "path":
            given[each["in"]].append(each["name"])
    content = operation.get("requestBody", {}).get("content", {})
    schema = content.get("application/json", {}).get("schema", {})
    given["body"] = [*_members(document, schema)]
    return given


def _members(document, schema):
    if "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    yield from schema.get("properties", ())
    for each in (*schema.get("anyOf", ()), *schema.get("allOf", ())):
        yield from _members(document, each)


READ = [route for route, expected in ROUTES.items() if expected["viewer"] in ("200", "101")]


def test_every_option_of_a_route_that_a_viewer_may_call_is_known():
    used = {name for route in READ for names in options_of(route).values() for name in names}
    assert used == {*READING, *CHANGING}


def test_a_viewer_changes_nothing_by_any_option(things):
    before = settled(things.keyed)
    for route in READ:
        options = options_of(route)
        given = {
            kind: {
                name: value
                for name in names
                if (value := OF_ROUTE.get((route, name), READING.get(name))) is not None
            }
            for kind, names in options.items()
        }
        body = {**BODIES.get(route, {}), **given["body"]}
        more = {"query": given["query"], "body": body, "headers": given["header"]}
        status, text = things.call("viewer", route, **more)
        assert status in ("200", "101"), (route, given, text)
        for name in {*CHANGING} & {*options["query"]}:
            refused, _ = things.call("viewer", route, query={name: CHANGING[name]})
            assert refused == "403", (route, name)
    assert settled(things.keyed) == before


NAMING = {
    "after": "{thread_id}",
    "assistant_id": "{assistant_id}",
    "before": "{run_id}",
    "checkpoint": {"thread_id": "{thread_id}", "checkpoint_id": "{checkpoint_id}"},
    "checkpoint_id": "{checkpoint_id}",
    "config": {"configurable": {"thread_id": "{thread_id}", "checkpoint_id": "{checkpoint_id}"}},
    "context": {"thread_id": "{thread_id}"},
    "holding": "{run_id}",
    "message_id": "{message_id}",
    "ids": ["{thread_id}"],
    "parent_run_id": "{run_id}",
    "parent_session_id": "{session_id}",
    "run_id": "{run_id}",
    "run_ids": ["{run_id}"],
    "session_id": "{session_id}",
    "stopping": "{run_id}",
    "thread_id": "{thread_id}",
    "thread_ids": ["{thread_id}"],
    "user_id": "ann",
}
"""Options that name something, each with something of ann's."""
COORDINATED = {"POST /runs": {"agent_name": "echo", "parameters": {}, "execution_mode": "sync"}}
"""Bodies of routes that take two kinds of them."""


def test_every_option_that_names_something_is_known():
    used = {name for route in ROUTES for names in options_of(route).values() for name in names}
    naming = {name for name in used if re.search(r"(^|_)ids?$", name)}
    assert naming - {"agent_id", "graph_id", "id", "X-Runner-Id", "runner_id"} <= NAMING.keys()


def test_nobody_reads_or_changes_what_is_somebody_elses_by_any_option(things):
    before = settled(things.keyed, owned)
    assert before
    for route, expected in ROUTES.items():
        if expected["other"][0] != "2" or "gateway" in route:
            continue
        for kind, names in options_of(route).items():
            for name in NAMING.keys() & set(names):
                told = {name: OF_ROUTE.get((route, name), NAMING[name])}
                hidden = [each for each in PRIVATE if each not in json.dumps(told)]
                for body in (BODIES.get(route, {}), COORDINATED.get(route)):
                    if body is None or isinstance(body, list):
                        continue
                    more = {"query": told} if kind == "query" else {"body": {**body, **told}}
                    _, text = things.call("other", route, **more)
                    leaked = [each for each in hidden if things.shared[each] in text]
                    assert leaked == [], (route, name)
    assert settled(things.keyed, owned) == before


def owned(keyed):
    """Return what is ann's in the database of a server."""
    folder, found = Path(keyed.served.database.env["CHECKRAIL_DATA_DIR"]), {}
    with contextlib.closing(sqlite3.connect(folder / "checkrail.db")) as connection:
        tables = connection.execute(
            "SELECT m.name FROM sqlite_master m JOIN pragma_table_info(m.name) c"
            " WHERE m.type = 'table' AND c.name = 'owner' AND m.name != 'api_keys'"
        )
        for (table,) in tables.fetchall():
            rows = connection.execute(f"SELECT * FROM \"{table}\" WHERE owner = 'ann'").fetchall()
            found[table] = sorted(map(repr, rows))
    return found


def settled(keyed, read=None):
    """What the databases of a server hold, once nothing changes any more."""
    found, read = None, read or dump
    while found != (found := read(keyed)):
        time.sleep(0.3)
    return found


def dump(keyed):
    """A digest of each table but those of workers, which beat, and of figures, written late."""
    folder, found = Path(keyed.served.database.env["CHECKRAIL_DATA_DIR"]), {}
    for name in ("checkrail.db", "checkpoints.db", "store.db"):
        with contextlib.closing(sqlite3.connect(folder / name)) as connection:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            for (table,) in tables.fetchall():
                if table not in ("workers", "rollups"):
                    rows = connection.execute(f'SELECT * FROM "{table}"').fetchall()
                    found[name, table] = hashlib.sha256(repr(sorted(map(repr, rows))).encode())
    return {table: digest.hexdigest() for table, digest in found.items()}


def test_the_feed_tells_each_caller_of_their_own_runs_and_admins_of_all(things):
    mine = {caller: newest_run(things, caller) for caller in ("member", "other")}
    for caller, last in {
        "viewer": mine["member"],
        "member": mine["member"],
        "other": mine["other"],
        "admin": mine["other"],  # which is the newest of all
    }.items():
        told = {each.get("run_id") for each in read_feed(things.clients[caller], last)}
        seen = things.clients[caller].get("/runs?limit=1000").json()
        assert told - {None} <= {each["run_id"] for each in seen}
        assert (things.shared["run_id"] in told) == (caller != "other")
        assert (mine["other"] in told) == (caller in ("other", "admin"))


def newest_run(things, caller):
    """Run something as a caller, to its end."""
    client = things.clients[caller]
    assert client.post("/runs/wait", json=ECHO).is_success
    return client.get("/runs?limit=1").json()[0]["run_id"]


def read_feed(client, last):
    """All that the feed tells up to the end of a run."""
    with client.stream("GET", "/events?after=0") as answer:
        for line in answer.iter_lines():
            if line.startswith("data: "):
                told = json.loads(line.removeprefix("data: "))
                yield told
                if told.get("run_id") == last and told.get("event_type") == "run_ended":
                    return
