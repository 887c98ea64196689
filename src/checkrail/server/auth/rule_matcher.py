"""Finding the rule for a path, segment by segment, as quickly for the last as for the first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from checkrail.server.auth.caller import Needs

SOCKET = "WEBSOCKET"


@dataclass(frozen=True, slots=True)
class Rule:
    """What a route requires of its caller, and what it is in the terms of an Auth object."""

    method: str
    path: str
    needs: Needs
    resource: str | None = None
    action: str | None = None


@dataclass(slots=True)
class _Node:
    literal: dict[str, _Node] = field(default_factory=dict)
    any: _Node | None = None
    rest: _Node | None = None
    rules: dict[str, Rule] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """What is known of a path: its rule, or at least the methods that it has rules for."""

    rule: Rule | None
    methods: tuple[str, ...] = ()
    params: dict[str, str] = field(default_factory=dict)
    ours: bool = True


class Rules:
    """Rules by path and method."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._root = _Node()
        for rule in rules:
            self._add(rule)

    def find(self, method: str, path: str) -> RuleMatch:
        """Return the rule for a request; where several fit, the one with the most text in it."""
        segments = path.split("/")[1:]
        wanted = "GET" if method == "HEAD" else method
        known: set[str] = set()
        for node in _matching_nodes(self._root, segments, 0):
            if rule := node.rules.get(wanted):
                return RuleMatch(rule, params=_path_params(rule.path, segments))
            known.update(node.rules)
        ours = bool(segments) and segments[0] in self._root.literal
        return RuleMatch(None, tuple(sorted(known - {SOCKET})), ours=ours)

    def has(self, method: str, template: str) -> bool:
        """Return whether a route of an app has its rule; the names in its path do not matter."""
        node: _Node | None = self._root
        for segment in template.split("/")[1:]:
            if node is None:
                return False
            kind = _segment_kind(segment)
            node = node.literal.get(segment) if kind == "text" else getattr(node, kind)
        wanted = "GET" if method == "HEAD" else method
        return node is not None and wanted in node.rules

    def _add(self, rule: Rule) -> None:
        node = self._root
        for segment in rule.path.split("/")[1:]:
            kind = _segment_kind(segment)
            if kind == "text":
                node = node.literal.setdefault(segment, _Node())
            elif kind == "rest":
                node.rest = node.rest or _Node()
                node = node.rest
            else:
                node.any = node.any or _Node()
                node = node.any
        if rule.method in node.rules:
            raise ValueError(f"there are two rules for {rule.method} {rule.path}")
        node.rules[rule.method] = rule


def _segment_kind(segment: str) -> Literal["text", "any", "rest"]:
    if not segment.startswith("{"):
        return "text"
    return "rest" if segment.endswith(":path}") else "any"


def _matching_nodes(node: _Node, segments: list[str], at: int) -> Iterator[_Node]:
    if at == len(segments):
        yield node
        return
    segment = segments[at]
    if (child := node.literal.get(segment)) is not None:
        yield from _matching_nodes(child, segments, at + 1)
    if node.any is not None and segment:
        yield from _matching_nodes(node.any, segments, at + 1)
    if node.rest is not None:
        yield node.rest


def _path_params(template: str, segments: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for at, part in enumerate(template.split("/")[1:]):
        if (kind := _segment_kind(part)) != "text":
            name = part.strip("{}").partition(":")[0]
            found[name] = "/".join(segments[at:]) if kind == "rest" else segments[at]
    return found
