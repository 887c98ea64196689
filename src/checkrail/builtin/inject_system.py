"""`inject_system`: puts a text to the system message."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkrail.builtin.base import Builtin, text_of
from checkrail.builtin.errors import BuiltinConfigError
from checkrail.engine.event import Event
from checkrail.engine.outcomes import Continue
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import ModelRequest

if TYPE_CHECKING:
    from checkrail.builtin.options import InjectSystemOptions

Message = Mapping[str, Any]

SYSTEM = frozenset({"system", "developer"})
"""The roles that tell a model how to behave; some models know the one, some the other."""


def build(
    options: InjectSystemOptions,
) -> Callable[[Event[Any], ModelRequest], Continue | None]:
    """Build the hook; a file is read now, once."""
    text = options.text if options.file is None else _read_text(options.file)

    def inject_system(event: Event[Any], request: ModelRequest) -> Continue | None:
        request = BUILTIN.expect_value(event, request, ModelRequest)
        messages = inject_text([*request.messages], str(text), options.position)
        return (
            None if messages is None else Continue(dataclasses.replace(request, messages=messages))
        )

    return inject_system


def inject_text(messages: list[Message], text: str, position: str) -> list[Message] | None:
    """Return a conversation with a text in its system message; None: it already contains it."""
    count = sum(1 for _ in takewhile(_is_system, messages))
    system, rest = messages[:count], messages[count:]
    if position == "replace":
        new = [_system_message({**(system[0] if system else {"role": "system"}), "content": text})]
        return None if system == new else [*new, *rest]
    if any(text in text_of(message.get("content"), "\n") for message in system):
        return None
    if not system:
        return [{"role": "system", "content": text}, *rest]
    place = 0 if position == "before" else -1
    system[place] = {**system[place], "content": _join_text(system[place], text, position)}
    return [*system, *rest]


def _is_system(message: Message) -> bool:
    return message.get("role") in SYSTEM


def _system_message(message: Message) -> Message:
    """Return the message that stands for all others, without what only marked the old ones."""
    return {key: value for key, value in message.items() if key in ("role", "content")}


def _join_text(message: Message, text: str, position: str) -> Any:
    content = message.get("content")
    if isinstance(content, (list, tuple)):
        part = {"type": "text", "text": text}
        return [part, *content] if position == "before" else [*content, part]
    if not content:
        return text
    both = (text, content) if position == "before" else (content, text)
    return "\n\n".join(map(str, both))


def _read_text(file: str) -> str:
    try:
        text = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or type(error).__name__
        raise _file_error(file, f"a text file that can be read ({why})") from None
    if not text:
        raise _file_error(file, "a file with a text in it")
    return text


def _file_error(file: str, expected: str) -> BuiltinConfigError:
    return BuiltinConfigError(BUILTIN.name, "file", repr(file), expected)


BUILTIN = Builtin(
    name="inject_system",
    summary="puts a text before, after or in place of the system message",
    points=(HookPoint.BEFORE_LLM_CALL,),
    lane=Lane.TRANSFORM,
    build=build,
    example={"text": "Answer in English.", "position": "after"},
    files=("file",),
    reads=(ModelRequest,),
)


def inject_system(event: Event[Any], request: ModelRequest) -> Continue | None:
    """Put a text to the system message of a request."""
    return BUILTIN.hook_for(event)(event, request)  # type: ignore[no-any-return]
