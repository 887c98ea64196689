"""People who write to an agent on a channel, each by the real way of that channel."""

import asyncio
import hashlib
import hmac
import itertools
import json
import sys
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import httpx2
from aiohttp import web
from standardwebhooks import Webhook
from tests.channels.servers.bot_api import TOKEN, BotServer
from tests.channels.servers.slack import SlackServer, event, signed
from websockets.asyncio.client import connect

WEBHOOK_SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


class Listener:
    """A service on this machine that is told what agents say; the next answers may be failures."""

    def __init__(self):
        self.heard = []
        self.failures = 0
        self.refuses = False

    @asynccontextmanager
    async def listen(self):
        app = web.Application()
        app.router.add_post("/hear", self._hear)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}/hear"
        finally:
            await runner.cleanup()

    async def _hear(self, request):
        if self.failures:
            self.failures -= 1
            return web.Response(status=503)
        if self.refuses:
            return web.Response(status=410)
        self.heard.append(await request.json())
        return web.Response()


class Person:
    """Somebody who writes, and hears what is answered."""

    kind = ""
    sender = stranger = ""
    longest = 0

    def __init__(self, desk=None):
        self.desk = desk
        self.numbers = itertools.count(1)

    def measure(self, text):
        return len(text)

    async def until_heard(self, count):
        async with asyncio.timeout(60):
            while len(self.heard()) < count:  # noqa: ASYNC110 - other processes' work
                await asyncio.sleep(0.02)
        return self.heard()

    async def say_as_stranger(self, text):
        """Say something as somebody else, whom `stranger` names."""
        raise NotImplementedError

    async def send_file(self, text):
        """Say something with a page of HTML."""
        raise NotImplementedError

    async def post(self, headers, body):
        return await self.desk.client.post(f"/channels/{self.kind}", headers=headers, content=body)


class SlackPerson(Person):
    kind, sender, longest = "slack", "slack:T1:U1", 12_000
    stranger = "slack:T1:U9"

    @asynccontextmanager
    async def open(self):
        async with SlackServer() as self.server:
            yield self.server.options()

    async def say(self, text, number=None, **fields):
        ts = f"17000000{number or next(self.numbers):02}.000100"
        fields = {"channel": "D1", **fields}
        request = signed(json.dumps(event(text=text, ts=ts, channel_type="im", **fields)).encode())
        return (await self.post(request.headers, request.body)).status_code

    async def say_as_stranger(self, text):
        return await self.say(text, user="U9")

    async def send_file(self, text):
        page = {"id": "F1", "name": "a.html", "mimetype": "text/html", "size": 9}
        page["url_private"] = f"{self.server.url}/files/F1"
        return await self.say(text, subtype="file_share", files=[page])

    async def forge(self, text):
        body = json.dumps(event(text=text, ts="1700000099.000100")).encode()
        request = signed(body, x_slack_signature="v0=" + "0" * 64)
        return (await self.post(request.headers, request.body)).status_code

    def heard(self):
        return [call["text"] for call in self.server.calls_of("chat.postMessage")]


class TelegramPerson(Person):
    kind, sender, longest = "telegram", "telegram:123456:42", 4096
    stranger = "telegram:123456:99"

    @asynccontextmanager
    async def open(self):
        async with BotServer() as self.server:
            yield {
                "token": TOKEN,
                "api_url": self.server.url,
                "mode": "webhook",
                "secret_token": "from-Telegram_1",
            }

    def measure(self, text):
        return len(text.encode("utf-16-le")) // 2

    def _update(self, text, number, **fields):
        message = self.server.write(**({"text": text} | fields)) | {"message_id": number}
        return json.dumps({"update_id": 1000 + number, "message": message}).encode()

    async def say(self, text, number=None, **fields):
        headers = {"x-telegram-bot-api-secret-token": "from-Telegram_1"}
        body = self._update(text, number or next(self.numbers), **fields)
        return (await self.post(headers, body)).status_code

    async def say_as_stranger(self, text):
        return await self.say(text, user=99, chat=99)

    async def send_file(self, text):
        page = {"file_id": "F1", "file_unique_id": "F1", "file_name": "a.html"}
        page |= {"mime_type": "text/html", "file_size": 9}
        return await self.say("", caption=text, document=page)

    async def forge(self, text):
        headers = {"x-telegram-bot-api-secret-token": "from-Telegram_2"}
        return (await self.post(headers, self._update(text, 99))).status_code

    def heard(self):
        return [call["text"] for call in self.server.called("sendMessage")]


class WebhookPerson(Person):
    kind, sender, longest = "webhook", "webhook:webhook:ada", 100_000
    stranger = "webhook:webhook:eve"

    @asynccontextmanager
    async def open(self):
        self.listener = Listener()
        async with self.listener.listen() as url:
            yield {"secrets": [WEBHOOK_SECRET], "reply_url": url}

    async def _send(self, text, number, secret):
        return await self.send_body({"user_id": "ada", "content": text}, number, secret)

    async def send_body(self, said, number, secret=WEBHOOK_SECRET):
        body = json.dumps(said)
        told = f"msg_{number}"
        now = datetime.now(UTC)
        headers = {
            "webhook-id": told,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": Webhook(secret).sign(told, now, body),
        }
        return (await self.post(headers, body.encode())).status_code

    async def say(self, text, number=None):
        return await self._send(text, number or next(self.numbers), WEBHOOK_SECRET)

    async def say_as_stranger(self, text):
        said = {"user_id": "eve", "content": text}
        return await self.send_body(said, next(self.numbers))

    async def send_file(self, text):
        page = {"url": "https://files.example.com/a.html", "name": "a.html"}
        page |= {"content_type": "text/html", "size": 9}
        said = {"user_id": "ada", "content": text, "attachments": [page]}
        return await self.send_body(said, next(self.numbers))

    async def forge(self, text):
        return await self._send(text, 99, WEBHOOK_SECRET[:-4] + "AAAA")

    def heard(self):
        return [told["text"] if "text" in told else told["content"] for told in self.listener.heard]


class OwnPerson(Person):
    """Somebody at the intercom of `examples/own_channel`."""

    kind, sender, longest = "intercom", "room:4", 200

    @asynccontextmanager
    async def open(self):
        self.listener = Listener()
        async with self.listener.listen() as url:
            yield {
                "type": "./intercom.py:Intercom",
                "secret": "a-shared-secret",
                "speaker_url": url,
            }

    async def _send(self, text, number, secret):
        body = json.dumps({"room": 4, "id": number, "text": text}).encode()
        signature = hmac.new(secret, body, hashlib.sha256).hexdigest()
        return (await self.post({"x-signature": signature}, body)).status_code

    async def say(self, text, number=None):
        return await self._send(text, number or next(self.numbers), b"a-shared-secret")

    async def forge(self, text):
        return await self._send(text, 99, b"another-secret")

    def heard(self):
        return [told["text"] for told in self.listener.heard]


class ClientPerson(Person):
    """Somebody with a key who talks to the server itself, and reads replies where they write."""

    sender, stranger = "ann", "eve"

    def __init__(self, desk=None):
        super().__init__(desk)
        self.replies = []
        self.talks = []

    @asynccontextmanager
    async def open(self):
        try:
            yield None
        finally:
            await asyncio.gather(*self.talks)

    def heard(self):
        return self.replies

    def hear(self, frame):
        """Take note of what a reply or a refusal says."""
        text = frame["reply"] if "reply" in frame else frame["message"]
        self.replies += [text] if text else []

    async def say(self, text, *, user="ann", **more):
        self.talks.append(asyncio.create_task(self._say_next([*self.talks], text, user, **more)))

    async def _say_next(self, before, text, user, **more):
        await asyncio.gather(*before)
        await self._say(text, user, **more)

    async def say_as_stranger(self, text):
        await self.say(text, user="eve")

    async def send_file(self, text):
        page = {"name": "a.html", "content_type": "text/html", "size": 9}
        await self.say(text, attachments=[page])


class HttpPerson(ClientPerson):
    kind = "http"

    async def _say(self, text, user, **more):
        headers = {"x-api-key": self.desk.keys[user]}
        body = {"content": text, **more}
        async with httpx2.AsyncClient(base_url=self.desk.url, timeout=60) as client:
            self.hear((await client.post("/messages", headers=headers, json=body)).json())


class SocketPerson(ClientPerson):
    kind = "websocket"

    async def _say(self, text, user, **more):
        headers = {"x-api-key": self.desk.keys[user]}
        url = self.desk.url.replace("http", "ws") + "/messages/ws"
        own = {"subprotocols": ["checkrail.chat.v1"], "additional_headers": headers}
        said = {"type": "message", "id": f"m{next(self.numbers)}", "content": text, **more}
        async with connect(url, **own) as connection:
            await connection.send(json.dumps(said))
            async for line in connection:
                frame = json.loads(line)
                if frame["type"] in ("reply", "error"):
                    self.hear(frame["message"] if frame["type"] == "reply" else frame)
                    return


class TerminalPerson(ClientPerson):
    """Somebody at `checkrail chat --server`: one command for each of the two people."""

    kind = "terminal"
    send_file = None

    @asynccontextmanager
    async def open(self):
        self.commands = {}
        try:
            async with super().open():
                yield None
        finally:
            for command in self.commands.values():
                command.stdin.close()
                await command.wait()

    async def _say(self, text, user):
        if user not in self.commands:
            words = ("chat", "--server", self.desk.url, "--key", self.desk.keys[user], "--json")
            pipes = dict.fromkeys(("stdin", "stdout"), asyncio.subprocess.PIPE)
            self.commands[user] = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "checkrail", *words, **pipes
            )
        command = self.commands[user]
        command.stdin.write(f"{text}\n".encode())
        async for line in command.stdout:
            frame = json.loads(line)
            if frame["event"] in ("reply", "error"):
                self.hear(frame)
                return


PEOPLE = (SlackPerson, TelegramPerson, WebhookPerson, OwnPerson)
