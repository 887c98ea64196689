"""A place where hooks hold before models: a process on this machine, with a file of hooks."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from .dialects import EVERY, Heard
from .provider import Provider
from .provider_wire import BEDROCK, CHAT, GEMINI, MESSAGES, RESPONSES, VERTEX

PATHS = {
    "chat": CHAT,
    "messages": MESSAGES,
    "responses": RESPONSES,
    "gemini": GEMINI,
    "bedrock": BEDROCK,
    "vertex": VERTEX,
}

SETTINGS = {
    "blocked_tool": "text",  # in one call of the model, as in LiteLLM
    "keep_alive_seconds": 4,
    "prices": {"*": {"input": 1.0, "output": 10.0}},
}

OWN = '''
import json
from pathlib import Path

SEEN = Path(__file__).parent / "seen" / "seen.jsonl"


def note(event, value):
    """Write down what observers are told."""
    at = event.context
    told = {
        "point": str(event.point),
        "request": at.request_id,
        "session": at.session_id,
        "run": at.run_id,
        "user": getattr(at.user, "identity", at.user),
        "metadata": dict(at.metadata or {}),
        "provider": getattr(value, "provider", None),
        "params": sorted(getattr(value, "params", None) or ()),
        "said": str(getattr(value, "content", "")),
        "usage": dict(getattr(value, "usage", None) or {}),
        "cut_off": (getattr(value, "metadata", None) or {}).get("cut_off"),
        "all": str(value),
    }
    with SEEN.open("a") as file:
        file.write(json.dumps(told) + "\\n")
'''

QUESTION = "Which rules hold?"


@dataclass
class Got:
    """What came back."""

    status: int
    raw: bytes
    heard: Heard
    headers: Mapping[str, str]


class Place:
    """Where callers find it, what they have to say, and the models behind it."""

    def __init__(
        self, url: str, key: str, provider: Provider, folder: Path, models: Mapping[str, str]
    ) -> None:
        self.url = url
        self.key = key
        self.provider = provider
        self.folder = folder
        self.models = models
        self._generation = 0
        self._file = folder / "seen" / "seen.jsonl"

    @property
    def seen(self) -> list[dict[str, Any]]:
        """What observers were told since the rules were given."""
        return [json.loads(line) for line in self._file.read_text().splitlines()]

    async def until_seen(self, count: int) -> list[dict[str, Any]]:
        """Wait for what observers are told, which may be after the caller has the answer."""
        async with asyncio.timeout(60):
            while len(self.seen) < count:  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.05)
        return self.seen

    async def rules(self, **points: list[dict[str, Any]]) -> None:
        """Let these hooks hold, and no others, by writing the file anew."""
        self._generation += 1
        write_hooks(self.folder, self._generation, points)
        wanted = f"generation {self._generation}."
        answered: list[str] = []
        try:
            async with asyncio.timeout(120):
                while not answered or wanted not in answered[-1]:
                    answered.append(str((await self.ask("chat", QUESTION)).heard.error))
                    await asyncio.sleep(0.05)
        except TimeoutError as error:
            error.add_note(f"{len(answered)} answers, none from {wanted} Last: {answered[-3:]}")
            raise
        self.provider.requests.clear()
        self._file.write_text("")

    def body(self, name: str, text: str = "Hello", *, stream: bool = False, **more: Any) -> Any:
        """Write a request in one of the APIs."""
        more = {"model": self.models[name], **more}
        return EVERY[name].request(text, stream=stream, **more)

    @contextlib.asynccontextmanager
    async def calling(
        self, name: str, body: Any, **headers: str
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Call, and give the answer as it begins."""
        headers = {"authorization": f"Bearer {self.key}", **headers}
        path, body = EVERY[name].sent(PATHS[name], body)
        async with (
            aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(60)) as session,
            session.post(self.url + path, json=body, headers=headers) as response,
        ):
            yield response

    async def ask(
        self, name: str, text: str = "Hello", *, stream: bool = False, **more: Any
    ) -> Got:
        """Call, and read all that comes."""
        return await self.send(name, self.body(name, text, stream=stream, **more))

    async def send(self, name: str, body: Any, **headers: str) -> Got:
        """Send a request as it is, and read all that comes."""
        async with self.calling(name, body, **headers) as response:
            return await self.read(name, response)

    async def read(self, name: str, response: aiohttp.ClientResponse, begun: bytes = b"") -> Got:
        """Read an answer to its end."""
        raw = begun + await response.read()
        dialect = EVERY[name]
        if "eventstream" in response.headers["content-type"].replace("-", ""):
            ends = name != "chat" and raw.endswith(b"data: [DONE]\n\n")  # an API without that word
            heard = dialect.heard_stream(raw.removesuffix(b"data: [DONE]\n\n") if ends else raw)
        else:
            heard = dialect.heard(json.loads(raw))
        return Got(response.status, dialect.shown(raw), heard, response.headers)


def prepare(folder: Path) -> Path:
    """Write the files that a place starts with; gives that of its hooks."""
    (folder / "own.py").write_text(OWN)
    (folder / "seen").mkdir()  # apart, for the folder of the hooks is watched
    (folder / "seen" / "seen.jsonl").write_text("")
    write_hooks(folder, 0, {})
    return folder / "hooks.yaml"


def write_hooks(folder: Path, generation: int, points: Mapping[str, list[Any]]) -> None:
    """Write a file of hooks that tells which one it is, if it is asked."""
    which = {
        "name": "which",
        "lane": "transform",
        "when": f'request.messages[0].content == "{QUESTION}"',
        "block": f"generation {generation}.",
    }
    asked = {**points, "before_llm_call": [which, *points.get("before_llm_call", ())]}
    hooks = {
        point: [{"name": f"{point}_{number}", **hook} for number, hook in enumerate(listed)]
        for point, listed in asked.items()
    }
    new = folder / "hooks.new"
    new.write_text(json.dumps({"hooks": hooks, "gateway": SETTINGS}))
    new.replace(folder / "hooks.yaml")
