"""The guard in a real server, called by the real clients."""

import asyncio
import socket
from contextlib import asynccontextmanager

import pytest
import uvicorn
import websockets
from fastapi import FastAPI, WebSocket
from langgraph_sdk import Auth, get_client
from langgraph_sdk.errors import AuthenticationError, PermissionDeniedError
from websockets.exceptions import InvalidStatus

from checkrail.server.auth import Guard, caller_of, choose_authenticator

EVENTS = "/threads/t/stream/events"


async def thread(thread_id: str):
    return {"thread_id": thread_id}


async def events(socket: WebSocket):
    await socket.accept()
    await socket.send_text(caller_of(socket).owner)
    await socket.close()


class Server(uvicorn.Server):
    """Says when it listens."""

    def __init__(self, config):
        super().__init__(config)
        self.listens = asyncio.Event()

    async def startup(self, sockets=None):
        await super().startup(sockets)
        self.listens.set()


@asynccontextmanager
async def serving(authenticator):
    app = FastAPI()
    app.add_api_route("/threads/{thread_id}", thread, methods=["GET", "DELETE"])
    app.add_api_websocket_route("/threads/{thread_id}/stream/events", events)
    app.add_middleware(Guard, authenticator=authenticator, routes=app.router.routes)
    config = uvicorn.Config(app, log_level="error", ws="websockets-sansio")
    server = Server(config)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        running = asyncio.create_task(server.serve([bound]))
        await server.listens.wait()
        try:
            yield f"127.0.0.1:{bound.getsockname()[1]}"
        finally:
            server.should_exit = True
            await running


async def test_the_official_client_gets_in_with_a_key_and_a_clear_error_without(keys):
    async with serving(choose_authenticator(keys=keys)) as where:
        async with get_client(url=f"http://{where}", api_key=keys.add()) as client:
            assert await client.threads.get("t") == {"thread_id": "t"}
        async with get_client(url=f"http://{where}", api_key="crk_wrong") as client:
            with pytest.raises(AuthenticationError, match="not known"):
                await client.threads.get("t")
        async with get_client(url=f"http://{where}", api_key=keys.add(role="viewer")) as client:
            with pytest.raises(PermissionDeniedError, match="needs the role member"):
                await client.threads.delete("t")


async def test_a_socket_is_refused_with_its_status_before_it_is_accepted(keys):
    async with serving(choose_authenticator(keys=keys)) as where:
        with pytest.raises(InvalidStatus) as refused:
            await websockets.connect(f"ws://{where}{EVENTS}")
        assert refused.value.response.status_code == 401
        assert b"unauthenticated" in refused.value.response.body
        headers = {"x-api-key": keys.add("ann")}
        async with websockets.connect(f"ws://{where}{EVENTS}", additional_headers=headers) as ours:
            assert await ours.recv() == "ann"


async def test_without_auth_a_page_of_another_site_reaches_nothing():
    async with serving(choose_authenticator()) as where:
        with pytest.raises(InvalidStatus) as refused:
            await websockets.connect(f"ws://{where}{EVENTS}", origin="https://evil.example")
        assert refused.value.response.status_code == 403
        rebound = {"host": "evil.example"}
        async with get_client(url=f"http://{where}", headers=rebound) as client:
            with pytest.raises(PermissionDeniedError, match="localhost only"):
                await client.threads.get("t")
        async with get_client(url=f"http://{where}") as client:
            assert await client.threads.get("t") == {"thread_id": "t"}


async def test_an_auth_objects_refusal_reaches_the_official_client():
    auth = Auth()

    @auth.authenticate
    async def authenticate(authorization):
        if authorization != "Bearer good":
            raise Auth.exceptions.HTTPException(status_code=402, detail="Pay first")
        return "ann"

    async with serving(choose_authenticator(auth)) as where:
        for token, good in (("good", True), ("bad", False)):
            headers = {"authorization": f"Bearer {token}"}
            async with get_client(url=f"http://{where}", headers=headers) as client:
                if good:
                    assert await client.threads.get("t") == {"thread_id": "t"}
                else:
                    with pytest.raises(Exception, match="Pay first") as refused:
                        await client.threads.get("t")
                    assert refused.value.status_code == 402
