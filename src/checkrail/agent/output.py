"""Structured output: what an answer has to be, and what of it is not."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from checkrail.engine.frozen import thaw

MAX_ATTEMPTS = 3
FENCED = re.compile(r"\s*```(?:json)?\s*\n(.*)\n\s*```\s*", re.DOTALL)


class OutputMismatch(Exception):
    """An answer does not fit; the text is feedback for the model."""


class Output:
    """The schema of an answer: a type that pydantic knows, or a JSON Schema."""

    def __init__(self, schema: Any) -> None:
        self.name, self.schema, self._validated = _compile_schema(schema)

    @property
    def instruction(self) -> str:
        """The instruction for the model."""
        told = "Give your final answer as JSON alone, which fits this JSON Schema"
        return f"{told}: {json.dumps(self.schema, ensure_ascii=False)}"

    @property
    def params(self) -> dict[str, Any]:
        """The parameters by which a provider enforces the schema, if it can."""
        wanted = {"name": self.name, "schema": self.schema}
        return {"response_format": {"type": "json_schema", "json_schema": wanted}}

    def parse_answer(self, text: str) -> Any:
        """Parse an answer, or raise `OutputMismatch`."""
        fenced = FENCED.fullmatch(text)
        return self._validated(fenced[1] if fenced else text)


def _compile_schema(schema: Any) -> tuple[str, dict[str, Any], Callable[[str], Any]]:
    if isinstance(schema, Mapping):
        return _compile_json_schema(thaw(dict(schema)))
    from pydantic import PydanticSchemaGenerationError, TypeAdapter, ValidationError

    try:
        adapter = TypeAdapter(schema)
    except PydanticSchemaGenerationError:
        problem = f"output_schema is {schema!r}, which pydantic does not know"
        raise TypeError(f"{problem}: give a type or a JSON Schema") from None

    def validate(text: str) -> Any:
        try:
            return adapter.validate_json(text)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_input=False, include_context=False)
            raise OutputMismatch(
                "; ".join(_describe_problem(problem) for problem in problems)
            ) from None

    name = re.sub(r"[^\w-]", "_", getattr(schema, "__name__", "output"))
    return name, adapter.json_schema(), validate


def _describe_problem(problem: Any) -> str:
    where = ".".join(str(part) for part in problem["loc"])
    return f"{where}: {problem['msg']}" if where else str(problem["msg"])


def _compile_json_schema(
    schema: dict[str, Any],
) -> tuple[str, dict[str, Any], Callable[[str], Any]]:
    from checkrail.builtin.schema_check import compile_schema, find_problems

    validator = compile_schema("output_schema", schema, "output_schema")

    def validate(text: str) -> Any:
        try:
            found = json.loads(text)
        except ValueError as error:
            raise OutputMismatch(f"it is no JSON: {error}") from None
        if wrong := find_problems(validator, found):
            raise OutputMismatch("; ".join(wrong))
        return found

    return re.sub(r"[^\w-]", "_", str(schema.get("title", "output"))), schema, validate
