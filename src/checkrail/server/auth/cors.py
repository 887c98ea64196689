"""Which other sites' pages may call the server, as `http.cors` says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self, cast

from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp

from checkrail.regex import PatternError, compile_pattern
from checkrail.server.auth.errors import AuthConfigError

READ_BY_CLIENTS = ("content-location", "location", "x-pagination-next", "x-pagination-total")
"""Response headers that the LangGraph client reads."""


_LOOPBACK = r"https?://(localhost|[\w-]+\.localhost|127\.\d+\.\d+\.\d+|\[::1\])(:\d+)?"


@dataclass(frozen=True, slots=True)
class Cors:
    """The settings, with the names that `langgraph.json` has for them."""

    allow_origins: tuple[str, ...] = ()
    allow_methods: tuple[str, ...] = ("*",)
    allow_headers: tuple[str, ...] = ("*",)
    allow_credentials: bool = False
    allow_origin_regex: str | None = None
    expose_headers: tuple[str, ...] = READ_BY_CLIENTS
    max_age: int = 600

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Self:
        """Read the settings from a config file."""
        known = {field.name: field.default for field in fields(cls)}
        given = {name: _parse_setting(name, value, known) for name, value in config.items()}
        return cls(**{name: value for name, value in given.items() if value is not None})

    @classmethod
    def for_loopback(cls) -> Self:
        """Let in the pages of this machine, as a front end that is developed here."""
        return cls(allow_origin_regex=_LOOPBACK)

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """Put it around the app, outside of the guard: a preflight carries no credentials."""
        told = {each.name: getattr(self, each.name) for each in fields(self)}
        regex = told.pop("allow_origin_regex")
        middleware = CORSMiddleware(app, **told)
        if regex is not None:  # it would be compiled with `re`
            middleware.allow_origin_regex = cast("Any", compile_pattern(regex))
        return middleware

    def names(self, origin: str) -> bool:
        """Return whether an origin was named; `*` names nobody."""
        regex = self.allow_origin_regex
        return origin in self.allow_origins or bool(
            regex and compile_pattern(regex).fullmatch(origin)
        )

    def allows(self, origin: str) -> bool:
        """Return whether pages of an origin may call."""
        return "*" in self.allow_origins or self.names(origin)


def _parse_setting(name: str, value: Any, known: Mapping[str, Any]) -> Any:
    if name not in known:
        raise AuthConfigError(f"http.cors has no setting {name!r}", f"It has {', '.join(known)}")
    if value is None:
        return None
    if isinstance(known[name], tuple):
        return _parse_texts(name, value)
    if known[name] is None:
        return _parse_regex(name, value)
    if type(value) is not type(known[name]):
        raise _setting_error(name, f"of type {type(known[name]).__name__}")
    return value


def _parse_texts(name: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, (list, tuple)):
        raise _setting_error(name, "a list of texts")
    if not all(isinstance(item, str) for item in value):
        raise _setting_error(name, "a list of texts")
    return tuple(value)


def _parse_regex(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise _setting_error(name, "a regular expression")
    try:
        compile_pattern(value)
    except PatternError as problem:
        raise _setting_error(name, f"a regular expression: {problem}") from None
    return value


def _setting_error(name: str, expected: str) -> AuthConfigError:
    return AuthConfigError(f"http.cors.{name} is not {expected}", "Correct it in the config file")
