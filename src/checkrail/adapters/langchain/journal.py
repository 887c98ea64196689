"""The journal of a run: what its calls gave, so that a node that runs again does not repeat them.

A run that is left for a person to answer is entered again at its last checkpoint. The node that
asked runs from its beginning then; calls that it had completed are answered from here. While a run
goes on this costs a list of references: requests are told apart by digests only when it is left.
"""

from __future__ import annotations

import base64
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

from langchain_core.messages import ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.config import get_config
from langgraph.types import Command

from checkrail.adapters.langchain.answers import Form
from checkrail.engine.values import digest

log = logging.getLogger("checkrail.langchain")

_SERDE = JsonPlusSerializer(allowed_msgpack_modules=None)
"""Builds messages, commands and values of the standard library, and never any other type.

What it reads may have been handed in by a runner.
"""

KINDS = ("null", "bytes", "bytearray", "msgpack")
"""The forms in which it writes; LangGraph's older `json` form is not read here."""

_TASK = "__pregel_task_id"
_PLACE = "checkpoint_ns"
_PLAIN = (str, int, float, bool, type(None))
_KEEPABLE = (dict, list, ToolMessage, Command)

Kept = dict[str, Any]


class NotSerializable(Exception):
    """A value has no form in which it could be stored."""


@dataclass(slots=True, eq=False)
class JournalEntry:
    """One call: what its model answered, before hooks saw that, and what it gave in the end."""

    task: str
    root: str
    request_data: Callable[[], Any]
    form: Form | None
    number: int = 0
    answer: Any = None
    result: Any = None
    over: bool = False

    @property
    def call_name(self) -> str:
        """A name for the call, which it has again when its task runs again."""
        found = digest([self.task, self.number, digest(self.request_data())])
        return found.partition(":")[2][:24]

    def to_json(self) -> Kept:
        """Return the entry as JSON data; raises `NotSerializable`."""
        given = self.result if self.over else self.answer
        kept = given if self.form is None else self.form.to_stored(given)
        asked = digest(self.request_data())
        return {
            "task": self.task,
            "asked": asked,
            "over": self.over,
            "given": _serialize_value(kept),
        }

    def restore(self, kept: Kept) -> None:
        """Restore what was stored of the same call."""
        given = _deserialize_value(kept["given"])
        given = given if self.form is None else self.form.from_stored(given)
        self.over = kept["over"]
        if self.over:
            self.result = given
        else:
            self.answer = given


class Journal:
    """The calls of one run, in the order in which they were begun.

    `unkept` is called when one gave something that could not be kept: then the run is not to be
    left any more.
    """

    def __init__(
        self, kept: Iterable[Kept] = (), unkept: Callable[[], object] = lambda: None
    ) -> None:
        self._slots: list[JournalEntry] = []
        self._numbers: Counter[str] = Counter()
        self._unkept = unkept
        self._before: dict[tuple[str, str], list[Kept]] = {}
        for each in kept:
            self._before.setdefault((each["task"], each["asked"]), []).append(each)
        self._tasks = {task for task, _ in self._before}

    def open_entry(self, asked: Callable[[], Any], form: Form | None = None) -> JournalEntry:
        """Begin a call; it may turn out to be one that was made before."""
        task, root = _current_task()
        slot = JournalEntry(task, root, asked, form, self._numbers[task])
        self._numbers[task] += 1
        self._slots.append(slot)
        if task in self._tasks:
            known = self._before.get((task, digest(asked())))
            if known:
                slot.restore(known.pop(0))
        return slot

    def close_entry(self, slot: JournalEntry, result: Any) -> None:
        """Record the result of a call."""
        slot.result, slot.over = result, True
        if slot.form is None and not _can_be_stored(result):
            self._unkept()

    def export_calls(self, tasks: Collection[str]) -> list[Kept]:
        """Return the calls of tasks that will run again, as data."""
        kept = []
        for slot in self._slots:
            if slot.root in tasks and (slot.over or slot.answer is not None):
                try:
                    kept.append(slot.to_json())
                except NotSerializable as unkept:
                    log.warning("a call gave %s, which cannot be kept: it is made again", unkept)
        return kept


def _current_task() -> tuple[str, str]:
    """Return the task of a graph that this is a part of, and the one of the outermost graph."""
    try:
        known = get_config().get("configurable") or {}
    except RuntimeError:  # no graph, or none that could be left
        return "", ""
    first = str(known.get(_PLACE) or "").partition("|")[0]
    return str(known.get(_TASK) or ""), first.partition(":")[2]


def _can_be_stored(result: Any) -> bool:
    """Return whether the result of a tool can be stored; a plain text is not looked through."""
    said = result.content if isinstance(result, ToolMessage) and not result.artifact else result
    if isinstance(said, _PLAIN):
        return True
    try:
        return isinstance(result, _KEEPABLE) and bool(_serialize_value(result))
    except NotSerializable:
        return False


def _serialize_value(value: Any) -> list[str]:
    try:
        kind, data = _SERDE.dumps_typed(value)
        same = _SERDE.loads_typed((kind, data)) == value
    except Exception as error:
        raise NotSerializable(type(value).__name__) from error
    if not same:
        raise NotSerializable(type(value).__name__)
    return [kind, base64.b64encode(data).decode()]


def _deserialize_value(kept: list[str]) -> Any:
    kind, data = kept
    if kind not in KINDS:
        raise ValueError(f"a journal holds no data of the kind {kind!r}, only {', '.join(KINDS)}")
    return _SERDE.loads_typed((kind, base64.b64decode(data)))
