"""What can be wrong with the config of a built-in hook."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from checkrail.engine.errors import InvalidOutcomeError, suggestion

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError


class BuiltinConfigError(InvalidOutcomeError):
    """A built-in hook was given options that it cannot work with.

    Where it shows only when the hook is called, that is a breach of contract: nothing passes.
    """

    def __init__(
        self,
        hook: str,
        key: str,
        found: str,
        expected: str,
        suggestion: str = "",
    ) -> None:
        self.hook = hook
        self.key = key
        self.found = found
        self.expected = expected
        self.suggestion = suggestion
        super().__init__(hook, key, found, expected, suggestion)

    def __str__(self) -> str:
        return (
            f"built-in hook {self.hook!r}: option {self.key!r} is {self.found}, "
            f"expected {self.expected}{self.suggestion}"
        )


def first_problem(
    hook: str,
    model: type[BaseModel],
    error: ValidationError,
) -> BuiltinConfigError:
    """Put the first thing that pydantic found into our words."""
    problem = error.errors(include_url=False)[0]
    kind, ctx = problem["type"], problem.get("ctx", {})
    key = _key(problem["loc"])
    found = shown(problem["input"])
    if kind == "extra_forbidden":
        known = sorted(item.alias or name for name, item in model.model_fields.items())
        expected = f"one of the options {', '.join(known)}"
        return BuiltinConfigError(hook, key, "unknown", expected, suggestion(key, known))
    if kind == "missing":
        return BuiltinConfigError(hook, key, "missing", "a value: it has no default")
    if kind == "literal_error":
        known = re.findall(r"'([^']+)'", str(ctx["expected"]))
        near = suggestion(str(problem["input"]), known)
        return BuiltinConfigError(hook, key, found, str(ctx["expected"]), near)
    return BuiltinConfigError(hook, key, found, _expected(problem["msg"]))


def _key(loc: tuple[int | str, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return text.removeprefix(".") or "config"


def shown(given: Any, most: int = 80) -> str:
    """Show what was given, in few words."""
    text = repr(given)
    return text if len(text) <= most else f"{text[:most]}..."


def _expected(message: str) -> str:
    for start in ("Input should be ", "Value error, "):
        message = message.removeprefix(start)
    return message
