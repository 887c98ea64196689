"""Reading what a file says of the gateway."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from checkrail.actions.addresses import is_loopback
from checkrail.config.environment import Environment
from checkrail.config.gateway import (
    ANTHROPIC,
    FORMATS,
    GEMINI,
    NOT_SAID,
    OPENAI,
    GatewayConfig,
    PassedPath,
    PriceConfig,
    UpstreamConfig,
)
from checkrail.config.problems import Report, Where, describe_value
from checkrail.config.server_keys import positive
from checkrail.config.value_checks import (
    Check,
    ListCheck,
    ValueCheck,
    WordCheck,
    accept_any,
    check_secret,
    check_secrets,
    count,
    flag,
    patterns,
    read_members,
    seconds,
    text,
)
from checkrail.engine.matchers import Pattern, compile_pattern
from checkrail.regex import PatternError, read_pattern

_WORDS = {"openai": ("chat", "responses"), "anthropic": ("messages",)}
"""Words for the formats of those who made them."""

_KNOWN: dict[str, dict[str, Any]] = {
    "openai": {"url": OPENAI, "format": "openai", "provider": "openai"},
    "anthropic": {"url": ANTHROPIC, "format": "anthropic", "provider": "anthropic"},
    "gemini": {"url": GEMINI, "format": "gemini", "provider": "google"},
}
"""What need not be said of upstreams of these names."""

_FORMAT = ListCheck(WordCheck((*FORMATS, *_WORDS)), "a format or a list of formats", or_one=True)
_URL = "a URL such as https://api.example.com/v1"
_NAME = re.compile(r"\w+(?:[-.]\w+)*")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_OURS = frozenset(
    {"host", "connection", "content-length", "transfer-encoding", "accept-encoding", "upgrade"}
)
_LEAST_KEY = 16
_LEAST_SECRET = 8


def _is_price(value: Any) -> bool:
    return seconds.fits(value) or (value == 0 and not isinstance(value, bool))


price = ValueCheck("USD, a number, 0 or more", _is_price, {"type": "number", "minimum": 0})

UPSTREAM: dict[str, Check] = {
    "url": check_secret,
    "format": _FORMAT,
    "models": patterns,
    "key": check_secret,
    "provider": text,
    "headers": check_secrets,
    **dict.fromkeys(("timeout_seconds", "connect_seconds", "first_byte_seconds"), seconds),
    "retries": count,
    "strip_prefix": flag,
    "region": text,
}

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_ROOT = r"(?:/v1|(?:/upload|/download)?/v1(?:alpha|beta)\w*)"
_PASSED = re.compile(rf"(?:({'|'.join(_METHODS)}) +)?({_ROOT}/\S*[^\s/])/?")

_passed_path = ValueCheck(
    "a path under /v1 or /v1beta, such as /v1/embeddings or GET /v1/files/*",
    lambda value: isinstance(value, str) and _PASSED.fullmatch(value) is not None,
    {"type": "string", "pattern": f"^{_PASSED.pattern}$"},
)
_passed_paths = ListCheck(_passed_path, "a list of paths")


class _PassThroughCheck:
    """A check of what is passed on unseen: all, nothing, or some paths."""

    @property
    def schema(self) -> Mapping[str, Any]:
        """The flag or the list, for editors."""
        return {"anyOf": [flag.schema, _passed_paths.schema]}

    def __call__(self, value: Any, where: Where, report: Report) -> bool:
        """Report what is neither, and paths that are none."""
        if isinstance(value, list):
            return _passed_paths(value, where, report)
        return _all_or_nothing(value, where, report)


_all_or_nothing = ValueCheck(
    "true, false or a list of paths such as GET /v1/files/*", lambda value: isinstance(value, bool)
)
pass_through = _PassThroughCheck()

PRICE: dict[str, Check] = dict.fromkeys(("input", "output", "cached", "cache_write"), price)

GATEWAY: dict[str, Check] = {
    "upstreams": accept_any,
    "keys": check_secrets,
    "approvers": ListCheck(text, "a list of names of keys"),
    "blocked_tool": WordCheck(("continue", "text", "drop")),
    "keep_alive_seconds": seconds,
    "ask_seconds": seconds,
    "ask_usage": flag,
    "pass_through": pass_through,
    "body_bytes": positive,
    "prices": accept_any,
}


class GatewayReader:
    """Reads the gateway's section of one file; what is wrong with it is reported."""

    def __init__(self, environment: Environment) -> None:
        self.report: Report = environment.report
        self.environment = environment

    def read_prices(self, top: Mapping[str, Any]) -> tuple[PriceConfig, ...]:
        """Read the prices at the top of a file, which hold for runs and for the gateway."""
        given = top.get("prices")
        return () if given is None else self._read_prices(given, ("prices",))

    def read(self, top: Mapping[str, Any], shared: tuple[PriceConfig, ...] = ()) -> GatewayConfig:
        """Read everything; what is not configured is as `GatewayConfig` has it.

        `shared` are the prices of the whole file.
        """
        where = ("gateway",)
        if top.get("gateway") is None:
            return NOT_SAID
        said = read_members(top.get("gateway"), GATEWAY, where, self.report)
        if said.get("upstreams") is not None:
            said["upstreams"] = self._read_upstreams(said["upstreams"], (*where, "upstreams"))
        if "keys" in said:
            said["keys"] = self._read_keys(said["keys"], (*where, "keys"))
        if isinstance(said.get("pass_through"), list):
            said["pass_through"] = tuple(map(_read_passed_path, said["pass_through"]))
        if said.get("approvers") is not None:
            said["approvers"] = self._read_approvers(said, (*where, "approvers"))
        if said.get("prices") is not None:
            if shared:
                found = "`prices` here and at the top of the file"
                self.report.add((*where, "prices"), found, "prices at the top, for runs too")
            said["prices"] = self._read_prices(said["prices"], (*where, "prices"))
        elif shared:
            said["prices"] = shared
        return GatewayConfig(**{key: value for key, value in said.items() if value is not None})

    def _read_approvers(self, said: Mapping[str, Any], where: Where) -> tuple[str, ...]:
        known = said.get("keys") or {}
        for number, name in enumerate(said["approvers"]):
            if name not in known:
                self.report.add((*where, number), f"{name!r}", "the name of one of `keys`")
        return tuple(said["approvers"])

    def _read_upstreams(self, given: Any, where: Where) -> tuple[UpstreamConfig, ...]:
        if not isinstance(given, dict) or not given:
            found = "none" if given == {} else f"found {describe_value(given)}"
            self.report.add(where, found, "upstreams by their names")
            return ()
        return tuple(
            upstream
            for name, item in given.items()
            for upstream in self._read_upstream(name, item, (*where, name))
        )

    def _read_upstream(self, name: str, given: Any, where: Where) -> Iterable[UpstreamConfig]:
        """Return an upstream, once for each of its formats."""
        before = len(self.report.problems)
        if not _NAME.fullmatch(name):
            self.report.add(where, f"the name {name!r}", "letters, digits, and - _ . between them")
        said = {**_KNOWN.get(name, {}), **read_members(given, UPSTREAM, where, self.report)}
        formats = said.pop("format", "chat")
        said["url"] = self._read_url(said.get("url"), where)
        said["models"] = self._read_patterns(said.get("models", "*"), (*where, "models"))
        said["headers"] = self._read_headers(said.get("headers", {}), (*where, "headers"))
        if "key" in said:
            said["key"] = self._read_secret(said["key"], (*where, "key"), f"(the key of {name})")
        if len(self.report.problems) > before:
            return ()
        words = [formats] if isinstance(formats, str) else formats
        spoken = dict.fromkeys(each for word in words for each in _WORDS.get(word, (word,)))
        return [UpstreamConfig(name, each, **said) for each in spoken]

    def _read_url(self, given: str | None, where: Where) -> str | None:
        if given is None:
            self.report.add(where, "`url` is missing", _URL)
            return None
        where = (*where, "url")
        before = len(self.report.problems)
        found = self.environment.expand_secret(given, where).strip()
        if len(self.report.problems) > before:
            return None
        wrong = find_url_problem(found)
        if wrong:
            self.report.add(where, wrong, _URL)
            return None
        if found.startswith("http:") and not is_loopback(urlsplit(found).hostname or ""):
            self.report.warn(where, "keys and prompts go there unencrypted", "write https://…")
        return str(found)

    def _read_patterns(self, given: Any, where: Where) -> tuple[Pattern, ...]:
        single = isinstance(given, str)
        return tuple(
            self._read_pattern(pattern, where if single else (*where, number)) or pattern
            for number, pattern in enumerate([given] if single else given)
        )

    def _read_pattern(self, pattern: str, where: Where) -> Pattern | None:
        try:
            found = read_pattern(pattern)
            compile_pattern(found)
        except PatternError as error:
            told = (
                f"{describe_value(pattern)}, which is no regular expression here: {error.problem}"
            )
            expected = "a name, a glob, or /a regular expression/"
            self.report.add(where, told, expected, error.remedy)
            return None
        return found

    def _read_headers(self, given: Mapping[str, str], where: Where) -> dict[str, str]:
        found = {}
        for name, value in given.items():
            at = (*where, name)
            if not _HEADER.fullmatch(name):
                self.report.add(at, f"the name {name!r}", "the name of a header")
            elif name.lower() in _OURS:
                self.report.add(at, f"the header {name!r}, which the gateway writes itself")
            else:
                found[name] = self._read_secret(value, at, f"(the header {name})", spaces=True)
        return found

    def _read_keys(self, given: Mapping[str, str], where: Where) -> dict[str, str]:
        if not given:
            self.report.add(where, "no keys", "keys by their names", "leave it out for none")
        found: dict[str, str] = {}
        for name, value in given.items():
            at = (*where, name)
            if not _NAME.fullmatch(name):
                self.report.add(at, f"the name {name!r}", "letters, digits, and - _ . between them")
            before = len(self.report.problems)
            key = self._read_secret(value, at, f"(the key {name})")
            if len(self.report.problems) > before:
                continue
            if len(key) < _LEAST_KEY:
                expected = f"a key of {_LEAST_KEY} characters or more"
                self.report.add(at, f"a key of {len(key)} characters", expected)
            elif key in found.values():
                self.report.add(at, "the same key as that of another name", "each key once")
            found[name] = key
        return found

    def _read_secret(self, given: str, where: Where, shown: str, *, spaces: bool = False) -> str:
        """Read a text that goes into a header and into no message."""
        before = len(self.report.problems)
        found = str(self.environment.expand_secret(given, where)).strip()
        if len(self.report.problems) > before:
            return ""
        if len(found) >= _LEAST_SECRET:
            self.report.secrets.setdefault(found, shown)
        plain = found.isascii() and found.isprintable()
        if not found or not plain or (" " in found and not spaces):
            self.report.add(where, "a text that no header can carry", "plain letters and digits")
        return found

    def _read_prices(self, given: Any, where: Where) -> tuple[PriceConfig, ...]:
        if not isinstance(given, dict):
            expected = "prices by patterns of models' names"
            self.report.add(where, f"found {describe_value(given)}", expected)
            return ()
        found = []
        for pattern, item in given.items():
            at = (*where, pattern)
            said = read_members(item, PRICE, at, self.report)
            known = {} if item is None else item
            for key in ("input", "output") if isinstance(known, dict) else ():
                if key not in known:
                    self.report.add(at, f"`{key}` is missing", "USD for a million tokens")
            read = self._read_pattern(pattern, at)
            if read is not None and said.keys() >= {"input", "output"}:
                found.append(PriceConfig(read, **said))
        return tuple(found)


def _read_passed_path(given: str) -> PassedPath:
    found = _PASSED.fullmatch(given)
    assert found is not None  # noqa: S101 - it was checked
    return PassedPath(found[2], found[1])


def find_url_problem(url: str) -> str:
    """Return what is wrong with the address of an upstream, without showing it."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return "something that is no URL"
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "something that is no URL of the web"
    if not url.isascii() or not url.isprintable() or " " in url:
        return "a URL with letters that none may have"
    if parts.username is not None or parts.password is not None:
        return "a URL with a name or a password, which belong under `key` or `headers`"
    if parts.query or parts.fragment:
        return "a URL with a query or a fragment"
    return ""
