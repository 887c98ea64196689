"""The filters of the list of runs: what stands in the page's address, and what the API is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.datastructures import QueryParams

PHASES: Mapping[str, tuple[str, ...]] = {
    "running": ("running", "starting", "queued", "ready", "scheduled"),
    "waiting": ("waiting",),
    "blocked": ("blocked", "refused"),
    "failed": ("error", "timeout"),
    "success": ("success",),
    "cancelled": ("cancelled",),
    "interrupted": ("interrupted",),
}
"""What people call a status, and the phases that it has."""

WORDS: Mapping[str, str] = {
    "": "All",
    "running": "Running",
    "waiting": "Waiting",
    "blocked": "Blocked",
    "failed": "Failed",
    "success": "Success",
    "cancelled": "Cancelled",
}

HOOKS: Mapping[str, str] = {
    "any": "has hooks",
    "blocked": "hook blocked",
    "would_block": "would block",
    "changed": "changed",
    "failed": "hook failed",
    "asked": "asked a person",
}

_NAMES = ("agent", "user", "from", "to", "q", "session")


@dataclass(frozen=True, slots=True)
class Filters:
    """What a list of runs is narrowed to."""

    status: str = ""
    hooks: tuple[str, ...] = ()
    texts: Mapping[str, str] | None = None
    before: str = ""

    @classmethod
    def from_query(cls, query: QueryParams) -> Filters:
        """Read the filters of an address; what is none is left out."""
        status = query.get("status", "")
        return cls(
            status=status if status in PHASES else "",
            hooks=tuple(name for name in HOOKS if name in query.getlist("hooks")),
            texts={name: text for name in _NAMES if (text := query.get(name, "").strip())},
            before=query.get("before", ""),
        )

    @property
    def is_active(self) -> bool:
        """Whether anything is left out of the list."""
        return bool(self.status or self.hooks or self.texts)

    @property
    def is_live(self) -> bool:
        """Whether new runs would stand on this page: on the first one, unless it is a search."""
        told = self.texts or {}
        return not (self.before or told.get("q") or told.get("to"))

    def get(self, name: str) -> str:
        """Return one of the texts."""
        return (self.texts or {}).get(name, "")

    def to_params(self) -> dict[str, Any]:
        """Return the parameters of `GET /runs`, without where the page begins."""
        params = {
            "phase": [*PHASES.get(self.status, ())],
            "hooks": [*self.hooks],
            "agent_name": self.get("agent"),
            "user_id": self.get("user"),
            "session_id": self.get("session"),
            "from": _to_iso(self.get("from")),
            "to": _to_iso(self.get("to")),
            "q": self.get("q"),
        }
        return {name: value for name, value in params.items() if value}


def _to_iso(told: str) -> str:
    """Return a time with its zone; what a date field of a page says is UTC."""
    try:
        when = datetime.fromisoformat(told)
    except ValueError:
        return told
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).isoformat()
