"""People who write to an agent on a channel, each by the real way of that channel."""

import asyncio
import hashlib
import hmac
import itertools
import json
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from aiohttp import web
from standardwebhooks import Webhook
from tests.channels.servers.bot_api import TOKEN, BotServer
from tests.channels.servers.slack import SlackServer, event, signed

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
    sender = ""
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

    async def post(self, headers, body):
        return await self.desk.client.post(f"/channels/{self.kind}", headers=headers, content=body)


class SlackPerson(Person):
    kind, sender, longest = "slack", "slack:T1:U1", 12_000

    @asynccontextmanager
    async def open(self):
        async with SlackServer() as self.server:
            yield self.server.options()

    async def say(self, text, number=None):
        ts = f"17000000{number or next(self.numbers):02}.000100"
        request = signed(
            json.dumps(event(text=text, ts=ts, channel="D1", channel_type="im")).encode()
        )
        return (await self.post(request.headers, request.body)).status_code

    async def forge(self, text):
        body = json.dumps(event(text=text, ts="1700000099.000100")).encode()
        request = signed(body, x_slack_signature="v0=" + "0" * 64)
        return (await self.post(request.headers, request.body)).status_code

    def heard(self):
        return [call["text"] for call in self.server.calls_of("chat.postMessage")]


class TelegramPerson(Person):
    kind, sender, longest = "telegram", "telegram:777:42", 4096

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

    def _update(self, text, number):
        message = self.server.write(text=text) | {"message_id": number}
        return json.dumps({"update_id": 1000 + number, "message": message}).encode()

    async def say(self, text, number=None):
        headers = {"x-telegram-bot-api-secret-token": "from-Telegram_1"}
        body = self._update(text, number or next(self.numbers))
        return (await self.post(headers, body)).status_code

    async def forge(self, text):
        headers = {"x-telegram-bot-api-secret-token": "from-Telegram_2"}
        return (await self.post(headers, self._update(text, 99))).status_code

    def heard(self):
        return [call["text"] for call in self.server.called("sendMessage")]


class WebhookPerson(Person):
    kind, sender, longest = "webhook", "webhook:ada", 100_000

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


PEOPLE = (SlackPerson, TelegramPerson, WebhookPerson, OwnPerson)
