"""What a model's server is to answer, in words that no provider owns."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Ending = Literal["well", "error", "early", "cut", "never"]


@dataclass(frozen=True)
class Call:
    """A tool call; the arguments are a text, as a model writes them."""

    name: str
    arguments: str = "{}"
    id: str = ""


def call(name: str, **args: Any) -> Call:
    return Call(name, json.dumps(args))


@dataclass(frozen=True)
class Say:
    """An answer, and how its stream ends.

    `error`: with an error in the middle; `early`: before the answer did; `cut`: the connection is
    dropped; `never`: nothing more comes, and the connection stays open.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    thinking: str = ""
    usage: tuple[int, int] = (12, 7)
    stop: str | None = None
    ends: Ending = "well"


@dataclass(frozen=True)
class Refuse:
    """An error with its HTTP status, in the provider's form."""

    status: int
    message: str = "no"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Raw:
    """Exactly this body."""

    body: bytes
    content_type: str = "application/json"


@dataclass(frozen=True)
class Silence:
    """No answer at all, ever."""


Reply = str | Say | Refuse | Raw | Silence
"""A text is an answer that says it."""


def calling(*calls: Call) -> Say:
    return Say(calls=calls)


def pieces(text: str, length: int = 4) -> list[str]:
    """Cut a text as models do when they stream."""
    return [text[start : start + length] for start in range(0, len(text), length)]


def sent_events(raw: str) -> Raw:
    """Exactly this stream."""
    return Raw(raw.encode(), "text/event-stream; charset=utf-8")
