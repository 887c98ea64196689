"""What a hook is: a function, the points where it stands, and how it is to be treated."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypedDict, cast

from checkrail.engine.callables import annotation_of, callable_name, callable_source
from checkrail.engine.errors import HookRefusedError, suggestion
from checkrail.engine.event import NO_CONFIG, Context, Event
from checkrail.engine.frozen import freeze
from checkrail.engine.matchers import FIELDS, Pattern, compile_pattern, list_patterns
from checkrail.engine.outcomes import Outcome
from checkrail.engine.points import CONTRACTS, Decision, HookPoint, Lane, Place, find_places

if TYPE_CHECKING:
    from datetime import timedelta
    from enum import Enum

LaneName = Literal["transform", "gate", "observe"]
OnError = Literal["continue", "ignore", "block"]
FailureKind = Literal["error", "timeout", "unreachable", "invalid"]
OnErrors = OnError | Mapping[FailureKind, OnError]
Mode = Literal["enforce", "shadow", "off"]
Answer = Outcome | None
When = Callable[..., Any]
Patterns = Pattern | Iterable[Pattern]

FAILURE_KINDS = ("error", "timeout", "unreachable", "invalid")
DEFAULT_TIMEOUT = 5.0
DEFAULT_PRIORITY = 100
DEFAULT_MAX_RETRIES = 3
DEFAULT_WINDOW = 256
STREAMS = re.compile(r"whole|window(?::([1-9]\d{0,6}))?")

_BEHAVIOURS = {"continue": "continue", "ignore": "continue", "block": "block"}
_FAILURE_MODES = {"failopen": "continue", "failclosed": "block"}


@dataclass(frozen=True, slots=True, kw_only=True)
class HookSpec:
    """One hook as it was declared, checked and with its defaults filled in.

    `observes` are those of its points where it only looks on, at what became of what it let pass
    elsewhere: its lane, its matchers and its `when` hold at its other points.
    """

    name: str
    fn: Callable[..., Any]
    places: tuple[Place, ...]
    named: bool = True
    lane: Lane | None = None
    priority: int = DEFAULT_PRIORITY
    match: Mapping[str, tuple[Pattern, ...]] = field(default_factory=dict)
    when: When | None = None
    when_text: str | None = None
    timeout: float = DEFAULT_TIMEOUT
    on_error: Mapping[str, str] = field(default_factory=dict)
    mode: Mode = "enforce"
    max_retries: int = DEFAULT_MAX_RETRIES
    background: bool = False
    optional: bool = False
    thread: bool = False
    stream: str = "whole"
    config: Mapping[str, Any] = field(default_factory=lambda: NO_CONFIG)
    source: str = "code"
    target_type: str = "python"
    target_name: str = ""
    decisions: frozenset[Decision] | None = None
    redacts: bool = False
    restores: bool = False
    observes: frozenset[str] = frozenset()
    said: frozenset[str] = frozenset()

    @property
    def window(self) -> int | None:
        """How many characters of a stream it has to see ahead; None if it needs the whole."""
        found = STREAMS.fullmatch(self.stream)
        return None if found is None or self.stream == "whole" else int(found[1] or DEFAULT_WINDOW)

    @property
    def on_error_text(self) -> str:
        """What was said about failures, in one word where one will do."""
        said = set(self.on_error.values())
        if len(self.on_error) == len(FAILURE_KINDS) and len(said) == 1:
            return said.pop()
        return ", ".join(f"{kind}: {what}" for kind, what in self.on_error.items()) or "default"


class Hook:
    """Subclass it to write a hook as a class.

    `execute(event)` is called at every point in `points`. With a second parameter it gets the
    value there, or, if that parameter is annotated `Context`, the ids that the event belongs to.
    Its name, its points (`points` or `hook_points`) and its options are attributes, properties,
    or methods without parameters, which are called once, when it is registered.
    """

    name: str | Callable[[], str] = ""
    points: Iterable[str] | Callable[[], Iterable[str]] = ()
    lane: LaneName | Callable[[], LaneName | None] | None = None
    priority: int | Callable[[], int] = DEFAULT_PRIORITY
    timeout: float | timedelta | Callable[[], float | timedelta | None] | None = DEFAULT_TIMEOUT
    on_error: OnErrors | Callable[[], OnErrors | None] | None = None
    failure_mode: str | Enum | Callable[[], str | Enum | None] | None = None
    mode: Mode | Callable[[], Mode] | None = None
    hook_options: ClassVar[Mapping[str, Any]] = {}

    execute: Callable[..., Answer | Awaitable[Answer]]


class HookOptions(TypedDict, total=False):
    """How a hook is to be treated; what is not said has a default."""

    lane: LaneName | Lane | None
    priority: int
    tools: Patterns
    agents: Patterns
    models: Patterns
    users: Patterns
    channels: Patterns
    tags: Patterns
    when: Callable[..., Any] | None
    timeout: float | timedelta | None
    timeout_seconds: float
    on_error: OnError | Mapping[FailureKind, OnError] | None
    failure_mode: str | Enum
    mode: Mode
    enabled: bool
    max_retries: int
    background: bool
    optional: bool
    thread: bool
    stream: str
    config: Mapping[str, Any]
    source: str
    target_type: str
    target_name: str
    decisions: frozenset[Decision] | None
    redacts: bool
    restores: bool
    observes: frozenset[str]


OPTIONS = frozenset(HookOptions.__annotations__)

FAILURE_WORDS = frozenset({"on_error", "failure_mode"})
"""The options that say what a failure does."""

TAKEN_OVER = (
    "priority",
    "when",
    "max_retries",
    "background",
    "optional",
    "thread",
    "stream",
    "target_type",
    "decisions",
    "redacts",
    "restores",
    "observes",
)
"""The options that a `HookSpec` takes as they were said."""


def declare(
    hook: Hook | Callable[..., Any],
    points: Iterable[str],
    name: str | None = None,
    **options: Any,
) -> HookSpec:
    """Read what somebody registers into a `HookSpec`, or refuse it.

    A callable may carry what holds unless said: `hook_points` and `hook_options`; and in
    `hook_reads(config)` the types of the values that it reads, if it cannot stand anywhere else.
    The `hook_options` of a class are those of its style, which nobody has said.
    """
    own_name, own_points, own_options = _own_declaration(hook, options)
    given = name or own_name
    said = {**own_options, **options}
    options = {**hook.hook_options, **said} if isinstance(hook, Hook) else said
    fn = _class_call(hook, given) if isinstance(hook, Hook) else hook
    _check_callable(given, fn)
    fn = _given_context(fn)
    _check_options(given, options)
    found = _once(place for point in tuple(points) or own_points for place in find_places(point))
    if not found:
        raise HookRefusedError(given, "it names no point", "Name at least one, such as before_run")
    _check_readable(given, hook, found, options)
    return HookSpec(
        name=given,
        named=bool(name) or isinstance(hook, Hook),
        fn=fn,
        places=found,
        match=_match(given, options),
        timeout=_timeout(given, options),
        on_error=_on_error(given, options),
        mode=_mode(given, options),
        lane=_lane(given, options),
        config=freeze(options.get("config") or {}),
        source=options.get("source") or callable_source(fn),
        target_name=options.get("target_name") or own_name,
        said=frozenset(said),
        **{key: options[key] for key in TAKEN_OVER if key in options},
    )


def _own_declaration(
    hook: Hook | Callable[..., Any],
    said: Mapping[str, Any],
) -> tuple[str, tuple[str, ...], Mapping[str, Any]]:
    """Return the name, the points and the options that a hook brings along itself."""
    if isinstance(hook, Hook):
        name = _attribute(hook, "name") or type(hook).__name__
        if not isinstance(name, str):
            remedy = "Give a text, as an attribute or from a method without parameters"
            raise HookRefusedError(type(hook).__name__, f"its name is {name!r}", remedy)
        return name, _class_points(hook), _class_options(hook)
    options: Mapping[str, Any] = getattr(hook, "hook_options", {})
    if said.get("background"):  # which stands in a lane of its own
        options = {key: value for key, value in options.items() if key != "lane"}
    return callable_name(hook), tuple(getattr(hook, "hook_points", ())), options


def _once(found: Iterable[Place]) -> tuple[Place, ...]:
    """Leave out a point that is named again under another name."""
    kept: list[Place] = []
    for place in found:
        told = [other.guard for other in kept if other.point is place.point]
        if None not in told and place.guard not in told:
            kept.append(place)
    return tuple(kept)


def _class_options(hook: Hook) -> dict[str, Any]:
    said = {key: _attribute(hook, key) for key in OPTIONS if hasattr(hook, key)}
    return {key: value for key, value in said.items() if value is not getattr(Hook, key, None)}


def _class_points(hook: Hook) -> tuple[str, ...]:
    points = _attribute(hook, "points") or _attribute(hook, "hook_points") or ()
    return (points,) if isinstance(points, str) else tuple(points)


def _attribute(hook: Hook, key: str) -> Any:
    """Return what a hook says of itself, by an attribute or by a method of that name."""
    found = getattr(hook, key, None)
    return found() if callable(found) and key != "when" else found


def _class_call(hook: Hook, name: str) -> Callable[..., Any]:
    execute: Callable[..., Any] | None = getattr(hook, "execute", None)
    if execute is None:
        remedy = "Define `async def execute(self, event)`"
        raise HookRefusedError(name, "its class has no execute method", remedy, "fn")
    return execute


def _given_context(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a callable that gives the ids to a second parameter that is annotated `Context`."""
    try:
        parameters = [*inspect.signature(fn).parameters.values()]
    except (TypeError, ValueError):
        return fn
    second = parameters[1] if len(parameters) > 1 else None
    if second is None or second.kind is second.KEYWORD_ONLY:
        return fn
    if not _is_context(annotation_of(fn, second)):
        return fn

    async def with_context(event: Event[Any]) -> Answer:
        answer: Any = fn(event, event.context)
        if inspect.isawaitable(answer):
            answer = await answer
        return cast("Answer", answer)

    vars(with_context)["func"] = fn  # as a partial has it: what is called is shown
    return with_context


def _is_context(annotation: Any) -> bool:
    if isinstance(annotation, str):  # of a name that only a type checker imports
        return annotation.strip("'\"").rpartition(".")[2] == Context.__name__
    return annotation is Context


def _check_callable(name: str, fn: Any) -> None:
    if not callable(fn):
        problem = f"it is {type(fn).__name__}, which cannot be called"
        raise HookRefusedError(name, problem, "Give a function, a callable object or a Hook", "fn")
    if isinstance(fn, type):
        remedy = f"Give an instance: {fn.__name__}()"
        raise HookRefusedError(name, "it is a class, not an instance", remedy, "fn")
    if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
        raise HookRefusedError(
            name, "it is a generator", "Return the decision, do not yield it", "fn"
        )


def _check_readable(
    name: str, hook: Any, found: Iterable[Place], options: Mapping[str, Any]
) -> None:
    """Refuse a hook at a point whose value it says that it cannot read."""
    types_read = getattr(hook, "hook_reads", None)
    reads: tuple[type, ...] = () if types_read is None else types_read(options.get("config") or {})
    readable = [point for point in HookPoint if issubclass(CONTRACTS[point].value, reads)]
    for place in found if reads else ():
        if place.point not in readable:
            types = " or ".join(kind.__name__ for kind in reads)
            carried = CONTRACTS[place.point].value
            carries = "data of any shape" if carried is object else carried.__name__
            problem = f"it reads {types}, but {place.point} carries {carries}"
            remedy = f"Register it at {', '.join(readable)}"
            raise HookRefusedError(name, problem, remedy, "fn")


def _check_options(name: str, options: Mapping[str, Any]) -> None:
    for key in options:
        if key not in OPTIONS:
            problem = f"there is no option {key!r}{suggestion(key, OPTIONS)}"
            raise HookRefusedError(name, problem, f"Options are: {', '.join(sorted(OPTIONS))}", key)
    when = options.get("when")
    if when is not None and not callable(when):
        remedy = "Give a callable, or register through Hooks or a file, where CEL is at hand"
        raise HookRefusedError(name, f"`when` is {type(when).__name__}", remedy, "when")
    stream = options.get("stream", "whole")
    if not isinstance(stream, str) or not STREAMS.fullmatch(stream):
        remedy = "Say whole, window, or window:N for N characters"
        raise HookRefusedError(name, f"its stream is {stream!r}", remedy, "stream")
    for key, least in (("max_retries", 0), ("priority", None)):
        number = options.get(key, 0)
        if not isinstance(number, int) or (least is not None and number < least):
            raise HookRefusedError(name, f"{key} is {number!r}", "Give a whole number", key)


def _match(name: str, options: Mapping[str, Any]) -> dict[str, tuple[Pattern, ...]]:
    found = {key: list_patterns(options[key]) for key in FIELDS if options.get(key) is not None}
    for key, given in found.items():
        if not given:
            remedy = "Name one, or leave it out to match everything"
            raise HookRefusedError(name, f"`{key}` is empty, and would never match", remedy, key)
        for pattern in given:
            try:
                compile_pattern(pattern)
            except (re.error, TypeError, AttributeError) as error:
                problem = f"{pattern!r} in `{key}` is no pattern: {error}"
                remedy = "Give a glob, or a regular expression between slashes"
                raise HookRefusedError(name, problem, remedy, key) from None
    return found


def _timeout(name: str, options: Mapping[str, Any]) -> float:
    given = options.get("timeout_seconds", options.get("timeout", DEFAULT_TIMEOUT))
    if given is None:
        return float("inf")
    if hasattr(given, "total_seconds"):
        given = given.total_seconds()
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not given > 0:
        remedy = "Give seconds, more than 0, or None for no limit"
        raise HookRefusedError(name, f"its timeout is {given!r}", remedy, "timeout")
    return float(given)


def _on_error(name: str, options: Mapping[str, Any]) -> dict[str, str]:
    given = options.get("on_error")
    if given is None and options.get("failure_mode") is not None:
        mode = str(getattr(options["failure_mode"], "name", options["failure_mode"]))
        given = _FAILURE_MODES.get(mode.lower().replace("_", "").replace("-", ""), mode)
    if given is None:
        return {}
    said = given if isinstance(given, Mapping) else dict.fromkeys(FAILURE_KINDS, given)
    for kind, what in said.items():
        if kind not in FAILURE_KINDS or what not in _BEHAVIOURS:
            problem = f"on_error has {kind}: {what!r}"
            remedy = f"Say continue or block, for all or for each of {', '.join(FAILURE_KINDS)}"
            raise HookRefusedError(name, problem, remedy, "on_error")
    return {kind: _BEHAVIOURS[what] for kind, what in said.items()}


def _mode(name: str, options: Mapping[str, Any]) -> Mode:
    mode = options.get("mode", "enforce")
    if mode not in ("enforce", "shadow", "off"):
        raise HookRefusedError(name, f"its mode is {mode!r}", "Say enforce, shadow or off", "mode")
    return mode if options.get("enabled", True) else "off"


def _lane(name: str, options: Mapping[str, Any]) -> Lane | None:
    lane = options.get("lane")
    if lane is None:
        return Lane.OBSERVE if options.get("background") else None
    try:
        return Lane(lane)
    except ValueError:
        remedy = f"The lanes are: {', '.join(Lane)}"
        raise HookRefusedError(name, f"there is no lane {lane!r}", remedy, "lane") from None
