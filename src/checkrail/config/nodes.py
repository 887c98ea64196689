"""Nodes: what the parsers make, before it is turned into plain data and a map of lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from checkrail.config.problems import Report, Where

MAX_DEPTH = 50
MAX_NODES = 100_000


class UnreadableError(Exception):
    """A text cannot be parsed any further."""

    def __init__(self, line: int | None, found: str, expected: str = "") -> None:
        self.line = line
        self.found = found
        self.expected = expected
        super().__init__(found)


@dataclass(frozen=True, slots=True)
class Node:
    """A value and the line where it begins; in a mapping, the line of its key."""

    line: int
    value: Any  # a scalar, a list of nodes, or a dict of them


class Members(dict[str, Node]):
    """The members of a mapping while it is parsed; a key can be there only once."""

    def put(self, key: str, node: Node, where: Where, report: Report) -> None:
        """Add a member, or report that it is there already."""
        if key in self:
            found = f"the key {key!r} a second time"
            first = f"it is on line {self[key].line} already"
            report.add((*where, key), found, "each key once", first, line=node.line)
        else:
            self[key] = node


def check_depth(where: Where, line: int) -> None:
    """Refuse what is nested deeper than any honest file."""
    if len(where) > MAX_DEPTH:
        found = f"values nested more than {MAX_DEPTH} deep"
        raise UnreadableError(line, found, "fewer levels")


def flatten_nodes(root: Node) -> tuple[Any, dict[Where, int]]:
    """Return plain data, and the line of every place in it."""
    lines: dict[Where, int] = {}

    def flatten_node(node: Node, where: Where) -> Any:
        check_depth(where, node.line)
        lines[where] = node.line
        # Aliases make a short text long: what counts is how much they stand for.
        if len(lines) > MAX_NODES:
            found = f"more than {MAX_NODES} values, aliases counted in full"
            raise UnreadableError(node.line, found, "fewer")
        if isinstance(node.value, dict):
            return {key: flatten_node(child, (*where, key)) for key, child in node.value.items()}
        if isinstance(node.value, list):
            return [
                flatten_node(child, (*where, number)) for number, child in enumerate(node.value)
            ]
        return node.value

    return flatten_node(root, ()), lines
