"""What a run asks of an agent that talks: a query, and what was said before it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from checkrail.engine.errors import CheckrailError
from checkrail.engine.values import plain
from checkrail.runs.execute.job import Job, Message

ROLES = frozenset({"user", "assistant", "system", "developer", "tool"})
"""Who speaks in a conversation of ours; messages that name others are LangChain's."""


class InvalidParameters(CheckrailError):
    """The parameters of a run do not fit the agent that is called with them."""


class Query(NamedTuple):
    """A query and the messages before it: from the thread, and from the client."""

    query: str | Sequence[Any]
    before: Sequence[Message]


def read_query(work: Job) -> Query:
    """Read a run's parameters, and the history of its thread.

    With a `parameters_schema` they are told to the model as JSON. Without one they are a `prompt`,
    or the `messages` of a conversation, of which the last is the user's; or both.
    """
    given = plain(work.parameters)
    history = _parse_all(plain([*work.history]), "the thread's messages")
    if work.agent.parameters_schema is not None:
        return Query(json.dumps(given, ensure_ascii=False), history)
    if not isinstance(given, Mapping) or given.keys().isdisjoint({"prompt", "messages"}):
        problem = f"the agent {work.agent.name!r} takes {{prompt: text}} or {{messages: [...]}}"
        raise InvalidParameters(f"{problem}: say one of them, or give it a parameters_schema")
    sent = _parse_messages(given.get("messages"))
    if given.get("prompt") is not None:
        return Query(_check_content(given["prompt"], "prompt"), [*history, *sent])
    if not sent or sent[-1]["role"] != "user":
        problem = "the last of `messages` has to be the user's"
        raise InvalidParameters(f"{problem}: send what they ask as {{role: user, content: …}}")
    query = _check_content(sent.pop().get("content"), "content of the last message")
    return Query(query, [*history, *sent])


def _check_content(given: Any, what: str) -> str | Sequence[Any]:
    if not isinstance(given, str | list):
        problem = f"the {what} is {type(given).__name__}"
        raise InvalidParameters(f"{problem}: give a text, or a list of parts")
    return given


def _parse_messages(given: Any) -> list[dict[str, Any]]:
    if not isinstance(given, list | None):
        problem = f"`messages` is {type(given).__name__}"
        raise InvalidParameters(f"{problem}: give a list of {{role: …, content: …}}")
    return _parse_all(given or [], "messages")


def _parse_all(given: list[Any], what: str) -> list[dict[str, Any]]:
    return [_parse_message(message, f"{what}[{place}]") for place, message in enumerate(given)]


def _parse_message(given: Any, where: str) -> dict[str, Any]:
    """Return a message in our own form, whichever of LangChain's forms it has."""
    if isinstance(given, dict) and given.get("role") in ROLES:
        return given
    from langchain_core.messages import convert_to_openai_messages

    try:
        read: Any = convert_to_openai_messages([given])
    except Exception:  # noqa: BLE001 - what it says would show what was sent
        remedy = "a message is {role: …, content: …}"
        raise InvalidParameters(f"{where} cannot be read: {remedy}") from None
    return dict(read[0])
