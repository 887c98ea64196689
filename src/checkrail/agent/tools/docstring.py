"""Docstrings: what a function says about itself and its parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

_SECTION = re.compile(r"(Args|Arguments|Parameters|Params|Keyword Args|Other Parameters):?")
_RULE = re.compile(r"-{3,}")
_GOOGLE = re.compile(r"\*{0,2}(?P<names>\w+)\s*(?:\(.*?\))?\s*:(?:\s+(?P<text>.*)|$)")
_NUMPY = re.compile(r"(?P<names>\*{0,2}\w+(?:\s*,\s*\*{0,2}\w+)*)\s*(?::.*)?$")
_SPHINX = re.compile(r":(?:param|parameter|arg|argument)\s[^:]*?(\w+)\s*:(.*)")
_FIELD = re.compile(r":\w+[^:]*:")


def unwrap_function(fn: Any) -> Any:
    """Find the function that has the words and the annotations of something that can be called."""
    while isinstance(fn, partial):
        fn = fn.func
    if not inspect.isroutine(fn):
        fn = type(fn).__call__
    return inspect.unwrap(getattr(fn, "__func__", fn))


def docstring_of(fn: Any) -> str | None:
    """Find the docstring of something that can be called: of an object, its class may have it."""
    told: str | None = unwrap_function(fn).__doc__
    if told is None and not inspect.isroutine(fn) and not isinstance(fn, partial):
        told = type(fn).__doc__
    return told


def summary_of(docstring: str | None) -> str:
    """Return the first paragraph, on one line; sections and fields do not count."""
    paragraph = inspect.cleandoc(docstring or "").partition("\n\n")[0]
    lines = [line.strip() for line in paragraph.splitlines()]
    for number, line in enumerate(lines):
        if _FIELD.match(line) or _SECTION.fullmatch(line):
            lines = lines[:number]
            break
    return " ".join(lines)


def parameter_texts(docstring: str | None) -> dict[str, str]:
    """Return what is said of each parameter, in the styles of Google, NumPy or Sphinx."""
    lines = inspect.cleandoc(docstring or "").splitlines()
    found: dict[str, list[str]] = {}
    for number, line in enumerate(lines):
        below = lines[number + 1 : number + 2]
        if told := _SPHINX.match(line):
            found[told[1]] = [told[2], *_take_indented(lines[number + 1 :])]
        elif _SECTION.fullmatch(line) and below and _RULE.fullmatch(below[0]):
            found |= _parse_entries(_until_rule(lines[number + 2 :]), _NUMPY)
        elif _SECTION.fullmatch(line) and line.endswith(":"):
            found |= _parse_entries(_take_indented(lines[number + 1 :], blank=True), _GOOGLE)
    texts = {name: " ".join(" ".join(said).split()) for name, said in found.items()}
    return {name: text for name, text in texts.items() if text}


def _take_indented(lines: Iterable[str], *, blank: bool = False) -> Iterator[str]:
    """Yield the lines that stand further in than the one above them."""
    for line in lines:
        if not (line[:1].isspace() or (blank and not line)):
            return
        yield line


def _until_rule(lines: list[str]) -> Iterator[str]:
    """Yield the lines of a NumPy section: the next one begins with an underlined title."""
    for number, line in enumerate(lines):
        if any(map(_RULE.fullmatch, lines[number + 1 : number + 2])):
            return
        yield line


def _parse_entries(lines: Iterable[str], head: re.Pattern[str]) -> dict[str, list[str]]:
    """Read entries: a head that names a parameter, and the lines further in beneath it."""
    found: dict[str, list[str]] = {}
    said: list[str] = []
    base = None
    for line in filter(str.strip, lines):
        depth = len(line) - len(line.lstrip())
        base = depth if base is None else base
        if depth > base:
            said.append(line)
            continue
        told = head.match(line.strip())
        said = [told.groupdict().get("text") or ""] if told else []
        for name in re.findall(r"\w+", told["names"]) if told else ():
            found[name] = said
    return found
