"""YAML 1.2 by its core schema: `on`, `no` and times stay text, and every key knows its line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from checkrail.config.nodes import Members, Node, UnreadableError, check_depth, flatten_nodes
from checkrail.config.problems import Report, Where

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_BOOLS = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTS = ((re.compile(r"[-+]?[0-9]+"), 10), (re.compile(r"0o[0-7]+"), 8))
_HEX = re.compile(r"0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")
_TAG = "tag:yaml.org,2002:"
_TEXT_TAGS = frozenset({"!", f"{_TAG}str"})
_CORE_TAGS = frozenset(f"{_TAG}{kind}" for kind in ("null", "bool", "int", "float", "map", "seq"))


def parse_yaml(text: str, report: Report) -> tuple[Any, dict[Where, int]]:
    """Parse YAML into plain data and the line of every place in it."""
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import MarkedYAMLError, YAMLError
    except ImportError:
        found = "YAML, but ruamel.yaml is not installed"
        remedy = 'JSON or TOML, or: pip install "checkrail[config]"'
        raise UnreadableError(None, found, remedy) from None
    events = YAML(typ="safe", pure=True).parse(text)
    try:
        root = _Composer(events, report).compose_document()
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        found = ": ".join(part for part in (error.context, error.problem) if part)
        raise UnreadableError(mark.line + 1 if mark else None, found, "YAML 1.2") from None
    except (YAMLError, ValueError) as error:
        found = str(error).splitlines()[0]
        line = text.count("\n", 0, getattr(error, "position", 0)) + 1
        raise UnreadableError(line, found, "YAML 1.2") from None
    return flatten_nodes(root)


class _Composer:
    """Builds nodes from the parser's events; ruamel's own resolver knows more than YAML 1.2."""

    def __init__(self, events: Iterator[Any], report: Report) -> None:
        self.events = events
        self.report = report
        self.anchors: dict[str, Node] = {}

    def compose_document(self) -> Node:
        root: Node | None = None
        for event in self.events:
            kind = type(event).__name__
            if kind == "DocumentStartEvent" and root is not None:
                found = "a second document"
                raise UnreadableError(_line_number(event), found, "one document a file")
            if kind.startswith(("Scalar", "Mapping", "Sequence", "Alias")):
                root = self.compose_node(event, ())
        return root or Node(1, None)

    def compose_node(self, event: Any, where: Where) -> Node:
        line = _line_number(event)
        check_depth(where, line)
        kind = type(event).__name__
        if kind == "AliasEvent":
            return self.resolve_alias(event.anchor, line)
        if kind == "ScalarEvent":
            node = Node(line, self.compose_scalar(event, where))
        else:
            self.check_tag(event, where)
            node = Node(
                line, self.compose_members(where) if "Map" in kind else self.compose_items(where)
            )
        if event.anchor:
            self.anchors[event.anchor] = node
        return node

    def resolve_alias(self, anchor: str, line: int) -> Node:
        if anchor not in self.anchors:
            found = f"the alias *{anchor}, which nothing before it is named"
            raise UnreadableError(line, found, f"&{anchor} further up")
        return Node(line, self.anchors[anchor].value)

    def compose_items(self, where: Where) -> list[Node]:
        found: list[Node] = []
        for event in self.events:
            if type(event).__name__ == "SequenceEndEvent":
                break
            found.append(self.compose_node(event, (*where, len(found))))
        return found

    def compose_members(self, where: Where) -> Members:
        found = Members()
        for event in self.events:
            if type(event).__name__ == "MappingEndEvent":
                break
            key = self.compose_key(event, where)
            value = self.compose_node(next(self.events), where if key is None else (*where, key))
            if key is not None:
                found.put(key, Node(_line_number(event), value.value), where, self.report)
        return found

    def compose_key(self, event: Any, where: Where) -> str | None:
        key = self.compose_node(event, where).value
        if key == "<<" and event.style is None:
            hint = "name the hook under definitions, and use it with $ref"
            self.report.add(where, "the merge key '<<'", "YAML 1.2", hint, line=_line_number(event))
            return None
        if not isinstance(key, str):
            text = getattr(event, "value", None)
            found = f"the key {text}" if text else "a key that is no text"
            self.report.add(where, found, "a text", "put it in quotes", line=_line_number(event))
            return None
        return key

    def compose_scalar(self, event: Any, where: Where) -> Any:
        tag = self.check_tag(event, where)
        plain = event.style is None and tag is None
        return _resolve_scalar(event.value) if plain or tag in _CORE_TAGS else event.value

    def check_tag(self, event: Any, where: Where) -> str | None:
        tag = str(event.ctag) if event.ctag is not None else None
        if tag is not None and tag not in _TEXT_TAGS | _CORE_TAGS:
            expected = "plain data"
            hint = f'if it is meant as a text, put it in quotes: "{tag}"'
            self.report.add(where, f"the tag {tag}", expected, hint, line=_line_number(event))
        return tag


def _line_number(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _resolve_scalar(text: str) -> Any:
    """Return a plain scalar by the core schema of YAML 1.2."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    for pattern, base in _INTS:
        if pattern.fullmatch(text):
            return int(text, base)
    if _HEX.fullmatch(text):
        return int(text, 16)
    if _FLOAT.fullmatch(text):
        return float(text)
    return float(text.replace(".", "")) if _SPECIAL.fullmatch(text) else text
