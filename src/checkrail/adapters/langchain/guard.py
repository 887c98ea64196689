"""The guard: what one run knows of the calls that it makes."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from langgraph.errors import GraphInterrupt
from langgraph.types import Interrupt

from checkrail.adapters.langchain.bridge import Bridge
from checkrail.adapters.langchain.endings import Ended, RunEnded
from checkrail.adapters.langchain.frames import ACTIVE
from checkrail.adapters.langchain.journal import Journal
from checkrail.adapters.langchain.lanes import Seen, transforms
from checkrail.adapters.langchain.usage import Usage
from checkrail.engine.asks import AnswerLater
from checkrail.engine.frozen import thaw
from checkrail.engine.matchers import MODEL_NAMES
from checkrail.engine.scope import Scope
from checkrail.engine.values import ToolCall, digest

if TYPE_CHECKING:
    from checkrail.adapters.langchain.steps import Course

log = logging.getLogger("checkrail.langchain")

Message = Mapping[str, Any]
ModelNames = Mapping[str, str]
"""What events tell of a model: `model`, `provider`, and the `MODEL_NAMES` that there are."""


class Guard:
    """Makes the hooks of a scope hold in all models and tools that one run calls.

    `on_tool` is told of each tool as it starts and ends, with values as hooks have left them.
    `usage` is what the run's models have used, `ended` the verdict that ended it, if one did:
    that decides, whatever the graph has made of it. A run that can be left for a person to answer
    has a `journal`; `left` says that it is to be, by an interrupt of its graph.
    """

    def __init__(
        self,
        scope: Scope,
        *,
        on_tool: Callable[[dict[str, Any]], None] | None = None,
        journal: Journal | None = None,
        used: Usage | None = None,
    ) -> None:
        self.scope = scope
        self.on_tool = on_tool
        self.journal = journal
        self.ended: Ended | None = None
        self.left: AnswerLater | None = None
        self.bridge = Bridge()
        self.used = Usage() if used is None else used
        self._lock = threading.Lock()
        self._seen: dict[tuple[str, str], Seen] = {}
        self._injected: dict[str, list[Message]] = {}
        self._models: dict[str, ModelNames] = {}
        self._under_way: set[Course] = set()
        self._silence: asyncio.Event | None = None

    @property
    def usage(self) -> dict[str, dict[str, Any]]:
        """What each model has used so far, by its name."""
        return self.used.by_model

    @contextmanager
    def active(self) -> Iterator[None]:
        """Guard what is called inside, and in the tasks and threads that are begun inside."""
        from checkrail.adapters.langchain.install import install

        install()
        with suppress(RuntimeError):  # a graph may be run where there is no loop
            self.bridge.loop = asyncio.get_running_loop()
        token = ACTIVE.set(self)
        try:
            yield
        finally:
            with suppress(ValueError):  # closed from another context, which never had this guard
                ACTIVE.reset(token)

    def check(self) -> None:
        """Let no call begin, or give its result, once the run has ended."""
        if self.ended is not None:
            raise RunEnded(self.ended)

    def end(self, ended: Ended) -> RunEnded:
        """Remember what ends the run, which is the first that does, and give it to be raised."""
        with self._lock:
            self.ended = self.ended or ended
        return RunEnded(self.ended)

    def leave(self, later: AnswerLater) -> GraphInterrupt:
        """Note that somebody has to be asked first, and give what ends the node until then."""
        with self._lock:
            self.left = self.left or later
        return GraphInterrupt((Interrupt(later.told, id=str(later)),))

    def begin(self, course: Course) -> None:
        """Note that a call is under way."""
        with self._lock:
            self._under_way.add(course)

    def end_of(self, course: Course) -> None:
        """Note that a call is over."""
        with self._lock:
            self._under_way.discard(course)
            last = not self._under_way and self._silence is not None
        if last and self.bridge.loop is not None and self._silence is not None:
            self.bridge.loop.call_soon_threadsafe(self._silence.set)

    async def quiet(self) -> None:
        """Wait for calls that go on although their node is over: what they do is done."""
        with self._lock:
            self._silence = asyncio.Event()
            if not self._under_way:
                return
        await self._silence.wait()

    def memo(self, tasks: Collection[str]) -> dict[str, Any]:
        """Tell what a run that is left has to know when these tasks of its graph run again."""
        plain_ones = [key for key, seen in self._seen.items() if seen.is_plain]
        return {
            "calls": [] if self.journal is None else self.journal.keep(tasks),
            "seen": [[*key] for key in plain_ones],
            "injected": {name: thaw(said) for name, said in self._injected.items()},
            "models": {name: dict(names) for name, names in self._models.items()},
            "retries": self.scope.budget.taken(),
        }

    def take_up(self, memo: Mapping[str, Any]) -> None:
        """Go on with what a run knew when it was left."""
        hooks = transforms(self.scope)
        self._seen = {(name, what): Seen(hooks, None) for name, what in memo["seen"]}
        self._injected = {name: [*said] for name, said in memo["injected"].items()}
        self._models = dict(memo.get("models", {}))  # memos of earlier versions have none
        self.scope.budget.take_up(memo["retries"])

    def note_model(self, ids: Iterable[str], names: ModelNames) -> None:
        """Remember whose tool calls these are."""
        self._models.update(dict.fromkeys(ids, names))

    def tool_ids(self, id: str) -> dict[str, Any]:
        """Return what events tell of a tool call: its id, and the model that made it."""
        return {"tool_call_id": id, **self.model_ids(self._models.get(id, {}))}

    def model_ids(self, names: ModelNames) -> dict[str, Any]:
        """Return what events tell of a model."""
        ids: dict[str, Any] = dict(names)
        others = {name: ids.pop(name) for name in MODEL_NAMES if name in ids}
        return {**ids, "metadata": {**self.scope.context.metadata, **others}} if others else ids

    def remember(self, call: ToolCall, seen: Seen) -> None:
        """Keep what was said of a tool call until it is made; it may be made more than once."""
        self._seen[_key(call)] = seen

    def recall(self, call: ToolCall) -> Seen | None:
        """Return what was said of this very call when the model asked for it."""
        return self._seen.get(_key(call)) if self._seen else None

    def inject(self, ids: Sequence[str], messages: Sequence[Message]) -> None:
        """Keep messages of hooks for the requests that tell of these tool calls."""
        if messages and ids:
            self._injected.setdefault(ids[-1], []).extend(messages)
        elif messages:
            log.error("a hook injected messages after an answer that nothing follows: left out")

    def injected(self, ids: Sequence[str]) -> list[Message]:
        """Return the messages that belong behind the results of some tool calls."""
        return [message for name in ids for message in self._injected.get(name, ())]

    def tell(self, event: str, call: ToolCall, **more: Any) -> None:
        """Tell what happens to a tool."""
        if self.on_tool is None:
            return
        try:
            self.on_tool({"event": event, "tool_call_id": call.id, "tool_name": call.name, **more})
        except Exception:
            log.exception("on_tool failed at %s of %s", event, call.name)


def _key(call: ToolCall) -> tuple[str, str]:
    return call.id, digest([call.name, call.args])
