"""What a pydantic model refuses, told as problems of the file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from checkrail.config.problems import Report, Where, describe_value
from checkrail.validation import data_path, expected_text

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic_core import ErrorDetails

_WANTED = {
    "bool_type": "true or false",
    "dict_type": "a mapping",
    "finite_number": "a number",
    "float_type": "a number",
    "int_type": "a whole number",
    "list_type": "a list",
    "model_type": "a mapping",
    "string_too_short": "a text",
    "string_type": "a text",
    "too_short": "at least one",
    "tuple_type": "a list",
}
"""What pydantic's kinds of errors ask for, in the words of the file formats."""

_LIMITS = {
    "ge": "a number, {} or more",
    "gt": "a number more than {}",
    "le": "a number, {} or less",
    "lt": "a number less than {}",
}


def check_model(
    model: type[BaseModel],
    data: Mapping[str, Any],
    at: Where | Mapping[str, Where],
    report: Report,
    *,
    partial: bool = False,
) -> bool:
    """Report everything in some data that does not fit a model.

    `at` is where the data stands, or where each of its keys does. What is `partial` may lack keys.
    """
    from pydantic import ValidationError

    try:
        model.model_validate(dict(data))
    except ValidationError as error:
        found = error.errors(include_url=False)
    else:
        return True
    by_path: dict[Where, list[ErrorDetails]] = {}
    for item in found:
        if not (partial and item["type"] == "missing"):
            by_path.setdefault(data_path(item, data), []).append(item)
    deepest = [path for path in by_path if not any(_is_beneath(other, path) for other in by_path)]
    for path in deepest:
        _report_items(path, by_path[path], model, _absolute_path(path, at), report)
    return False


def _is_beneath(other: Where, path: Where) -> bool:
    """Return whether a path lies beneath another: of a union's members, the nearest miss counts."""
    return bool(path) and len(other) > len(path) and other[: len(path)] == path


def _absolute_path(path: Where, at: Where | Mapping[str, Where]) -> Where:
    if not isinstance(at, Mapping):
        return (*at, *path)
    start = at.get(str(path[0])) if path else None
    return (*start, *path[1:]) if start is not None else (*at[""], *path)


def _report_items(
    path: Where,
    items: list[ErrorDetails],
    model: type[BaseModel],
    where: Where,
    report: Report,
) -> None:
    kind, given = items[0]["type"], items[0]["input"]
    if kind == "missing":
        report.add(where[:-1], f"`{path[-1]}` is missing", "a value for it")
    elif kind == "extra_forbidden":
        known = [field.alias or name for name, field in model.model_fields.items()]
        report.add_unknown(where, "key", str(path[-1]), known if len(path) == 1 else ())
    else:
        wanted = dict.fromkeys(_describe_expected(item) for item in items)
        report.add(where, _describe_found(path, given, model), " or ".join(wanted))


def _describe_found(path: Where, given: Any, model: type[BaseModel]) -> str:
    if not path:
        return "found keys that do not go together"
    field = model.model_fields.get(str(path[0]))
    if field is not None and _is_secret(field.annotation):
        return "found something else"  # not what: it may be a secret with a typing error
    return f"found {describe_value(given)}"


def _is_secret(annotation: Any) -> bool:
    """Return whether a field holds a secret, or several."""
    from pydantic import SecretStr

    return annotation is SecretStr or any(_is_secret(each) for each in get_args(annotation))


def _describe_expected(item: ErrorDetails) -> str:
    context = item.get("ctx", {})
    if "pattern" in context:
        return f"a text like {context['pattern']}"
    for limit, words in _LIMITS.items():
        if limit in context:
            return words.format(context[limit])
    if item["type"] == "literal_error":
        return re.sub(r"\b(True|False)\b", lambda word: word[0].lower(), context["expected"])
    return _WANTED.get(item["type"]) or expected_text(item).replace("valid ", "")
