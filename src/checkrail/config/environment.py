"""`${VAR}` in a file: only variables that the file allows, and their values are told to nobody."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Self

from checkrail.config.problems import Report, Where

_USE = re.compile(r"\$(?P<escape>\$\{)|\$\{(?P<name>[^}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET_LENGTH = 4
"""Shorter values are no secrets, and taking them out would tear messages apart."""


class Expanded(str):
    """A text that variables were put into; it is shown as it stands in the file."""

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
    """Puts the values of variables into texts; what cannot be done is reported."""

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
        """Put variables into every text of a value."""
        if isinstance(value, str):
            return self._text(value, where, checked=True)
        if isinstance(value, list):
            return [self.expand(item, (*where, n)) for n, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self.expand(item, (*where, key)) for key, item in value.items()}
        return value

    def secret(self, text: str, where: Where) -> str:
        """Expand a text that goes nowhere but into the server: every variable counts."""
        return self._text(text, where, checked=False, hidden=True)

    def folder(self, text: str, where: Where, base: Path) -> Path:
        """Expand the name of a folder, where `~` and every variable count."""
        expanded = Path(self._text(text, where, checked=False))
        return Path(os.path.normpath(base / expanded.expanduser()))

    def _text(self, text: str, where: Where, *, checked: bool, hidden: bool = False) -> str:
        if "${" not in text:
            return text
        names: list[str] = []

        def put(use: re.Match[str]) -> str:
            if use["escape"]:
                return "${"
            names.append(use["name"])
            return self._value(use["name"], where, checked=checked, hidden=checked or hidden)

        found = _USE.sub(put, text)
        return Expanded(found, text) if names else found

    def _value(self, name: str, where: Where, *, checked: bool, hidden: bool) -> str:
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
            return self._told(name, hidden=hidden)
        return use

    def _told(self, name: str, *, hidden: bool) -> str:
        value = self.values[name]
        if hidden and len(value) >= _SECRET_LENGTH:
            self.report.secrets[value] = f"${{{name}}}"
        return value
