"""Keys of the server: which there are in each section of a file, and what may stand under each."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from checkrail.config.problems import Report, Where, describe_value
from checkrail.config.value_checks import (
    MORE_THAN_0,
    TEXT,
    Check,
    ListCheck,
    Schema,
    ValueCheck,
    WordCheck,
    count,
    find_schema,
    flag,
    seconds,
    text,
    texts,
)

_TAG = re.compile(r"[\w.-]+")


def _is_tag(value: Any) -> bool:
    return isinstance(value, str) and _TAG.fullmatch(value) is not None


TAG = ValueCheck("a tag of letters, digits, - _ and .", _is_tag, TEXT)
TAGS = ListCheck(TAG, "a list of tags")
"""Tags of runners, and those that runs demand of them."""

JAVASCRIPT = (".ts", ".tsx", ".mts", ".cts", ".js", ".jsx", ".mjs", ".cjs")
_PORTS = 65_535


def _is_positive(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


positive = ValueCheck("a whole number, 1 or more", _is_positive, {"type": "integer", "minimum": 1})
port = ValueCheck(
    "a port, 1 to 65535",
    lambda value: _is_positive(value) and value <= _PORTS,
    {"type": "integer", "minimum": 1, "maximum": _PORTS},
)
seconds_or_none = ValueCheck(
    "seconds, a number, 0 for no limit",
    lambda value: count.fits(value) or seconds.fits(value),
    {"type": "number", "minimum": 0},
)
days = ValueCheck("days, a number more than 0", seconds.fits, MORE_THAN_0)
minutes = ValueCheck("minutes, a number more than 0", seconds.fits, MORE_THAN_0)


def _is_name(name: str) -> bool:
    return all(part.isidentifier() for part in name.split("."))


class ReferenceCheck:
    """A check of a text that names a Python object, which is not imported."""

    expected = "./file.py:name or package.module:name"
    schema = TEXT

    def __call__(self, value: Any, where: Where, report: Report) -> bool:
        """Report a text that can name nothing."""
        if not text(value, where, report):
            return False
        place, _, name = value.rpartition(":")
        if (place or value).endswith(JAVASCRIPT):
            found = f"{describe_value(value)}, which is no Python"
            report.add(where, found, self.expected, "graphs in JavaScript cannot be served here")
        elif not place.isprintable() or not _is_name(name) or not place:
            hint = f"write {value}:name" if value.endswith(".py") else ""
            report.add(where, f"found {describe_value(value)}", self.expected, hint)
        else:
            return True
        return False


reference = ReferenceCheck()


def allow_null(schema: Schema) -> Schema:
    """Return a schema that also allows null."""
    return {"anyOf": [schema, {"type": "null"}]}


class MappingCheck:
    """A check of a mapping with keys of its own; those in `left` are valid, but unused here."""

    def __init__(self, keys: Mapping[str, Check], left: frozenset[str] = frozenset()) -> None:
        self.keys = keys
        self.left = left

    @property
    def schema(self) -> Schema:
        """The schema of the mapping, for editors: a key without a value has its default."""
        known = {key: allow_null(find_schema(check)) for key, check in self.keys.items()}
        left = dict.fromkeys(sorted(self.left), True)
        return {"type": "object", "properties": known | left, "additionalProperties": False}

    def __call__(self, value: Any, where: Where, report: Report) -> bool:
        """Report every member that does not fit."""
        if not isinstance(value, dict):
            report.add(where, f"found {describe_value(value)}", "a mapping")
            return False
        fits = True
        for key, item in value.items():
            at = (*where, key)
            if key in self.keys:
                fits &= item is None or self.keys[key](item, at, report)
            elif key in self.left or report.foreign:
                report.note_unused(at)
            else:
                report.add_unknown(at, "key", key, self.keys)
                fits = False
        return fits

    def used_members(self, value: Mapping[str, Any]) -> dict[str, Any]:
        """Return the members that have an effect and a value."""
        return {key: value[key] for key in self.keys if value.get(key) is not None}


AUTH = MappingCheck(
    {"path": reference, "keys": flag, "user_fields": texts, "isolate": WordCheck(("owner",))},
    frozenset({"disable_studio_auth", "openapi", "cache"}),
)

CORS = MappingCheck(
    {
        **dict.fromkeys(
            ("allow_origins", "allow_methods", "allow_headers", "expose_headers"), texts
        ),
        "allow_credentials": flag,
        "allow_origin_regex": text,
        "max_age": count,
    },
)

DISABLED = (
    "assistants",
    "threads",
    "runs",
    "crons",
    "store",
    "gateway",
    "meta",
    "dashboard",
    "webhooks",
    "mcp",
    "a2a",
    "ui",
)
"""Parts of an API that a file can switch off; the last three are not there in any case."""

HTTP = MappingCheck(
    {
        "app": reference,
        "enable_custom_route_auth": flag,
        "cors": CORS,
        **{f"disable_{part}": flag for part in DISABLED},
    },
    frozenset({"configurable_headers", "logging_headers", "middleware_order", "mount_prefix"}),
)

INDEX = MappingCheck({"dims": positive, "embed": text, "fields": texts})
STORE_TTL = MappingCheck(
    {"refresh_on_read": flag, "default_ttl": minutes, "sweep_interval_minutes": minutes}
)
STORE = MappingCheck({"index": INDEX, "ttl": STORE_TTL})

CHECKPOINT_TTL = MappingCheck(
    {
        "strategy": WordCheck(("delete", "keep_latest")),
        "default_ttl": minutes,
        "sweep_interval_minutes": minutes,
        "sweep_limit": positive,
    },
)
CHECKPOINTER = MappingCheck(
    {
        "path": reference,
        "ttl": CHECKPOINT_TTL,
        "types": ListCheck(reference, "a list of types, such as ./state.py:Answer"),
    },
    frozenset({"serde"}),
)

RETENTION = MappingCheck(
    dict.fromkeys(
        (
            "runs_days",
            "stateless_days",
            "events_days",
            "records_days",
            "deliveries_days",
            "calls_days",
        ),
        days,
    )
)

APPROVALS = MappingCheck({"roles": ListCheck(WordCheck(("admin", "member")), "a list of roles")})

LIMITS = MappingCheck(
    {
        "header_bytes": count,
        **dict.fromkeys(("header_seconds", "body_seconds", "write_seconds"), seconds_or_none),
        **dict.fromkeys(
            (
                "connections_per_address",
                "live_runs_per_owner",
                "threads_per_owner",
                "agents_per_owner",
                "crons_per_owner",
                "stored_bytes_per_owner",
            ),
            count,
        ),
    }
    | dict.fromkeys(
        (
            "body_bytes",
            "event_bytes",
            "events_per_run",
            "bytes_per_run",
            "open_streams",
            "queued_per_thread",
            "runs_per_batch",
        ),
        positive,
    )
)

AGENTS_API = MappingCheck({"allow_code": flag})

SERVER = MappingCheck(
    {
        "host": text,
        "port": port,
        "capacity": positive,
        "tags": TAGS,
        **dict.fromkeys(
            (
                "lease_seconds",
                "beat_seconds",
                "cancel_grace_seconds",
                "stop_grace_seconds",
                "unclaimed_seconds",
            ),
            seconds,
        ),
        "log_level": WordCheck(("debug", "info", "warning", "error")),
    },
)

DEPENDENCIES = ListCheck(text, "a list of folders and packages")
