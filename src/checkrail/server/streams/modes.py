"""Stream modes: what a client may ask for, and what a graph has to be run with for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

STREAM_MODES = (
    "values",
    "messages",
    "updates",
    "events",
    "tasks",
    "checkpoints",
    "debug",
    "custom",
    "messages-tuple",
    "tools",
    "lifecycle",
)
"""What a run's stream can be asked for."""

THREAD_MODES = ("run_modes", "lifecycle", "state_update")
"""What a thread's stream can be asked for."""

PROTOCOL_MODES = (
    "values",
    "updates",
    "messages",
    "custom",
    "tasks",
    "checkpoints",
    "tools",
)
"""What a graph has to be run with, subgraphs included, so that every channel can be served."""

_NATIVE = {
    "messages-tuple": "messages",
    "lifecycle": "tasks",  # the life of subgraphs is read from the tasks that hold them
}


class StreamModeError(ValueError):
    """A stream was requested in a mode that does not exist."""

    def __init__(self, unknown: Sequence[str], known: Sequence[str]) -> None:
        self.unknown = tuple(unknown)
        self.known = tuple(known)
        super().__init__(unknown, known)

    def __str__(self) -> str:
        asked = ", ".join(map(repr, self.unknown))
        return f"there is no stream mode {asked}; choose from {', '.join(self.known)}"


def parse_stream_modes(asked: str | Iterable[str] | None) -> tuple[str, ...]:
    """Check the modes that were requested for a run's stream; `values` by default."""
    return _check_modes(asked, STREAM_MODES, default="values")


def parse_thread_modes(asked: str | Iterable[str] | None) -> tuple[str, ...]:
    """Check the modes that were requested for a thread's stream; `run_modes` by default."""
    return _check_modes(asked, THREAD_MODES, default="run_modes")


def graph_modes(modes: Iterable[str] | None) -> list[str]:
    """Return the modes of `graph.astream` that serve these; `lifecycle` needs subgraphs as well."""
    wanted = (_NATIVE.get(mode, mode) for mode in parse_stream_modes(modes))
    return [*dict.fromkeys(mode for mode in wanted if mode != "events")]


def wants_events(modes: Iterable[str] | None) -> bool:
    """Whether the run has to go through `graph.astream_events`."""
    return "events" in parse_stream_modes(modes)


def wants_subgraphs(modes: Iterable[str] | None, *, subgraphs: bool) -> bool:
    """Whether the graph has to be run with its subgraphs' events."""
    return subgraphs or "lifecycle" in parse_stream_modes(modes)


def _check_modes(
    asked: str | Iterable[str] | None, known: Sequence[str], *, default: str
) -> tuple[str, ...]:
    given = (asked,) if isinstance(asked, str) else tuple(asked or (default,))
    unknown = [mode for mode in given if mode not in known]
    if unknown:
        raise StreamModeError(unknown, known)
    return tuple(dict.fromkeys(given))
