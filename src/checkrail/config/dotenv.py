"""Variables that a file sets: those of a `.env` file, or of a mapping, put into the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_LINE = re.compile(
    r"""
    [ \t]* (?:export[ \t]+)? (?P<name>[A-Za-z_][\w.]*) [ \t]* = [ \t]*
    (?: '(?P<single>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<plain>[^\n]*?) )
    [ \t]* (?:(?:^|(?<=\s))\#[^\n]*)? (?:\n|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
_SILENT = re.compile(r"[ \t]*(?:\#[^\n]*)?(?:\n|\Z)")
_USE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}

_put: dict[str, str] = {}
"""What was put into the environment here: a variable that still has this value may be changed."""


def parse_env(text: str) -> tuple[dict[str, str], list[int]]:
    """Read `NAME=value` lines; give the variables, and the lines that are none."""
    found: dict[str, str] = {}
    wrong: list[int] = []
    text, at = text.replace("\r\n", "\n"), 0
    while at < len(text):
        match = _SILENT.match(text, at) or _LINE.match(text, at)
        if match is None:
            wrong.append(text.count("\n", 0, at) + 1)
            at = text.find("\n", at) + 1 or len(text)
            continue
        if match.re is _LINE:
            found[match["name"]] = _value(match, found)
        at = match.end()
    return found, wrong


def _value(line: re.Match[str], known: Mapping[str, str]) -> str:
    if line["single"] is not None:
        return line["single"]
    text = line["plain"] if line["double"] is None else _unescaped(line["double"])
    return _USE.sub(lambda use: os.environ.get(use[1], known.get(use[1], "")), text)


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", lambda sign: _ESCAPES.get(sign[1], sign[1]), text, flags=re.DOTALL)


def read_env(path: Path) -> tuple[dict[str, str], list[int]]:
    """Read a `.env` file."""
    return parse_env(path.read_text(encoding="utf-8-sig"))


@contextmanager
def set_in_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables that the process has not been started with, for good unless the work fails."""
    before, put_before = {**os.environ}, {**_put}
    for name, value in variables.items():
        if name not in os.environ or os.environ[name] == _put.get(name):
            os.environ[name] = _put[name] = value
    try:
        yield
    except BaseException:
        for name in variables:
            _restore(name, before)
        _put.clear()
        _put.update(put_before)
        raise


def _restore(name: str, before: Mapping[str, str]) -> None:
    if name in before:
        os.environ[name] = before[name]
    else:
        os.environ.pop(name, None)
