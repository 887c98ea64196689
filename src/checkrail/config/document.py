"""Documents: YAML 1.2, JSON and TOML read into plain data that knows its lines.

The standard parsers judge a JSON or TOML text, and a second walk finds the lines. JSON is YAML,
but a parser of YAML stumbles over what JSON files have: tabs, surrogate pairs.
"""

from __future__ import annotations

import hashlib
import json
import re
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from checkrail.config.nodes import MAX_DEPTH, Members, Node, UnreadableError, flatten_nodes
from checkrail.config.problems import Report, Where

MAX_BYTES = 1024 * 1024
FORMATS = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml"}


@dataclass(frozen=True, slots=True)
class Document:
    """The plain data of a file; `base` is the folder that its relative paths start from."""

    data: Any = field(repr=False)
    lines: Mapping[Where, int] = field(repr=False)
    file: str
    base: Path
    digest: str


def read_document(path: Path, report: Report) -> Document | None:
    """Read a file, or report why not."""
    kind = FORMATS.get(path.suffix.lower())
    if kind is None:
        _report_unknown(path, report)
        return None
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        report.add((), f"the file cannot be read: {reason}", "a file that can be read")
        return None
    return parse_document(content, kind, path.absolute().parent, report)


def _report_unknown(path: Path, report: Report) -> None:
    """Report why a path whose name ends like no known format is not read."""
    if path.is_dir():
        report.add((), "a folder", "a file")
    elif path.exists():
        expected = f"a file name that ends in {', '.join(FORMATS)}"
        report.add((), f"a file of unknown format {path.name!r}", expected)
    else:
        report.add((), "there is no such file or folder", "a file that can be read")


def parse_document(content: bytes, kind: str, base: Path, report: Report) -> Document | None:
    """Parse the bytes of a document, or report what is wrong with them."""
    if len(content) > MAX_BYTES:
        report.add((), f"more than {MAX_BYTES} bytes", f"a document of at most {MAX_BYTES} bytes")
        return None
    text = _decode_text(content, report)
    if text is None:
        return None
    try:
        data, lines = _parse_text(text, kind, report)
    except UnreadableError as error:
        report.add((), error.found, error.expected, line=error.line)
        return None
    report.lines = lines
    return Document(data, lines, report.file, base, hashlib.sha256(content).hexdigest())


def _decode_text(content: bytes, report: Report) -> str | None:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        report.add((), f"the byte 0x{content[error.start]:02x}", "text in UTF-8", line=line)
        return None


def _parse_text(text: str, kind: str, report: Report) -> tuple[Any, dict[Where, int]]:
    if kind == "yaml":
        from checkrail.config.yaml_text import parse_yaml  # and its parser, for files of YAML only

        return parse_yaml(text, report)
    if kind == "json":
        return parse_json(text, report)
    return parse_toml(text)


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
    return flatten_nodes(_JsonWalk(text, report).parse_node(()))


def _check_depth(text: str) -> None:
    """Refuse deep nesting before the parser meets it: how much it bears differs by version."""
    depth = 0
    for found in _TOKEN.finditer(text):
        depth += (found[0] in "{[") - (found[0] in "}]")
        if depth > MAX_DEPTH:
            line = text.count("\n", 0, found.start()) + 1
            raise UnreadableError(line, f"values nested more than {MAX_DEPTH} deep", "fewer levels")


class _JsonWalk:
    """Walks over a text that is known to be JSON."""

    def __init__(self, text: str, report: Report) -> None:
        self.tokens = _TOKEN.finditer(text)
        self.newlines = [found.start() for found in re.finditer("\n", text)]
        self.report = report

    def next_token(self) -> tuple[str, int]:
        found = next(self.tokens)
        return found[0], bisect_left(self.newlines, found.start()) + 1

    def parse_node(self, where: Where) -> Node:
        return self.parse_value(*self.next_token(), where)

    def parse_value(self, token: str, line: int, where: Where) -> Node:
        if token == "{":  # noqa: S105 - a token of JSON
            return Node(line, self.parse_members(where))
        if token == "[":  # noqa: S105 - a token of JSON
            return Node(line, self.parse_items(where))
        if token in _NO_JSON:
            raise UnreadableError(line, f"{token}, which is no number in JSON", "a number")
        return Node(line, json.loads(token))

    def parse_members(self, where: Where) -> Members:
        found = Members()
        token, line = self.next_token()
        while token != "}":  # noqa: S105 - a token of JSON
            if token != ",":  # noqa: S105 - a token of JSON
                key = json.loads(token)
                self.next_token()
                node = Node(line, self.parse_node((*where, key)).value)
                found.put(key, node, where, self.report)
            token, line = self.next_token()
        return found

    def parse_items(self, where: Where) -> list[Node]:
        found: list[Node] = []
        token, line = self.next_token()
        while token != "]":  # noqa: S105 - a token of JSON
            if token != ",":  # noqa: S105 - a token of JSON
                found.append(self.parse_value(token, line, (*where, len(found))))
            token, line = self.next_token()
        return found


_TOML_TOKEN = re.compile(
    r"""
    (?P<text>"{3}(?:[^\\]|\\.)*?"{3,5} | '{3}.*?'{3,5} | "(?:[^"\\\n]|\\.)*" | '[^'\n]*')
    | (?P<comment>\#[^\n]*)
    | (?P<mark>[\[\]{}=,.\n])
    | (?P<bare>[^\s\[\]{}=,.\#"']+)
    """,
    re.VERBOSE | re.DOTALL,
)
_PLACE = re.compile(r"\s*\(at (?:line (?P<line>\d+), column \d+|end of document)\)$")


def parse_toml(text: str) -> tuple[Any, dict[Where, int]]:
    """Parse TOML into plain data and the line of every place in it."""
    import tomllib  # few files need it

    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unreadable_error(str(error), text) from None
    return _to_plain(data, 0), _TomlWalk(text).find_lines()


def _unreadable_error(message: str, text: str) -> UnreadableError:
    place = _PLACE.search(message)
    if place is None:
        return UnreadableError(None, message, "TOML")
    line = int(place["line"] or text.count("\n") + 1)
    found = message[: place.start()]
    return UnreadableError(line, f"{found[0].lower()}{found[1:]}", "TOML")


def _to_plain(value: Any, depth: int) -> Any:
    """Return a value with its times as text, as in the other formats."""
    if depth > MAX_DEPTH:
        raise UnreadableError(None, f"values nested more than {MAX_DEPTH} deep", "fewer levels")
    if isinstance(value, dict):
        return {key: _to_plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_to_plain(item, depth + 1) for item in value]
    return value.isoformat() if isinstance(value, (datetime, date, time)) else value


class _TomlWalk:
    """Walks over a text that is known to be TOML."""

    def __init__(self, text: str) -> None:
        newlines = [found.start() for found in re.finditer("\n", text)]
        self.tokens = [
            (found[0], bisect_left(newlines, found.start()) + 1)
            for found in _TOML_TOKEN.finditer(text)
            if found.lastgroup != "comment"
        ]
        self.at = 0
        self.found: dict[Where, int] = {}
        self.last: dict[Where, int] = {}  # of every array of tables, its last index so far

    def find_lines(self) -> dict[Where, int]:
        table: Where = ()
        while self.at < len(self.tokens):
            if self.peek() == "\n":
                self.at += 1
            elif self.peek() == "[":
                table = self.parse_header()
            else:
                self.parse_pair(table)
        return self.found

    def peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else "\n"

    def take(self) -> tuple[str, int]:
        self.at += 1
        return self.tokens[self.at - 1]

    def parse_key(self) -> list[str]:
        parts = [_parse_key(self.take()[0])]
        while self.peek() == ".":
            self.at += 1
            parts.append(_parse_key(self.take()[0]))
        return parts

    def parse_header(self) -> Where:
        _, line = self.take()
        is_array = self.peek() == "["
        self.at += is_array
        *parents, name = self.parse_key()
        self.skip_to(("\n",))
        table: Where = ()
        for key in parents:
            table = self.enter_table((*table, key), line)
        if is_array:
            array = (*table, name)
            self.last[array] = self.last.get(array, -1) + 1
        return self.enter_table((*table, name), line)

    def enter_table(self, where: Where, line: int) -> Where:
        """Note a table, and return the path of its newest element if it is an array of tables."""
        self.found.setdefault(where, line)
        if where in self.last:
            where = (*where, self.last[where])
            self.found.setdefault(where, line)
        return where

    def parse_pair(self, table: Where) -> None:
        line = self.tokens[self.at][1]
        where = table
        for key in self.parse_key():
            where = (*where, key)
            self.found.setdefault(where, line)
        self.at += 1  # the equals sign
        self.parse_value(where)

    def parse_value(self, where: Where) -> None:
        if self.peek() == "[":
            self.at += 1
            number = 0
            while self.has_more("]"):
                self.found[*where, number] = self.tokens[self.at][1]
                self.parse_value((*where, number))
                number += 1
        elif self.peek() == "{":
            self.at += 1
            while self.has_more("}"):
                self.parse_pair(where)
        else:
            self.skip_to((",", "]", "}", "\n"))

    def has_more(self, end: str) -> bool:
        """Return whether a list goes on, and skip what stands between its members."""
        while self.peek() in (",", "\n"):
            self.at += 1
        if self.peek() == end:
            self.at += 1
            return False
        return True

    def skip_to(self, ends: tuple[str, ...]) -> None:
        while self.peek() not in ends:
            self.at += 1


def _parse_key(token: str) -> str:
    import tomllib

    return str(tomllib.loads(f"key = {token}")["key"]) if token[0] in "\"'" else token
