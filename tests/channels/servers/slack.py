"""Slack on this machine: its Web API, its files, its sockets, and requests with its signature.

It answers as the documentation says, refuses what Slack refuses, and can fail as Slack does.
"""

import asyncio
import hashlib
import hmac
import itertools
import json
import time
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Self
from urllib.parse import parse_qsl, urlencode

from aiohttp import WSMsgType, web

from checkrail.channels.protocol import Reply, WebRequest

BOT_TOKEN = "xoxb-1-loopback"
APP_TOKEN = "xapp-1-loopback"
SECRET = "8f742231b10e8888abcd99yyyzzz85a5"
TEAM, BOT, BOT_ID = "T1", "UBOT", "BBOT"
METHODS = (
    "apps.connections.open",
    "assistant.threads.setStatus",
    "auth.test",
    "chat.postEphemeral",
    "chat.postMessage",
    "chat.update",
    "files.info",
)


@dataclass(frozen=True)
class Fail:
    """An answer with `ok: false`, or with a status of HTTP."""

    error: str | None = None
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    more: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Text:
    """A body that is not what the API says."""

    body: str
    content_type: str = "application/json"


@dataclass(frozen=True)
class Drop:
    """The call is carried out, and then the connection is lost."""


class Refusal(Exception):
    """What the API answers to a call that it does not carry out."""


class SlackServer:
    """A workspace with a bot."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.faults: dict[str, deque[Fail | Text | Drop]] = defaultdict(deque)
        self.messages: dict[tuple[str, str], dict[str, Any]] = {}
        self.members = {"C1": {"U1", "U2", BOT}, "D1": {"U1", BOT}}
        self.files: dict[str, bytes] = {}
        self.file_tokens: list[str | None] = []
        self.sockets: list[web.WebSocketResponse] = []
        self.connected: asyncio.Queue[web.WebSocketResponse] = asyncio.Queue()
        self.acks: asyncio.Queue[str] = asyncio.Queue()
        self.pongs: asyncio.Queue[None] = asyncio.Queue()
        self.disconnected: asyncio.Queue[None] = asyncio.Queue()
        self.answers_pings = True
        self.refuses_sockets = 0
        self._tickets: set[str] = set()
        self._numbers = itertools.count(1)

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/api/{method}", self._answer_call)
        app.router.add_get("/files/{name}", self._answer_file)
        app.router.add_get("/link", self._answer_socket)
        app.router.add_get("/login", self._answer_login)
        self._runner = web.AppRunner(app, shutdown_timeout=1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.port: int = self._runner.addresses[0][1]
        return self

    async def __aexit__(self, *_: object) -> None:
        for socket in self.sockets:
            await socket.close()
        await self._runner.cleanup()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def options(self, **more: Any) -> dict[str, Any]:
        """What a project's file says to reach this server."""
        return {
            "bot_token": BOT_TOKEN,
            "signing_secret": SECRET,
            "base_url": f"{self.url}/api/",
            **more,
        }

    def calls_of(self, method: str) -> list[dict[str, Any]]:
        return [fields for name, fields in self.calls if name == method]

    # the Web API

    async def _answer_call(self, request: web.Request) -> web.StreamResponse:
        method = request.match_info["method"]
        raw = await request.text()
        if request.content_type == "application/json":
            fields = json.loads(raw)
        else:
            fields = dict(parse_qsl(raw)) | dict(request.query)
        self.calls.append((method, fields))
        fault = self.faults[method].popleft() if self.faults[method] else None
        match fault:
            case Fail(error=None):
                return web.Response(status=fault.status, text="oops", headers=fault.headers)
            case Fail():
                body = {"ok": False, "error": fault.error, **fault.more}
                return web.json_response(body, status=fault.status, headers=fault.headers)
            case Text():
                return web.Response(text=fault.body, content_type=fault.content_type)
        try:
            done = self._carry_out(method, fields, request.headers.get("Authorization"))
        except Refusal as refusal:
            return web.json_response({"ok": False, "error": str(refusal)})
        if isinstance(fault, Drop):
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"ok": True, **done})

    def _carry_out(self, method: str, fields: dict[str, Any], token: str | None) -> dict[str, Any]:
        wanted = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
        if token is None:
            raise Refusal("not_authed")
        if token != f"Bearer {wanted}":
            raise Refusal("invalid_auth")
        if method not in METHODS:
            raise Refusal("unknown_method")
        done: dict[str, Any] = getattr(self, f"_{method.replace('.', '_')}")(fields)
        return done

    def _auth_test(self, fields: dict[str, Any]) -> dict[str, Any]:
        return {"team_id": TEAM, "user_id": BOT, "bot_id": BOT_ID}

    def _apps_connections_open(self, fields: dict[str, Any]) -> dict[str, Any]:
        ticket = f"ticket-{next(self._numbers)}"
        self._tickets.add(ticket)
        return {"url": f"ws://127.0.0.1:{self.port}/link?ticket={ticket}"}

    def _chat_postMessage(self, fields: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        self._check_message(fields)
        ts = self.next_ts()
        self.messages[fields["channel"], ts] = dict(fields)
        return {"channel": fields["channel"], "ts": ts, "message": {"ts": ts}}

    def _chat_update(self, fields: dict[str, Any]) -> dict[str, Any]:
        known = self.messages.get((fields["channel"], fields["ts"]))
        if known is None:
            raise Refusal("message_not_found")
        self._check_message(fields)
        known.update(fields)
        return {"channel": fields["channel"], "ts": fields["ts"]}

    def _chat_postEphemeral(self, fields: dict[str, Any]) -> dict[str, Any]:  # noqa: N802
        self._check_message(fields)
        if fields["user"] not in self.members[fields["channel"]]:
            raise Refusal("user_not_in_channel")
        return {"message_ts": self.next_ts()}

    def _assistant_threads_setStatus(  # noqa: N802
        self, fields: dict[str, Any]
    ) -> dict[str, Any]:
        if not fields.get("thread_ts"):
            raise Refusal("invalid_thread_ts")
        return {}

    def _files_info(self, fields: dict[str, Any]) -> dict[str, Any]:
        url = f"{self.url}/files/{fields['file']}"
        return {"file": {"id": fields["file"], "url_private": url}}

    def _check_message(self, fields: dict[str, Any]) -> None:
        if fields.get("channel") not in self.members:
            raise Refusal("channel_not_found")
        if not fields.get("text") and not fields.get("blocks"):
            raise Refusal("no_text")
        for block in fields.get("blocks") or ():
            if not _is_valid_block(block):
                raise Refusal("invalid_blocks")
        if sum(map(_text_length, fields.get("blocks") or ())) > 13_000:
            raise Refusal("msg_blocks_too_long")

    def next_ts(self) -> str:
        return f"{int(time.time())}.{next(self._numbers):06}"

    async def _answer_file(self, request: web.Request) -> web.StreamResponse:
        token = request.headers.get("Authorization")
        self.file_tokens.append(token)
        fault = self.faults["file"].popleft() if self.faults["file"] else None
        if isinstance(fault, Fail):
            return web.Response(status=fault.status, headers=fault.headers)
        if isinstance(fault, Drop):
            assert request.transport is not None
            request.transport.abort()
        if token != f"Bearer {BOT_TOKEN}":  # people are led to where they can log in
            return web.Response(status=302, headers={"Location": f"{self.url}/login"})
        content = self.files.get(request.match_info["name"])
        return web.Response(status=404) if content is None else web.Response(body=content)

    async def _answer_login(self, request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>Log in to see the file</html>")

    # sockets

    async def _answer_socket(self, request: web.Request) -> web.StreamResponse:
        ticket = request.query["ticket"]
        if self.refuses_sockets:
            self.refuses_sockets -= 1
            return web.Response(status=503)
        if ticket not in self._tickets:
            return web.Response(status=404)  # it is good for one connection
        self._tickets.remove(ticket)
        socket = web.WebSocketResponse(autoping=False)
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": 1})
        self.sockets.append(socket)
        await self.connected.put(socket)
        async for frame in socket:
            if frame.type is WSMsgType.TEXT:
                await self.acks.put(json.loads(frame.data)["envelope_id"])
            elif frame.type is WSMsgType.PING and self.answers_pings:
                await socket.pong(frame.data)
            elif frame.type is WSMsgType.PONG:
                await self.pongs.put(None)
        await self.disconnected.put(None)
        return socket

    async def push(self, socket: web.WebSocketResponse, envelope_id: str, payload: Any) -> None:
        """Send a payload over a socket."""
        kind = "interactive" if payload.get("type") == "block_actions" else "events_api"
        envelope = {
            "type": kind,
            "envelope_id": envelope_id,
            "payload": payload,
            "accepts_response_payload": False,
        }
        await socket.send_json(envelope)


def _text_length(block: dict[str, Any]) -> int:
    return len(block["text"]["text"]) if "text" in block else 0


def _is_valid_block(block: dict[str, Any]) -> bool:
    if block["type"] == "section":
        return 0 < len(block["text"]["text"]) <= 3000
    buttons = block["elements"]
    return (
        block["type"] == "actions"
        and len(block["block_id"]) <= 255
        and len(buttons) <= 25
        and all(
            0 < len(each["text"]["text"]) <= 75
            and len(each["value"]) <= 2000
            and len(each["action_id"]) <= 255
            for each in buttons
        )
    )


# requests


def signed(
    body: bytes, *, form: bool = False, at: float | None = None, **headers: str
) -> WebRequest:
    """A request with Slack's signature; `headers` replace those that it would have."""
    sent = str(int(time.time() if at is None else at))
    digest = hmac.new(SECRET.encode(), b"v0:%b:%b" % (sent.encode(), body), hashlib.sha256)
    made = {
        "content-type": "application/x-www-form-urlencoded" if form else "application/json",
        "x-slack-request-timestamp": sent,
        "x-slack-signature": f"v0={digest.hexdigest()}",
    }
    changed = {name.replace("_", "-"): value for name, value in headers.items()}
    return WebRequest("POST", made | changed, {}, body)


def event_request(payload: dict[str, Any], **headers: str) -> WebRequest:
    return signed(json.dumps(payload).encode(), **headers)


def click_request(payload: dict[str, Any]) -> WebRequest:
    return signed(urlencode({"payload": json.dumps(payload)}).encode(), form=True)


async def deliver(
    answer: Callable[[WebRequest], Awaitable[Reply]], payload: dict[str, Any]
) -> list[int]:
    """Send an event as Slack does: three times more, until it is taken or finally refused."""
    statuses: list[int] = []
    for number in range(4):
        again = {"x_slack_retry_num": str(number), "x_slack_retry_reason": "http_error"}
        try:
            reply = await answer(event_request(payload, **(again if number else {})))
        except Exception:
            statuses.append(500)
            continue
        statuses.append(reply.status)
        if reply.status < 300 or reply.headers.get("X-Slack-No-Retry") == "1":
            break
    return statuses


# payloads


def event(**fields: Any) -> dict[str, Any]:
    """An event in its envelope: a message in a channel unless said otherwise."""
    base = {"type": "message", "channel": "C1", "channel_type": "channel", "user": "U1"}
    return {
        "type": "event_callback",
        "team_id": TEAM,
        "api_app_id": "A1",
        "event_id": "Ev1",
        "authorizations": [{"team_id": TEAM, "user_id": BOT, "is_bot": True}],
        "event": base | {"event_ts": fields.get("ts")} | fields,
    }


def click(
    verdict: str = "approve", *, user: str = "U2", thread_ts: str | None = None, **fields: Any
) -> dict[str, Any]:
    """A press of one of our buttons."""
    container = {"type": "message", "channel_id": "C1", "message_ts": "1700000009.000100"}
    return {
        "type": "block_actions",
        "user": {"id": user, "username": "somebody", "team_id": TEAM},
        "team": {"id": TEAM, "domain": "loopback"},
        "container": container | ({"thread_ts": thread_ts} if thread_ts else {}),
        "channel": {"id": "C1", "name": "general"},
        "message": {"type": "message", "ts": "1700000009.000100", "bot_id": BOT_ID, "user": BOT},
        "response_url": "https://hooks.slack.com/actions/T1/1/secret",
        "actions": [
            {
                "type": "button",
                "action_id": f"checkrail.{verdict}",
                "block_id": "approval-1",
                "value": "digest-1",
                "action_ts": "1700000010.000200",
            }
        ],
    } | fields
