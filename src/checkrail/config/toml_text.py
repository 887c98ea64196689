"""TOML with the line of every key: the standard parser reads it, a second walk finds lines."""

from __future__ import annotations

import re
import tomllib
from bisect import bisect_left
from datetime import date, datetime, time
from typing import Any

from checkrail.config.nodes import MAX_DEPTH, UnreadableError
from checkrail.config.problems import Where

_TOKEN = re.compile(
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
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unreadable(str(error), text) from None
    return _plain(data, 0), _Walk(text).lines()


def _unreadable(message: str, text: str) -> UnreadableError:
    place = _PLACE.search(message)
    if place is None:
        return UnreadableError(None, message, "TOML")
    line = int(place["line"] or text.count("\n") + 1)
    found = message[: place.start()]
    return UnreadableError(line, f"{found[0].lower()}{found[1:]}", "TOML")


def _plain(value: Any, depth: int) -> Any:
    """Turn times into text, as in the other formats."""
    if depth > MAX_DEPTH:
        raise UnreadableError(None, f"values nested more than {MAX_DEPTH} deep", "fewer levels")
    if isinstance(value, dict):
        return {key: _plain(item, depth + 1) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item, depth + 1) for item in value]
    return value.isoformat() if isinstance(value, (datetime, date, time)) else value


class _Walk:
    """Walks over a text that is known to be TOML."""

    def __init__(self, text: str) -> None:
        newlines = [found.start() for found in re.finditer("\n", text)]
        self.tokens = [
            (found[0], bisect_left(newlines, found.start()) + 1)
            for found in _TOKEN.finditer(text)
            if found.lastgroup != "comment"
        ]
        self.at = 0
        self.found: dict[Where, int] = {}
        self.last: dict[Where, int] = {}  # of every array of tables, its last index so far

    def lines(self) -> dict[Where, int]:
        table: Where = ()
        while self.at < len(self.tokens):
            if self.peek() == "\n":
                self.at += 1
            elif self.peek() == "[":
                table = self.header()
            else:
                self.pair(table)
        return self.found

    def peek(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else "\n"

    def take(self) -> tuple[str, int]:
        self.at += 1
        return self.tokens[self.at - 1]

    def key(self) -> list[str]:
        parts = [_key(self.take()[0])]
        while self.peek() == ".":
            self.at += 1
            parts.append(_key(self.take()[0]))
        return parts

    def header(self) -> Where:
        _, line = self.take()
        is_array = self.peek() == "["
        self.at += is_array
        *parents, name = self.key()
        self.skip(("\n",))
        table: Where = ()
        for key in parents:
            table = self.entered((*table, key), line)
        if is_array:
            array = (*table, name)
            self.last[array] = self.last.get(array, -1) + 1
        return self.entered((*table, name), line)

    def entered(self, where: Where, line: int) -> Where:
        """Note a table, and go into its newest element if it is an array of tables."""
        self.found.setdefault(where, line)
        if where in self.last:
            where = (*where, self.last[where])
            self.found.setdefault(where, line)
        return where

    def pair(self, table: Where) -> None:
        line = self.tokens[self.at][1]
        where = table
        for key in self.key():
            where = (*where, key)
            self.found.setdefault(where, line)
        self.at += 1  # the equals sign
        self.value(where)

    def value(self, where: Where) -> None:
        if self.peek() == "[":
            self.at += 1
            number = 0
            while self.more("]"):
                self.found[*where, number] = self.tokens[self.at][1]
                self.value((*where, number))
                number += 1
        elif self.peek() == "{":
            self.at += 1
            while self.more("}"):
                self.pair(where)
        else:
            self.skip((",", "]", "}", "\n"))

    def more(self, end: str) -> bool:
        """Return whether a list goes on, and take what stands between its members."""
        while self.peek() in (",", "\n"):
            self.at += 1
        if self.peek() == end:
            self.at += 1
            return False
        return True

    def skip(self, ends: tuple[str, ...]) -> None:
        while self.peek() not in ends:
            self.at += 1


def _key(token: str) -> str:
    return str(tomllib.loads(f"key = {token}")["key"]) if token[0] in "\"'" else token
