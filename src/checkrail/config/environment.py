"""`env` and `${VAR}` in a file: what it sets and may use. Nobody is told the values."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

from checkrail.config.problems import Report, Where, describe_value
from checkrail.config.value_checks import Check, text, texts

ENV: dict[str, Check] = {"allow": texts, "file": text}
"""Keys of `env` that set no variable."""

_USE = re.compile(r"\$(?P<escape>\$\{)|\$\{(?P<name>[^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_LENGTH = 4
"""Shorter values are no secrets, and taking them out would tear messages apart."""


def has_variable(text: str) -> bool:
    """Return whether a text uses a variable, whichever it is."""
    return any(not use["escape"] for use in _USE.finditer(text, 0, _end_of_uses(text)))


def _end_of_uses(text: str) -> int:
    """Return where the last use may end: behind it, `_USE` would look for an end at each `${`."""
    return text.rfind("}") + 1


class ExpandedText(str):
    """A text with its variables replaced; it is shown as it stands in the file."""

    __slots__ = ("written",)
    written: str

    def __new__(cls, text: str, written: str) -> Self:
        """Make one from the text and what was written for it."""
        self = super().__new__(cls, text)
        self.written = written
        return self

    def __repr__(self) -> str:
        return repr(self.written)


class Environment:
    """Replaces variables in texts by their values; what cannot be replaced is reported."""

    def __init__(
        self,
        allowed: Iterable[str],
        report: Report,
        values: Mapping[str, str] | None = None,
    ) -> None:
        self.allowed = tuple(allowed)
        self.report = report
        self.values: Mapping[str, str] = os.environ if values is None else values

    def expand(self, value: Any, where: Where) -> Any:
        """Expand the variables in every text of a value."""
        if isinstance(value, str):
            return self._expand_text(value, where, checked=True)
        if isinstance(value, list):
            return [self.expand(item, (*where, n)) for n, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self.expand(item, (*where, key)) for key, item in value.items()}
        return value

    def expand_secret(self, text: str, where: Where) -> str:
        """Expand a text that only the server sees: every variable may be used."""
        return self._expand_text(text, where, checked=False, hidden=True)

    def expand_folder(self, text: str, where: Where, base: Path) -> Path:
        """Expand the name of a folder, where `~` and every variable may be used."""
        expanded = Path(self._expand_text(text, where, checked=False))
        return Path(os.path.normpath(base / expanded.expanduser()))

    def _expand_text(self, text: str, where: Where, *, checked: bool, hidden: bool = False) -> str:
        if "${" not in text:
            return text
        names: list[str] = []

        def expand_use(use: re.Match[str]) -> str:
            if use["escape"]:
                return "${"
            names.append(use["name"])
            return self._lookup_variable(
                use["name"], where, checked=checked, hidden=checked or hidden
            )

        end = _end_of_uses(text)
        found = _USE.sub(expand_use, text[:end]) + text[end:].replace("$${", "${")
        return ExpandedText(found, text) if names else found

    def _lookup_variable(self, name: str, where: Where, *, checked: bool, hidden: bool) -> str:
        use = f"${{{name}}}"
        if not _NAME.fullmatch(name):
            escape = f"${use} stands for the text {use}"
            self.report.add(where, f"{use}, which names no variable", "${NAME}", escape)
        elif checked and not any(fnmatchcase(name, pattern) for pattern in self.allowed):
            remedy = f"add {name} to env.allow, or write ${use} for the text itself"
            self.report.add(where, f"{use} is not allowed here", "a variable of env.allow", remedy)
        elif name not in self.values:
            expected = "a variable that is set"
            self.report.add(where, f"{use} is not set in the environment", expected)
        else:
            return self._read_variable(name, hidden=hidden)
        return use

    def _read_variable(self, name: str, *, hidden: bool) -> str:
        value = self.values[name]
        if hidden and len(value) >= _SECRET_LENGTH:
            self.report.secrets[value] = f"${{{name}}}"
        return value


_LINE = re.compile(
    r"""
    [ \t]* (?:export[ \t]+)? (?P<name>[A-Za-z_][\w.]*) [ \t]* = [ \t]*
    (?: '(?P<single>[^']*)' | "(?P<double>(?:[^"\\]|\\.)*)" | (?P<plain>[^\n]*?) )
    [ \t]* (?:(?:^|(?<=\s))\#[^\n]*)? (?:\n|\Z)
    """,
    re.VERBOSE | re.DOTALL,
)
_SILENT = re.compile(r"[ \t]*(?:\#[^\n]*)?(?:\n|\Z)")
_ENV_USE = re.compile(r"\$\{([A-Za-z_]\w*)\}")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}

_put: dict[str, str] = {}
"""What was put into the environment here: a variable that still has this value may be changed."""


def parse_env(text: str) -> tuple[dict[str, str], list[int]]:
    """Parse `NAME=value` lines; return the variables, and the lines that are malformed."""
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
            found[match["name"]] = _parse_value(match, found)
        at = match.end()
    return found, wrong


def _parse_value(line: re.Match[str], known: Mapping[str, str]) -> str:
    if line["single"] is not None:
        return line["single"]
    text = line["plain"] if line["double"] is None else _unescape(line["double"])
    return _ENV_USE.sub(lambda use: os.environ.get(use[1], known.get(use[1], "")), text)


def _unescape(text: str) -> str:
    return re.sub(r"\\(.)", lambda sign: _ESCAPES.get(sign[1], sign[1]), text, flags=re.DOTALL)


def read_env_file(path: Path) -> tuple[dict[str, str], list[int]]:
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
            _restore_variable(name, before)
        _put.clear()
        _put.update(put_before)
        raise


def _restore_variable(name: str, before: Mapping[str, str]) -> None:
    if name in before:
        os.environ[name] = before[name]
    else:
        os.environ.pop(name, None)


_LEAST_SECRET = 8
"""A shorter value is no secret, and taking it out would tear messages apart."""


@dataclass(frozen=True, slots=True)
class Variables:
    """The `env` section: patterns of `allowed` names, variables to set, and the file of them."""

    allowed: tuple[str, ...] = ()
    values: Mapping[str, str] = field(default_factory=dict, repr=False)
    file: Path | None = None


def read_variables(given: Any, base: Path, report: Report) -> Variables:
    """Read `env`; problems are reported, and the values that it sets are kept out of messages."""
    if given is None:
        return Variables()
    said = {"file": given} if isinstance(given, str) else given
    if not isinstance(said, dict):
        report.add(
            ("env",), f"found {describe_value(given)}", "a mapping, or the path of a .env file"
        )
        return Variables()
    allowed = said.get("allow", [])
    if not texts(allowed, ("env", "allow"), report):
        allowed = []
    file, values = _read_file(said.get("file"), base, report)
    values |= _read_mapping(said, report)
    for name, value in values.items():
        if not _can_be_set(value):
            report.add(("env", name), "a text that no variable can have", "plain text")
        elif len(value) >= _LEAST_SECRET:
            report.secrets[value] = f"${{{name}}}"
    usable = {name: value for name, value in values.items() if _can_be_set(value)}
    return Variables(tuple(allowed), usable, file)


def _can_be_set(value: str) -> bool:
    try:
        return b"\0" not in os.fsencode(value)
    except UnicodeEncodeError:
        return False


def _read_mapping(said: Mapping[str, Any], report: Report) -> dict[str, str]:
    found = {}
    for key, value in said.items():
        where = ("env", key)
        if key in ENV:
            continue
        if not _is_variable(key, value, report):
            report.add_unknown(where, "key", key, ENV)
        else:
            found[key] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def _is_variable(key: str, value: Any, report: Report) -> bool:
    """Return whether a key is a variable: in our own files they are written in capitals."""
    named = _NAME.fullmatch(key) is not None and (key.isupper() or report.foreign)
    return named and isinstance(value, (str, int, float))


def _read_file(given: Any, base: Path, report: Report) -> tuple[Path | None, dict[str, str]]:
    where = ("env",)
    if given is None or not text(given, ("env", "file"), report):
        return None, {}
    try:
        file = (base / given).resolve()
        values, wrong = read_env_file(file)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        report.warn(
            where, f"{describe_value(given)}, which cannot be read: {reason}", "nothing is set"
        )
        return None, {}
    if wrong:
        lines = ", ".join(map(str, wrong))
        report.warn(where, f"{file.name}: no NAME=value on line {lines}", "it is left out")
    return file, values
