"""JSON with the line of every key: the standard parser judges the text, a second walk finds lines.

JSON is YAML, but the YAML parser stumbles over what JSON files have: tabs, surrogate pairs.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from typing import Any

from checkrail.config.nodes import MAX_DEPTH, Members, Node, UnreadableError, flattened
from checkrail.config.problems import Report, Where

_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]:,]|[^\s{}\[\]:,"]+')
_NO_JSON = frozenset({"NaN", "Infinity", "-Infinity"})  # known to Python's parser only


def parse_json(text: str, report: Report) -> tuple[Any, dict[Where, int]]:
    """Parse JSON into plain data and the line of every place in it."""
    if not text.strip():
        return None, {}
    _check_depth(text)
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        found = f"{error.msg[0].lower()}{error.msg[1:]} at column {error.colno}"
        raise UnreadableError(error.lineno, found, "JSON") from None
    except ValueError as error:
        raise UnreadableError(None, str(error), "JSON") from None
    return flattened(_Walk(text, report).node(()))


def _check_depth(text: str) -> None:
    """Refuse deep nesting before the parser meets it: how much it bears differs by version."""
    depth = 0
    for found in _TOKEN.finditer(text):
        depth += (found[0] in "{[") - (found[0] in "}]")
        if depth > MAX_DEPTH:
            line = text.count("\n", 0, found.start()) + 1
            raise UnreadableError(line, f"values nested more than {MAX_DEPTH} deep", "fewer levels")


class _Walk:
    """Walks over a text that is known to be JSON."""

    def __init__(self, text: str, report: Report) -> None:
        self.tokens = _TOKEN.finditer(text)
        self.newlines = [found.start() for found in re.finditer("\n", text)]
        self.report = report

    def next(self) -> tuple[str, int]:
        found = next(self.tokens)
        return found[0], bisect_left(self.newlines, found.start()) + 1

    def node(self, where: Where) -> Node:
        return self.value(*self.next(), where)

    def value(self, token: str, line: int, where: Where) -> Node:
        if token == "{":  # noqa: S105 - a token of JSON
            return Node(line, self.members(where))
        if token == "[":  # noqa: S105 - a token of JSON
            return Node(line, self.items(where))
        if token in _NO_JSON:
            raise UnreadableError(line, f"{token}, which is no number in JSON", "a number")
        return Node(line, json.loads(token))

    def members(self, where: Where) -> Members:
        found = Members()
        token, line = self.next()
        while token != "}":  # noqa: S105 - a token of JSON
            if token != ",":  # noqa: S105 - a token of JSON
                key = json.loads(token)
                self.next()
                node = Node(line, self.node((*where, key)).value)
                found.put(key, node, where, self.report)
            token, line = self.next()
        return found

    def items(self, where: Where) -> list[Node]:
        found: list[Node] = []
        token, line = self.next()
        while token != "]":  # noqa: S105 - a token of JSON
            if token != ",":  # noqa: S105 - a token of JSON
                found.append(self.value(token, line, (*where, len(found))))
            token, line = self.next()
        return found
