"""The one table of routes: what each asks of its caller.

A route that is not in it does not exist for the guard, so that nothing is open by oversight. Which
route a request is for, the app's own routes say: there is no other way to read a path.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from starlette._utils import get_route_path  # the router's own, so that both see one path
from starlette.routing import BaseRoute, Match, Mount, WebSocketRoute
from starlette.types import Scope

from checkrail.server.auth.caller import Needs

SOCKET = "WEBSOCKET"
_PARAMETER = re.compile(r"{\w+(?::(\w+))?}")


@dataclass(frozen=True, slots=True)
class Rule:
    """What a route requires of its caller, and what it is in the terms of an Auth object."""

    method: str
    path: str
    needs: Needs
    resource: str | None = None
    action: str | None = None


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """What is known of a request: the rule of its route, or the methods that its path takes."""

    rule: Rule | None
    methods: tuple[str, ...] = ()
    params: dict[str, str] = field(default_factory=dict)
    ours: bool = True


class Rules:
    """Rules by the paths of routes and their methods; the names in a path do not matter."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_path: dict[str, dict[str, Rule]] = {}
        self._prefixes: set[str] = set()
        for rule in rules:
            methods = self._by_path.setdefault(_path_shape(rule.path), {})
            if rule.method in methods:
                raise ValueError(f"there are two rules for {rule.method} {rule.path}")
            methods[rule.method] = rule
            self._prefixes.add(rule.path.split("/")[1])

    def has(self, method: str, path: str) -> bool:
        """Return whether a route of an app has its rule."""
        return self.get(method, path) is not None

    def get(self, method: str, path: str) -> Rule | None:
        """Return the rule of a route, by its path as the route has it."""
        return self._of_path(path).get(_plain_method(method))

    def find(self, scope: Scope, routes: Sequence[BaseRoute]) -> RuleMatch:
        """Return the rule of the route that answers a request: the first that matches it."""
        is_socket = scope["type"] == "websocket"
        wanted = SOCKET if is_socket else _plain_method(scope["method"])
        known: set[str] = set()
        for route, match, params in _matching_routes({**scope, "method": wanted}, routes):
            rules = self._of_path(_path_of(route))
            if match is Match.FULL and wanted in rules:
                return RuleMatch(rules[wanted], params=params)
            known.update(rules)
        first = get_route_path(scope).split("/")[1:2]
        return RuleMatch(
            None, tuple(sorted(known - {SOCKET})), ours=not self._prefixes.isdisjoint(first)
        )

    def _of_path(self, path: str) -> dict[str, Rule]:
        return self._by_path.get(_path_shape(path), {})


def _matching_routes(
    scope: Scope, routes: Sequence[BaseRoute]
) -> Iterator[tuple[BaseRoute, Match, dict[str, str]]]:
    """Yield the routes whose path fits, up to the one that the app takes."""
    for route in routes:
        match, found = route.matches(scope)
        if match is not Match.NONE:
            yield route, match, found.get("path_params", {})
        if match is Match.FULL:
            break
    if scope["type"] == "websocket":  # no route took it: those that take requests there
        for route, *_ in _matching_routes({**scope, "type": "http"}, routes):
            yield route, Match.PARTIAL, {}


def _path_of(route: BaseRoute) -> str:
    path: str = getattr(route, "path", "")
    return f"{path}/{{path:path}}" if isinstance(route, Mount) else path


@functools.cache
def _path_shape(path: str) -> str:
    """Return a path without the names of what is filled in; what may be a whole tree says so."""
    return _PARAMETER.sub(lambda found: "{*}" if found[1] == "path" else "{}", path)


def _plain_method(method: str) -> str:
    return "GET" if method == "HEAD" else method


_READING = frozenset({"read", "search", "get", "list_namespaces"})


def _parse_rules(resource: str, *lines: str) -> tuple[Rule, ...]:
    """Read lines of method, path and action; a viewer may do what only reads."""
    return tuple(_build_rule(resource, *line.split()) for line in lines)


def _build_rule(resource: str, method: str, path: str, action: str) -> Rule:
    needs: Needs = "viewer" if action in _READING else "member"
    return Rule(method, path, needs, resource, action)


SERVER = (
    Rule("GET", "/ok", "public"),
    Rule("GET", "/info", "public"),
    Rule("GET", "/docs", "public"),
    Rule("GET", "/docs/page.css", "public"),
    Rule("GET", "/docs/page.js", "public"),
    Rule("GET", "/openapi.json", "public"),
    Rule("GET", "/metrics", "viewer"),
    Rule("GET", "/me", "viewer"),
)

ASSISTANTS = _parse_rules(
    "assistants",
    "POST   /assistants                                     create",
    "POST   /assistants/search                              search",
    "POST   /assistants/count                               search",
    "GET    /assistants/{assistant_id}                      read",
    "PATCH  /assistants/{assistant_id}                      update",
    "DELETE /assistants/{assistant_id}                      delete",
    "GET    /assistants/{assistant_id}/graph                read",
    "GET    /assistants/{assistant_id}/schemas              read",
    "GET    /assistants/{assistant_id}/subgraphs            read",
    "GET    /assistants/{assistant_id}/subgraphs/{namespace} read",
    "POST   /assistants/{assistant_id}/versions             read",
    "POST   /assistants/{assistant_id}/latest               update",
)

AGENTS = _parse_rules(
    "agents",
    "POST   /agents                                         create",
    "GET    /agents                                         search",
    "GET    /agents/{name}                                  read",
    "PATCH  /agents/{name}                                  update",
    "PUT    /agents/{name}                                  update",
    "DELETE /agents/{name}                                  delete",
    "GET    /agents/{name}/versions                         read",
    "GET    /agents/{name}/versions/{number}                read",
    "POST   /agents/check                                   create",
    "GET    /plan                                           search",
    "POST   /agents/{name}/enable                           update",
    "POST   /agents/{name}/disable                          update",
)

HOOKS = (
    Rule("GET", "/hooks", "admin", "hooks", "search"),
    Rule("GET", "/hooks/{name}", "admin", "hooks", "read"),
    Rule("PUT", "/hooks/{name}", "admin", "hooks", "update"),
    Rule("DELETE", "/hooks/{name}", "admin", "hooks", "delete"),
)

THREADS = _parse_rules(
    "threads",
    "POST   /threads                                        create",
    "POST   /threads/search                                 search",
    "POST   /threads/count                                  search",
    "POST   /threads/prune                                  delete",
    "GET    /threads/{thread_id}                            read",
    "PATCH  /threads/{thread_id}                            update",
    "DELETE /threads/{thread_id}                            delete",
    "POST   /threads/{thread_id}/copy                       create",
    "GET    /threads/{thread_id}/state                      read",
    "POST   /threads/{thread_id}/state                      update",
    "POST   /threads/{thread_id}/state/checkpoint           read",
    "GET    /threads/{thread_id}/state/{checkpoint_id}      read",
    "GET    /threads/{thread_id}/history                    read",
    "POST   /threads/{thread_id}/history                    read",
    "GET    /threads/{thread_id}/stream                     read",
    "POST   /threads/{thread_id}/commands                   create_run",
    "POST   /threads/{thread_id}/stream/events              read",
    f"{SOCKET} /threads/{{thread_id}}/stream/events         read",
)

RUNS = _parse_rules(
    "threads",
    "GET    /threads/{thread_id}/runs                       search",
    "POST   /threads/{thread_id}/runs                       create_run",
    "POST   /threads/{thread_id}/runs/stream                create_run",
    "POST   /threads/{thread_id}/runs/wait                  create_run",
    "GET    /threads/{thread_id}/runs/{run_id}              read",
    "DELETE /threads/{thread_id}/runs/{run_id}              delete",
    "POST   /threads/{thread_id}/runs/{run_id}/cancel       update",
    "GET    /threads/{thread_id}/runs/{run_id}/join         read",
    "GET    /threads/{thread_id}/runs/{run_id}/stream       read",
    "POST   /runs                                           create_run",
    "POST   /runs/batch                                     create_run",
    "POST   /runs/stream                                    create_run",
    "POST   /runs/wait                                      create_run",
    "POST   /runs/cancel                                    update",
    "GET    /runs                                           search",
    "GET    /runs/count                                     search",
    "GET    /runs/{run_id}                                  read",
    "GET    /runs/{run_id}/hooks                            read",
    "GET    /runs/{run_id}/hooks/{record_id}                read",
    "GET    /runs/{run_id}/events                           read",
    "GET    /runs/{run_id}/steps                            read",
    "GET    /runs/{run_id}/steps/{step_id}                  read",
    "POST   /runs/{run_id}/cancel                           update",
)

EVENTS = _parse_rules(
    "events",
    "GET    /events                                         read",
    "GET    /stats/runs                                     read",
    "GET    /hooks/stats                                    read",
)

SESSIONS = _parse_rules(
    "sessions",
    "GET    /sessions                                       search",
    "GET    /sessions/{session_id}                          read",
    "GET    /sessions/{session_id}/runs                     read",
    "POST   /sessions/{session_id}/resume                   create_run",
    "POST   /sessions/{session_id}/stop                     update",
    "POST   /sessions/{session_id}/end                      update",
)

MESSAGES = _parse_rules(
    "messages",
    "POST   /messages                                       create_run",
    "POST   /messages/stream                                create_run",
    f"{SOCKET} /messages/ws                                 create_run",
    "GET    /messages                                       search",
    "GET    /messages/{message_id}                          read",
)

CHANNELS = (  # who calls is known by a signature, which each channel checks itself
    Rule("GET", "/channels/{name}", "public"),
    Rule("POST", "/channels/{name}", "public"),
)

APPROVALS = _parse_rules(
    "approvals",
    "GET    /approvals                                      search",
    "GET    /approvals/count                                search",
    "GET    /approvals/{approval_id}                        read",
    "POST   /approvals/{approval_id}/approve                update",
    "POST   /approvals/{approval_id}/deny                   update",
)

CRONS = _parse_rules(
    "crons",
    "POST   /threads/{thread_id}/runs/crons                 create",
    "POST   /runs/crons                                     create",
    "POST   /runs/crons/search                              search",
    "POST   /runs/crons/count                               search",
    "GET    /runs/crons/{cron_id}                           read",
    "PATCH  /runs/crons/{cron_id}                           update",
    "DELETE /runs/crons/{cron_id}                           delete",
)

STORE = _parse_rules(
    "store",
    "PUT    /store/items                                    put",
    "GET    /store/items                                    get",
    "DELETE /store/items                                    delete",
    "POST   /store/items/search                             search",
    "POST   /store/namespaces                               list_namespaces",
)

RUNNER = (
    Rule("GET", "/runners", "admin"),
    Rule("GET", "/queue", "admin"),
    Rule("POST", "/runner/register", "runner"),
    Rule("GET", "/runner/runs", "runner"),
    Rule("POST", "/runner/runs/{run_id}/heartbeat", "runner"),
    Rule("POST", "/runner/runs/{run_id}/events", "runner"),
    Rule("POST", "/runner/runs/{run_id}/points", "runner"),
    Rule("POST", "/runner/runs/{run_id}/completed", "runner"),
    Rule("POST", "/runner/runs/{run_id}/left", "runner"),
    Rule("POST", "/runner/runs/{run_id}/failed", "runner"),
    Rule("POST", "/runner/runs/{run_id}/stopped", "runner"),
    Rule("POST", "/runner/deregister", "runner"),
)

GATEWAY = (
    *_parse_rules(
        "calls",
        "GET    /gateway/calls                                  search",
        "GET    /gateway/calls/stats                            search",
        "GET    /gateway/calls/{call_id}                        read",
    ),
    *(
        Rule(method, "/gateway/{path:path}", "member")
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
    ),
)

RULES = (
    *SERVER,
    *ASSISTANTS,
    *AGENTS,
    *HOOKS,
    *THREADS,
    *RUNS,
    *SESSIONS,
    *MESSAGES,
    *CHANNELS,
    *EVENTS,
    *APPROVALS,
    *CRONS,
    *STORE,
    *RUNNER,
    *GATEWAY,
)
"""All rules, in no order that matters."""

TABLE = Rules(RULES)


def missing_routes(app: FastAPI, rules: Rules = TABLE) -> list[str]:
    """Return the routes of an app that the table does not have."""
    return [f"{method} {path}" for method, path in routes_of(app) if not rules.has(method, path)]


def routes_of(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Yield the methods and paths of an app; a socket's method is `SOCKET`."""
    for context in iter_route_contexts(app.routes):
        path = context.path or ""
        if isinstance(context.original_route, WebSocketRoute):
            yield SOCKET, path
        elif isinstance(context.original_route, Mount):
            if path:  # at the root it is the user's own app, for which the guard has its own rule
                yield "GET", f"{path}/{{path:path}}"
        else:
            yield from ((method, path) for method in sorted(context.methods or ()))
