"""The Bot API on loopback, as its documentation and its server's source describe it."""

import asyncio
import itertools
import json

from aiohttp import web

TOKEN = "123456:AAtestTOKEN_of-a-bot"
BOT = 123456
LONGEST_TEXT = 4096
LARGEST_DOWNLOAD = 20 << 20


class Refusal(Exception):
    """A call that the Bot API refuses."""

    def __init__(self, code, description, **parameters):
        super().__init__(description)
        self.body = {"ok": False, "error_code": code, "description": description}
        if parameters:
            self.body["parameters"] = parameters


class BotServer:
    """One bot: its updates, its chats, and what it was called with."""

    def __init__(self):
        self.calls = []
        self.messages = {}
        self.files = {}
        self.blocked, self.moved = set(), {}
        self.open_queries, self.answered_queries = set(), {}
        self.faults = {}
        """For a method, what happens instead: a body of an answer, or a function of the request."""
        self.webhook = None
        self.longest_wait = 60.0
        self.next_update = 1000
        self.queue = []
        self.confirmed = []
        self._numbers = itertools.count(1)
        self._changed = asyncio.Condition()
        self._poll = 0

    async def __aenter__(self):
        app = web.Application(client_max_size=1 << 24)
        app.router.add_post("/bot{token}/{method}", self._answer)
        app.router.add_get("/file/bot{token}/{path:.+}", self._send_file)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_):
        await self._runner.cleanup()

    def called(self, method):
        """The parameters of each call of a method."""
        return [parameters for name, parameters in self.calls if name == method]

    async def until(self, condition):
        """Wait until a condition holds, which calls and updates may bring about."""
        async with asyncio.timeout(30), self._changed:
            await self._changed.wait_for(condition)

    async def add(self, **update):
        """Put an update into the queue, and return it."""
        whole = {"update_id": self.next_update, **update}
        self.next_update += 1
        async with self._changed:
            self.queue.append(whole)
            self._changed.notify_all()
        return whole

    async def say(self, text, chat=42, user=42, **fields):
        """Have a person send a message."""
        return await self.add(message=self.write(text=text, chat=chat, user=user, **fields))

    def write(self, chat=42, user=42, **fields):
        """Build a message of a person."""
        kind = "private" if chat > 0 else "supergroup"
        return {
            "message_id": next(self._numbers),
            "from": {"id": user, "is_bot": False, "first_name": "Ann", "username": "ann"},
            "chat": {"id": chat, "type": kind},
            "date": 1_800_000_000,
            **fields,
        }

    async def press(self, message_id, label, user=42, **fields):
        """Have a person press a button below a message."""
        message = self.messages[message_id]
        rows = message["reply_markup"]["inline_keyboard"]
        data = next(b["callback_data"] for row in rows for b in row if b["text"] == label)
        return await self.press_data(data, user, message=message, **fields)

    async def press_data(self, data, user=42, **fields):
        query = f"q{next(self._numbers)}"
        self.open_queries.add(query)
        who = {"id": user, "is_bot": False, "first_name": "Ann"}
        return await self.add(callback_query={"id": query, "from": who, "data": data, **fields})

    async def _answer(self, request):
        method = request.match_info["method"]
        if request.match_info["token"] != TOKEN:
            return _json({"ok": False, "error_code": 401, "description": "Unauthorized"})
        parameters = await request.json()
        self.calls.append((method, parameters))
        fault = (self.faults.get(method) or [None]).pop(0)
        try:
            if callable(fault):
                return await fault(request)
            if fault is not None:
                return _json(fault)
            result = await getattr(self, method)(**parameters)
        except Refusal as refusal:
            return _json(refusal.body)
        finally:
            async with self._changed:
                self._changed.notify_all()
        return _json({"ok": True, "result": result})

    async def getMe(self):  # noqa: N802
        return {"id": BOT, "is_bot": True, "first_name": "Bot", "username": "test_bot"}

    async def getUpdates(self, offset=0, limit=100, timeout=0, allowed_updates=()):  # noqa: N802
        if self.webhook:
            why = "can't use getUpdates method while webhook is active; use deleteWebhook"
            raise Refusal(409, f"Conflict: {why} to delete the webhook first")
        self._poll += 1
        mine = self._poll
        async with self._changed:
            self._changed.notify_all()
            self._forget(offset)
            try:
                async with asyncio.timeout(min(timeout, self.longest_wait)):
                    await self._changed.wait_for(lambda: self.queue or mine != self._poll)
            except TimeoutError:
                return []
        if mine != self._poll:
            why = "terminated by other getUpdates request"
            raise Refusal(409, f"Conflict: {why}; make sure that only one bot instance is running")
        return [update for update in self.queue if update.keys() & {*allowed_updates}][:limit]

    def _forget(self, offset):
        """Confirm what comes before an offset; one far in the future counts as none."""
        if 0 < offset <= self.next_update + 10:
            self.confirmed += [u for u in self.queue if u["update_id"] < offset]
            self.queue = [u for u in self.queue if u["update_id"] >= offset]

    async def setWebhook(self, url, secret_token=None, allowed_updates=()):  # noqa: N802
        self.webhook = {"url": url, "secret_token": secret_token, "allowed": allowed_updates}
        return True

    async def deleteWebhook(self):  # noqa: N802
        self.webhook = None
        return True

    async def sendMessage(self, chat_id, text, **fields):  # noqa: N802
        self._check_chat(chat_id)
        self._check_text(text, fields)
        number = next(self._numbers)
        bot = await self.getMe()
        chat = {"id": chat_id, "type": "private" if chat_id > 0 else "supergroup"}
        message = {"message_id": number, "from": bot, "chat": chat, "date": 1, "text": text}
        self.messages[number] = message | fields
        return self.messages[number]

    async def editMessageText(self, chat_id, message_id, text, **fields):  # noqa: N802
        self._check_chat(chat_id)
        self._check_text(text, fields)
        message = self.messages.get(message_id)
        if message is None:
            raise Refusal(400, "Bad Request: message to edit not found")
        keyboard = fields.get("reply_markup", {"inline_keyboard": []})
        now = {"text": text, "reply_markup": keyboard}
        if all(message.get(name) == value for name, value in now.items()):
            why = "specified new message content and reply markup are exactly the same"
            raise Refusal(400, f"Bad Request: message is not modified: {why}")
        message.update(now)
        return message

    async def answerCallbackQuery(self, callback_query_id, text="", show_alert=False):  # noqa: N802
        if len(text) > 200:
            raise Refusal(400, "Bad Request: MESSAGE_TOO_LONG")
        if callback_query_id not in self.open_queries:
            why = "query is too old and response timeout expired or query ID is invalid"
            raise Refusal(400, f"Bad Request: {why}")
        self.open_queries.discard(callback_query_id)
        self.answered_queries[callback_query_id] = (text, show_alert)
        return True

    async def sendChatAction(self, chat_id, action, message_thread_id=None):  # noqa: N802
        self._check_chat(chat_id)
        return True

    async def getFile(self, file_id):  # noqa: N802
        if file_id not in self.files:
            raise Refusal(400, "Bad Request: wrong file_id or the file is temporarily unavailable")
        content = self.files[file_id]
        if len(content) > LARGEST_DOWNLOAD:
            raise Refusal(400, "Bad Request: file is too big")
        return {"file_id": file_id, "file_size": len(content), "file_path": f"docs/{file_id} 1.pdf"}

    async def _send_file(self, request):
        fault = (self.faults.get("file") or [None]).pop(0)
        if fault is not None:
            return await fault(request)
        content = self.files.get(request.match_info["path"].removeprefix("docs/")[: -len(" 1.pdf")])
        if content is None or request.match_info["token"] != TOKEN:
            return web.Response(status=404)
        return web.Response(body=content)

    def _check_chat(self, chat_id):
        if chat_id in self.moved:
            why = "Bad Request: group chat was upgraded to a supergroup chat"
            raise Refusal(400, why, migrate_to_chat_id=self.moved[chat_id])
        if chat_id in self.blocked:
            raise Refusal(403, "Forbidden: bot was blocked by the user")

    def _check_text(self, text, fields):
        if not text.strip():
            raise Refusal(400, "Bad Request: message text is empty")
        if len(text.encode("utf-16-le")) // 2 > LONGEST_TEXT:
            raise Refusal(400, "Bad Request: message is too long")
        for row in fields.get("reply_markup", {}).get("inline_keyboard", []):
            for button in row:
                if not 1 <= len(button["callback_data"].encode()) <= 64:
                    raise Refusal(400, "Bad Request: BUTTON_DATA_INVALID")


def _json(body):
    return web.Response(
        status=body.get("error_code", 200), text=json.dumps(body), content_type="application/json"
    )


def too_many_requests(seconds):
    """Build an answer to a bot that sends too much."""
    why = f"Too Many Requests: retry after {seconds}"
    parameters = {"retry_after": seconds}
    return {"ok": False, "error_code": 429, "description": why, "parameters": parameters}


async def hang_up(request):
    """Leave without an answer."""
    request.transport.close()
    return web.Response()


async def fail_as_proxy(request):
    """Answer as a proxy does whose upstream is away."""
    return web.Response(status=502, text="<html>Bad Gateway</html>", content_type="text/html")
