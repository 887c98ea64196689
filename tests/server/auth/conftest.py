from typing import Annotated

import pytest
from fastapi import Depends, FastAPI, Request, WebSocket
from starlette.applications import Starlette
from starlette.requests import HTTPConnection
from starlette.responses import JSONResponse
from starlette.routing import Route, WebSocketRoute
from starlette.testclient import TestClient

from checkrail.server.auth import (
    AuthError,
    Caller,
    Forbidden,
    Guard,
    auth_error_response,
    caller_of,
    generate_key,
)
from checkrail.store.keys import Key

HERE = "http://127.0.0.1"


class Keys:
    """Keys in a dict, with their tokens by name, as nobody but a test would keep them."""

    def __init__(self):
        self.rows = {}

    def add(self, owner="ann", role="member", **more):
        key = generate_key()
        self.rows[key.digest] = Key(
            key_id=str(len(self.rows)),
            digest=key.digest,
            name=f"key of {owner}",
            owner=owner,
            role=role,
            created_at=0.0,
            **more,
        )
        return key.token

    async def find(self, digest):
        return self.rows.get(digest)


@pytest.fixture
def keys():
    return Keys()


def _theirs(request):
    user = request.scope.get("user")
    return JSONResponse({"identity": user and user.identity, "custom": True})


async def _their_socket(socket):
    await socket.accept()
    await socket.send_json({"custom": True})
    await socket.close()


async def _whoami(caller: Annotated[Caller, Depends(caller_of)], request: Request):
    rule = request.scope["checkrail.rule"]
    same = request.state.caller is caller is request.scope["checkrail.caller"]
    return {
        "owner": caller.owner,
        "role": caller.role,
        "same": same,
        "rule": [rule.resource, rule.action],
    }


async def _not_yours(thread_id: str):
    raise Forbidden("Not this thread", detail={"thread_id": thread_id})


async def _echo(thread_id: str, request: Request):
    return {"thread_id": thread_id, "body": await request.json()}


async def _events(socket: WebSocket):
    await socket.accept()
    caller = caller_of(socket)
    if caller.owner == "refused-inside":
        raise AuthError("Not this thread", status=404)
    await socket.send_json({"owner": caller.owner})
    await socket.close()


async def _alive(connection: HTTPConnection):
    return {"ok": True, "caller": connection.scope.get("checkrail.caller")}


async def _forgotten():
    return {"open": True}


def make_app():
    app = FastAPI(redoc_url=None, swagger_ui_oauth2_redirect_url=None)
    app.add_exception_handler(AuthError, auth_error_response)
    app.add_api_route("/ok", _alive)
    app.add_api_route("/threads/{thread_id}", _whoami)
    app.add_api_route("/threads/{thread_id}", _whoami, methods=["DELETE"])
    app.add_api_route("/threads/{thread_id}/runs", _echo, methods=["POST"])
    app.add_api_route("/threads/{thread_id}/state", _not_yours)
    app.add_api_route("/threads/{thread_id}/forgotten", _forgotten)
    app.add_api_route("/forgotten", _forgotten)
    app.add_api_websocket_route("/threads/{thread_id}/stream/events", _events)
    return app


@pytest.fixture
def serve():
    """Serve a small app behind the guard."""

    def start(authenticator, *, wrap=None, base_url=HERE, **options):
        app = make_app()
        theirs = [Route("/mine", _theirs), WebSocketRoute("/my-socket", _their_socket)]
        app.mount("", Starlette(routes=theirs))
        app.add_middleware(Guard, authenticator=authenticator, routes=app.router.routes, **options)
        return TestClient(wrap(app) if wrap else app, base_url=base_url)

    return start
