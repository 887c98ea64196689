"""Small graphs, and the routes that serve them."""

import contextlib
from dataclasses import dataclass, field
from operator import add
from typing import Annotated, Any

import httpx2
from langgraph.graph import START, StateGraph
from langgraph_sdk import Auth
from typing_extensions import TypedDict

from checkrail.server.app import build_app
from checkrail.server.auth import choose_authenticator
from checkrail.server.services import Services

HERE = "http://127.0.0.1"


class Said(TypedDict, total=False):
    text: str
    log: Annotated[list[str], add]


def say(state: Said) -> Said:
    return {"log": [state.get("text", "")]}


def shout(state: Said) -> Said:
    return {"log": [state.get("text", "").upper()]}


echo = StateGraph(Said).add_node("say", say).add_edge(START, "say").compile(name="echo")
loud = StateGraph(Said).add_node("shout", shout).add_edge(START, "shout").compile(name="loud")
nested = (
    StateGraph(Said)
    .add_node("outer", say)
    .add_node("child", loud)
    .add_edge(START, "outer")
    .add_edge("outer", "child")
    .compile(name="nested")
)
GRAPHS = {"echo": echo, "loud": loud, "nested": nested}


def named_users() -> Auth:
    """Whoever names themselves in the header `x-user` is who they say; `root` is an admin."""
    auth = Auth()

    @auth.authenticate
    async def authenticate(headers: dict[Any, Any]) -> dict[str, Any]:
        name = headers["x-user"]
        role = "admin" if name == "root" else "member"
        return {"identity": name, "role": role, "secret": f"token-of-{name}"}

    return auth


@dataclass
class Served:
    """The routes on real services; `client` is whoever sits at this machine."""

    services: Services
    stack: contextlib.AsyncExitStack
    client: Any = field(init=False)

    async def open(self) -> "Served":
        self.client = await self.enter(choose_authenticator())
        return self

    async def enter(self, authenticator: Any, **headers: str) -> Any:
        """Open a client that the authenticator rules over."""
        self.services.authenticator = authenticator
        app = build_app(self.services)
        # What nobody expected is to be answered too, as a real server does.
        transport = httpx2.ASGITransport(app, raise_app_exceptions=False)
        client = httpx2.AsyncClient(transport=transport, base_url=HERE, headers=headers)
        return await self.stack.enter_async_context(client)

    async def as_user(self, name: str, auth: Auth | None = None) -> Any:
        """Open a client for a user by name; `auth` may have rules for what they do."""
        return await self.enter(choose_authenticator(auth or named_users()), **{"x-user": name})
