"""Reading what a file says of the server."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from checkrail.config.environment import Environment
from checkrail.config.problems import Report, Where, describe_value
from checkrail.config.server import (
    AgentsApiConfig,
    ApprovalsConfig,
    AuthConfig,
    CheckpointerConfig,
    HttpConfig,
    LimitsConfig,
    OutboundConfig,
    RetentionConfig,
    ServerConfig,
    StoreConfig,
)
from checkrail.config.server_keys import (
    AGENTS_API,
    APPROVALS,
    AUTH,
    CHECKPOINTER,
    CORS,
    DEPENDENCIES,
    DISABLED,
    HTTP,
    INDEX,
    LIMITS,
    RETENTION,
    SERVER,
    STORE,
    STORE_TTL,
    MappingCheck,
)
from checkrail.config.settings import read_folder
from checkrail.config.value_checks import check_secret, text, texts
from checkrail.engine.errors import CheckrailError

DATABASE_URL = "CHECKRAIL_DATABASE_URL"
DATA_DIR = "CHECKRAIL_DATA_DIR"
_DATABASES = ("postgresql", "postgres", "sqlite")
_EXPECTED = "postgresql://user:password@host/name or sqlite:///file"
_LEAST_SECRET = 8
_DEFAULT = ServerConfig()
_IMPORTING = ("graphs", "agents", "auth", "http", "dependencies")
OUTBOUND = MappingCheck({"allow": texts, "webhook_secret": check_secret})


class ServerReader:
    """Reads the server's keys of one file; what is wrong with them is reported."""

    def __init__(self, environment: Environment, base: Path) -> None:
        self.report: Report = environment.report
        self.environment = environment
        self.base = base

    def read(
        self, top: Mapping[str, Any], env: Mapping[str, str], *, imports: bool = False
    ) -> ServerConfig:
        """Read everything; what is not configured is as `ServerConfig` has it.

        A project whose agents have files of their own `imports` too, whatever stands in its file.
        """
        folders, packages = self._read_dependencies(top.get("dependencies"))
        imports |= not top.keys().isdisjoint(_IMPORTING)
        return ServerConfig(
            **self._read_server(top),
            database=self._read_database(top),
            data_dir=self._read_data_dir(top.get("data_dir")),
            auth=self._read_auth(top),
            http=self._read_http(top),
            store=self._read_store(top),
            checkpointer=self._read_checkpointer(top),
            retention=RetentionConfig(**self._read_section("retention", RETENTION, top)),
            outbound=self._read_outbound(top),
            limits=LimitsConfig(**self._read_section("limits", LIMITS, top)),
            agents_api=AgentsApiConfig(**self._read_section("agents_api", AGENTS_API, top)),
            approvals=self._read_approvals(top),
            env=env,
            import_path=tuple(dict.fromkeys((*folders, self.base))) if imports else (),
            packages=packages,
        )

    def _read_section(
        self, name: str, members: MappingCheck, top: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Return the keys of a section, or nothing if something in it is wrong."""
        given = top.get(name)
        if given is None or not members(given, (name,), self.report):
            return {}
        return members.used_members(given)

    def _read_server(self, top: Mapping[str, Any]) -> dict[str, Any]:
        said = self._read_section("server", SERVER, top)
        lease = said.get("lease_seconds", _DEFAULT.lease_seconds)
        beat = said.get("beat_seconds", _DEFAULT.beat_seconds)
        if beat * 2 > lease:
            found = f"a beat every {beat:g} seconds for a lease of {lease:g}"
            hint = "a lease has to outlast a beat that was missed"
            self.report.add(("server",), found, "a lease of two beats or more", hint)
        return {**said, "tags": tuple(said.get("tags") or ())}

    def _read_auth(self, top: Mapping[str, Any]) -> AuthConfig | None:
        if top.get("auth") is None:
            return None
        before = len(self.report.problems)
        said = self._read_section("auth", AUTH, top)
        auth = AuthConfig(**said | {"user_fields": tuple(said.get("user_fields") or ())})
        if len(self.report.problems) == before and bool(auth.path) == auth.keys:
            found = "both `path` and `keys`" if auth.path else "`path` is missing"
            self.report.add(("auth",), found, "path: ./auth.py:auth, or keys: true")
        return auth

    def _read_http(self, top: Mapping[str, Any]) -> HttpConfig:
        said = self._read_section("http", HTTP, top)
        off = frozenset(part for part in DISABLED if said.pop(f"disable_{part}", False))
        if said.get("enable_custom_route_auth") and "app" not in said:
            self.report.warn(
                ("http", "enable_custom_route_auth"), "there is no `app` that it is for"
            )
        return HttpConfig(**_keep_used_members(said, "cors", CORS), disabled=off)

    def _read_store(self, top: Mapping[str, Any]) -> StoreConfig:
        said = self._read_section("store", STORE, top)
        missing = [
            key for key in ("dims", "embed") if key not in said.get("index", ("dims", "embed"))
        ]
        for key in missing:
            self.report.add(("store", "index"), f"`{key}` is missing", "`dims` and `embed`")
        said = _keep_used_members(said, "index", INDEX)
        return StoreConfig(**_keep_used_members(said, "ttl", STORE_TTL))

    def _read_outbound(self, top: Mapping[str, Any]) -> OutboundConfig:
        said = self._read_section("outbound", OUTBOUND, top)
        for number, item in enumerate(said.get("allow", ())):
            self._check_address(item, ("outbound", "allow", number))
        given = said.get("webhook_secret")
        return OutboundConfig(
            allow=tuple(said.get("allow", ())),
            webhook_secret=None if given is None else self._read_webhook_secret(given),
        )

    def _read_checkpointer(self, top: Mapping[str, Any]) -> CheckpointerConfig:
        said = self._read_section("checkpointer", CHECKPOINTER, top)
        return CheckpointerConfig(**{**said, "types": tuple(said.get("types", ()))})

    def _read_approvals(self, top: Mapping[str, Any]) -> ApprovalsConfig:
        said = self._read_section("approvals", APPROVALS, top)
        roles = said.get("roles", _DEFAULT.approvals.roles)
        return ApprovalsConfig(tuple(dict.fromkeys(("admin", *roles))))

    def _check_address(self, item: str, where: Where) -> None:
        from checkrail.actions.allowlist import AllowList

        try:
            AllowList([item])
        except (CheckrailError, ValueError) as error:
            hint = getattr(error, "remedy", "")
            self.report.add(where, f"found {describe_value(item)}", "a host or a network", hint)

    def _read_webhook_secret(self, given: str) -> str | None:
        from checkrail.actions.signatures import parse_secret

        where = ("outbound", "webhook_secret")
        before = len(self.report.problems)
        found = self.environment.expand_secret(given, where)
        if len(self.report.problems) > before:
            return None
        self.report.secrets.setdefault(found, "(the webhook secret)")
        try:
            parse_secret(found)
        except (CheckrailError, ValueError) as error:
            problem = getattr(error, "problem", "a text that cannot be a key")
            remedy = getattr(error, "remedy", "")
            self.report.add(where, problem, "a secret to sign with", remedy)
        return found

    def _read_database(self, top: Mapping[str, Any]) -> str | None:
        where: Where = ("database",)
        given = top.get("database")
        if DATABASE_URL in os.environ and os.environ[DATABASE_URL].strip():
            return self._check_url(os.environ[DATABASE_URL], (), DATABASE_URL)
        if given is None:
            return None
        if not isinstance(given, str) or not given.strip():
            self.report.add(where, "found something else", _EXPECTED)
            return None
        before = len(self.report.problems)
        url = self.environment.expand_secret(given, where)
        if len(self.report.problems) > before:
            return None
        return self._check_url(url, where, "a database")

    def _check_url(self, url: str, where: Where, what: str) -> str | None:
        """Keep a URL out of all messages, and refuse one of an unknown kind of database."""
        url = url.strip()
        self.report.secrets.setdefault(url, "(the database)")
        try:
            parts = urlsplit(url)
            self._hide_password(parts)
        except ValueError:
            self.report.add(where, f"{what} by something that is no URL", _EXPECTED)
            return None
        if parts.scheme.partition("+")[0] not in _DATABASES:
            scheme = f"a URL of {parts.scheme!r}" if "://" in url else "something that is no URL"
            self.report.add(where, f"{what} by {scheme}", _EXPECTED)
            return None
        return url

    def _hide_password(self, parts: SplitResult) -> None:
        """Keep a password out of messages, but not a word that is in them for other reasons."""
        for password in {parts.password or "", unquote(parts.password or "")} - {""}:
            self.report.secrets.setdefault(f":{password}@", ":(the password)@")
            rest = (parts.scheme, parts.username, parts.hostname, parts.path)
            if len(password) >= _LEAST_SECRET and not any(
                password in (word or "") for word in rest
            ):
                self.report.secrets.setdefault(password, "(the password)")

    def _read_data_dir(self, given: Any) -> Path:
        where: Where = ("data_dir",)
        default = self.base / _DEFAULT.data_dir
        if os.environ.get(DATA_DIR, "").strip():
            return Path(os.environ[DATA_DIR]).absolute()
        if given is None or not text(given, where, self.report):
            return default
        return read_folder(given, where, self.base, self.report) or default

    def _read_dependencies(self, given: Any) -> tuple[list[Path], tuple[str, ...]]:
        """Return the folders that are named, and the packages."""
        where = "dependencies"
        if given is None or not DEPENDENCIES(given, (where,), self.report):
            return [], ()
        folders: list[Path] = []
        for number, item in enumerate(given):
            if item.startswith((".", "/")):
                folders += self._local_folders(item, (where, number))
        packages = tuple(item for item in given if not item.startswith((".", "/")))
        return folders, packages

    def _local_folders(self, given: str, where: Where) -> list[Path]:
        """Return the folders of a local package: itself, and `src` in it."""
        folder = read_folder(given, where, self.base, self.report)
        if folder is None:
            return []
        if not folder.is_dir():
            self.report.warn(where, "a folder that does not exist", "nothing is imported from it")
            return []
        inner = folder / "src"
        return [folder, inner] if inner.is_dir() else [folder]


def _keep_used_members(said: dict[str, Any], key: str, members: MappingCheck) -> dict[str, Any]:
    """Drop the keys of an inner mapping that have no effect."""
    return {**said, key: members.used_members(said[key])} if key in said else said
