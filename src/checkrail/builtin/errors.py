"""What can be wrong with the config of a built-in hook."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from checkrail.engine.errors import InvalidOutcomeError, suggestion
from checkrail.validation import expected_text, shorten_repr

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
    """Return the first problem that pydantic found as an error of ours."""
    problem = error.errors(include_url=False)[0]
    kind, ctx = problem["type"], problem.get("ctx", {})
    key = _key_path(problem["loc"])
    found = shorten_repr(problem["input"])
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
    return BuiltinConfigError(hook, key, found, expected_text(problem))


def _key_path(loc: tuple[int | str, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in loc)
    return text.removeprefix(".") or "config"
