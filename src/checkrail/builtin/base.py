"""What built-in hooks share: how one is made from checked options, and how it reads names."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from checkrail.builtin.counters import CounterSource
from checkrail.builtin.errors import first_problem
from checkrail.engine.errors import InvalidOutcomeError
from checkrail.engine.event import Event
from checkrail.engine.frozen import thaw
from checkrail.engine.matchers import check_name, compile_pattern
from checkrail.engine.points import HookPoint, Lane
from checkrail.engine.values import Session
from checkrail.regex import read_pattern

if TYPE_CHECKING:
    from checkrail.builtin.options import Options
    from checkrail.styles.hook_context import HookContext


T = TypeVar("T")

Made = Callable[..., Any]
"""A hook that is ready to be registered: it takes `(event, value)`."""

KEPT = 256


class SummaryWriter(Protocol):
    """Has an agent sum up a session, and keeps what it wrote in the session's metadata."""

    async def __call__(
        self,
        agent_name: str,
        instructions: str,
        event: Event[Session],
        *,
        max_characters: int,
        timeout: float,
    ) -> None:
        """Run the agent on the end of the conversation; not if there is a summary already."""


class SummarySource(Protocol):
    """Whoever has the writer of a project's summaries, or has none yet."""

    @property
    def summaries(self) -> SummaryWriter | None:
        """Who writes summaries; None: there is no server."""


class Services(CounterSource, SummarySource, Protocol):
    """What hooks use of the project that they are in."""


@dataclass(frozen=True, slots=True)
class Builtin:
    """A ready hook: what it does, where it stands unless said, and how it is made.

    `example` is a config that `make` accepts. One that stands `together` needs all its points; at
    those that it `observes` it only looks on. `files` are options that name one. One that `counts`
    is built with what its project counts in, and so is one that `runs_agent`, which is the option
    that names the agent. It stands where the value is one of those that it
    `reads`, or anywhere; some options narrow that (`reads_with`). In a file, a failure of one that
    is `closed` blocks unless said.
    """

    name: str
    summary: str
    points: tuple[HookPoint, ...]
    lane: Lane
    build: Callable[..., Made]
    example: Mapping[str, Any]
    together: bool = False
    observes: frozenset[HookPoint] = frozenset()
    files: tuple[str, ...] = ()
    counts: bool = False
    runs_agent: str = ""
    closed: bool = False
    reads: tuple[type, ...] = ()
    reads_with: Mapping[str, tuple[type, ...]] = field(default_factory=dict)
    _made: dict[int, tuple[Mapping[str, Any], Made]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    @property
    def config_model(self) -> type[Options]:
        """The pydantic model of its config."""
        from checkrail.builtin.options import MODELS

        return MODELS[self.name]

    def parse_options(self, config: Mapping[str, Any] | None = None) -> Options:
        """Check a config, and return it with its defaults filled in."""
        from pydantic import ValidationError

        try:
            return self.config_model.model_validate({} if config is None else thaw(config))
        except ValidationError as error:
            raise first_problem(self.name, self.config_model, error) from None

    def lane_at(self, point: HookPoint) -> Lane:
        """Return the lane in which it stands at one of its points."""
        return Lane.OBSERVE if point in self.observes else self.lane

    def make(
        self,
        config: Mapping[str, Any] | None = None,
        *,
        base: Path | None = None,
        outside: Services | None = None,
    ) -> Made:
        """Build the hook, or refuse its config.

        Files are looked for in `base`; what is counted is counted in what `outside` has for that,
        and agents are run by it.
        """
        options = self.parse_options(config)
        if base is not None:
            named = {name: getattr(options, name) for name in self.files}
            found = {name: str(base / file) for name, file in named.items() if file is not None}
            options = options.model_copy(update=found)
        is_served = self.counts or self.runs_agent
        made = self.build(options, outside) if is_served else self.build(options)
        types = self.types_read(config or {})
        vars(made)["hook_reads"] = lambda _config: types
        return made

    def types_read(self, config: Mapping[str, Any]) -> tuple[type, ...]:
        """Return the types of values that the hook reads with a config; none: any."""
        narrowed = [types for option, types in self.reads_with.items() if option in config]
        return narrowed[0] if narrowed else self.reads

    def named_files(self, config: Mapping[str, Any], base: Path) -> set[Path]:
        """Return the files that a config names, whether or not they are there."""
        named = (config.get(name) for name in self.files)
        return {(base / file).resolve() for file in named if isinstance(file, str)}

    def hook_for(self, event: Event[Any]) -> Made:
        """Return the hook for the config that an event carries; it is built once for each."""
        config = event.config
        with self._lock:
            known = self._made.pop(id(config), None) or (config, self.make(config))
            self._made[id(config)] = known
            if len(self._made) > KEPT:
                del self._made[next(iter(self._made))]
        return known[1]

    async def on_context(self, ctx: HookContext) -> HookContext:
        """Return a proxy's context as the hook leaves it; its options are in `hook_config`."""
        from checkrail.styles.hook_chain import HookChain

        chain = HookChain()
        made = self.make(ctx.metadata.get("hook_config"))
        chain.registry.register(made, *self.points, name=self.name, lane=self.lane)
        return await chain.execute(ctx)

    def expect_value(self, event: Event[Any], value: Any, kind: type[T]) -> T:
        """Return the value if the hook reads its type, else raise that it is at a wrong point."""
        if isinstance(value, kind):
            return value
        places = ", ".join(self.points)
        message = (
            f"built-in hook {self.name!r} reads a {kind.__name__}, but {event.point} carries "
            f"a {type(value).__name__}: register it at {places}"
        )
        raise InvalidOutcomeError(message)


def any_of(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Return a test whether a name matches one of these; a glob matches it from end to end."""
    tests = [compile_pattern(read_pattern(pattern)) for pattern in patterns]

    def matches(name: str) -> bool:
        check_name(name)
        return any(test(name) for test in tests)

    return matches


LONGEST = 100


def text_of(content: Any, between: str = " ") -> str:
    """Return the text of a message's content: the content itself, or its parts that are texts."""
    if isinstance(content, (list, tuple)):
        parts = [part.get("text") if isinstance(part, Mapping) else part for part in content]
        return between.join(part for part in parts if isinstance(part, str))
    return "" if content is None else str(content)


def on_one_line(name: str) -> str:
    """Return a name that somebody else chose so that it cannot pass for more than a name."""
    shown = name if len(name) <= LONGEST else f"{name[:LONGEST]}..."
    return shown if shown.isprintable() else repr(shown)[1:-1]
