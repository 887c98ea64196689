"""Graphs, hooks and routes of a project whose callers are known by keys."""

import asyncio
from operator import add
from typing import Annotated

from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from langgraph_sdk import Auth
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from typing_extensions import TypedDict

from checkrail import Hooks
from checkrail.testing import ScriptedModel

SECRET = "postgres://admin:hunter2@10.1.2.3/ledger"

hooks = Hooks()


class Work(TypedDict, total=False):
    text: str
    said: Annotated[list[str], add]


def graph_of(node):
    return StateGraph(Work).add_node("node", node).add_edge(START, "node").compile()


async def say(state: Work) -> Work:
    return {"said": [state.get("text", "")]}


async def rest(state: Work) -> Work:
    await asyncio.sleep(120)
    return {"said": ["rested"]}


async def wonder(state: Work) -> Work:
    return {"said": [str(interrupt("go on?"))]}


async def break_down(state: Work) -> Work:
    raise ValueError("the graph broke")


echo, slow, waiting, failing = map(graph_of, (say, rest, wonder, break_down))


@hooks.on_result(agents=["echo"], name="ledger", on_error="continue")
async def ledger(event):
    raise ConnectionError(SECRET)


@hooks.after_run(agents=["echo"], name="late_ledger")
async def late_ledger(event):
    raise ConnectionError(SECRET)


auth = Auth()
USERS = {
    "admin": {"identity": "root", "role": "admin"},
    "member": {"identity": "ann"},
    "viewer": {"identity": "ann", "role": "viewer"},
    "other": {"identity": "bob"},
}


@auth.authenticate
async def authenticate(headers):
    user = USERS.get(headers.get("x-name", ""))
    if user is None:
        raise Auth.exceptions.HTTPException(status_code=401, detail="Say who you are")
    return user


async def custom(request):
    return PlainTextResponse(request.user.identity)


own = Starlette(routes=[Route("/own", custom, methods=["GET", "POST"])])

talker = ScriptedModel(lambda _request: "done")
