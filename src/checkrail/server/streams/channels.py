"""Channels: which envelopes somebody wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkrail.server.streams.errors import ProtocolError

CHANNELS = (
    "values",
    "updates",
    "messages",
    "tools",
    "lifecycle",
    "input",
    "checkpoints",
    "tasks",
    "custom",
)
"""Every channel; `custom:NAME` is a part of `custom`."""

_WATCHED = frozenset({"lifecycle", "input"})

MAX_NAMESPACES = 1000
"""Namespaces that one subscription may list."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A filter over a thread's envelopes. Without namespaces it takes those of every graph."""

    channels: frozenset[str]
    namespaces: tuple[tuple[str, ...], ...] = ()
    depth: int | None = None
    since: int | None = None

    @classmethod
    def parse(cls, body: Any) -> Subscription:
        """Parse what a client sent; what does not fit is an `invalid_argument`."""
        if not isinstance(body, Mapping):
            raise ProtocolError("invalid_argument", "a subscription is an object with `channels`")
        return cls(
            channels=_parse_channels(body.get("channels")),
            namespaces=_parse_namespaces(body.get("namespaces")),
            depth=_parse_count("depth", body.get("depth")),
            since=_parse_count("since", body.get("since")),
        )

    @property
    def is_watcher(self) -> bool:
        """Whether this is a client's watcher, which learns from it how runs end."""
        return self.since is None and "input" in self.channels and not self._has_content

    @property
    def comes_late(self) -> bool:
        """Whether a page shows by it what a run did, which it may open when the run is over."""
        return self.since is None and "input" in self.channels and self._has_content

    @property
    def _has_content(self) -> bool:
        return not self.channels <= _WATCHED

    def wants(self, envelope: Mapping[str, Any]) -> bool:
        """Return whether an envelope is to be sent."""
        if self.since is not None and envelope["seq"] <= self.since:
            return False
        channel = channel_of(envelope)
        if channel not in self.channels and not (
            "custom" in self.channels and channel.startswith("custom:")
        ):
            return False
        return self.covers(envelope["params"]["namespace"])

    def covers(self, namespace: Sequence[str]) -> bool:
        """Whether a namespace is among the wanted ones, or not too deep below one of them."""
        if not self.namespaces:
            return True
        return any(
            _is_under(namespace, prefix)
            and (self.depth is None or len(namespace) - len(prefix) <= self.depth)
            for prefix in self.namespaces
        )


def channel_of(envelope: Mapping[str, Any]) -> str:
    """Name the channel that an envelope belongs to."""
    method: str = envelope["method"]
    if method == "input.requested":
        return "input"
    if method == "custom":
        name = envelope["params"]["data"].get("name")
        return f"custom:{name}" if name else "custom"
    return method


def _is_under(namespace: Sequence[str], prefix: Sequence[str]) -> bool:
    """Return whether a namespace is below a prefix; a segment may stand for all its tasks."""
    return len(prefix) <= len(namespace) and all(
        given == wanted or (":" not in wanted and given.partition(":")[0] == wanted)
        for given, wanted in zip(namespace, prefix, strict=False)
    )


def _parse_channels(given: Any) -> frozenset[str]:
    if not isinstance(given, list) or not given:
        message = f"`channels` is a list of at least one of {', '.join(CHANNELS)}, custom:NAME"
        raise ProtocolError("invalid_argument", message)
    for channel in given:
        if not isinstance(channel, str) or not _is_channel(channel):
            message = f"there is no channel {channel!r}; choose from {', '.join(CHANNELS)}"
            raise ProtocolError("invalid_argument", f"{message}, custom:NAME")
    return frozenset(given)


def _is_channel(name: str) -> bool:
    return name in CHANNELS or (name.startswith("custom:") and name != "custom:")


def _parse_namespaces(given: Any) -> tuple[tuple[str, ...], ...]:
    if given is None:
        return ()
    if not isinstance(given, list) or not all(map(_is_namespace, given)):
        message = '`namespaces` is a list of lists of text, as [["child"], []]'
        raise ProtocolError("invalid_argument", message)
    if len(given) > MAX_NAMESPACES:
        message = f"{len(given)} namespaces in one subscription; at most {MAX_NAMESPACES}"
        raise ProtocolError("invalid_argument", message)
    return tuple(dict.fromkeys(map(tuple, given)))


def _is_namespace(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(segment, str) for segment in given)


def _parse_count(name: str, given: Any) -> int | None:
    if given is None:
        return None
    if type(given) is not int or given < 0:
        message = f"`{name}` is a whole number from 0 on, not {given!r}"
        raise ProtocolError("invalid_argument", message)
    return given
