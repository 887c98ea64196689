"""What a file says of sessions, and of the channels on which people reach agents."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any

from checkrail.config.environment import Environment
from checkrail.config.imports import Importer, NotLoadedError
from checkrail.config.problems import Report, Where
from checkrail.config.pydantic_problems import check_model
from checkrail.config.server_keys import MappingCheck
from checkrail.config.value_checks import TEXT, Check, ValueCheck, count, flag, seconds, text, texts
from checkrail.engine.errors import CheckrailError

GROUP = "checkrail.channels"
"""The group of entry points by which types of channels are found."""


@dataclass(frozen=True, slots=True)
class SessionsConfig:
    """How long sessions last, how many there may be, and what is said where no reply may be.

    `agent` answers messages that name none. `withheld_reply` goes out where a hook refuses a
    reply, and `failed_reply` where a run failed; an empty one is none. 0 is no limit. What a hook
    asks without a time limit of its own is open for `answer_minutes`. With `from_runs`, hooks at
    the points of messages and sessions are called for runs too that bring a message.
    """

    agent: str | None = None
    idle_minutes: float = 60.0
    per_user: int = 100
    in_all: int = 0
    answer_minutes: float = 10_080.0
    end_at_shutdown: bool = False
    from_runs: bool = False
    withheld_reply: str = ""
    failed_reply: str = "Something went wrong here. Please try again."


@dataclass(frozen=True, slots=True)
class ChannelConfig:
    """A channel by the name that the project gives it: its class, and the options for that.

    Its `approvers` are ids of senders, or globs of them, who may answer what hooks ask: the
    questions stand in the conversation that they are about, or in `questions_in`. What one person
    writes within `debounce_seconds` is one message.
    """

    name: str
    type: str
    channel_class: Any
    options: Any = field(repr=False)
    agent: str | None = None
    approvers: tuple[str, ...] = ()
    questions_in: str | None = None
    debounce_seconds: float = 0.0

    def make_channel(self) -> Any:
        """Return the channel."""
        return self.channel_class(self.name, self.options)


def _is_never(value: Any) -> bool:
    return value == 0 and not isinstance(value, bool)


minutes_or_never = ValueCheck(
    "minutes, a number, 0 for never",
    lambda value: _is_never(value) or seconds.fits(value),
    {"type": "number", "minimum": 0},
)

COMMON: dict[str, Check] = {
    "type": text,
    "agent": text,
    "approvers": texts,
    "questions_in": text,
    "debounce_seconds": seconds,
}
"""Keys of every channel; the others are its type's own."""

reply_text = ValueCheck("a text, perhaps an empty one", lambda value: isinstance(value, str), TEXT)

SESSIONS = MappingCheck(
    {
        "agent": text,
        "idle_minutes": minutes_or_never,
        "per_user": count,
        "in_all": count,
        "answer_minutes": minutes_or_never,
        "end_at_shutdown": flag,
        "from_runs": flag,
        "withheld_reply": reply_text,
        "failed_reply": reply_text,
    }
)


def read_sessions(top: Mapping[str, Any], report: Report) -> SessionsConfig:
    """Read the section `sessions`; what is wrong with it is reported."""
    given = top.get("sessions")
    if given is None or not SESSIONS(given, ("sessions",), report):
        return SessionsConfig()
    return SessionsConfig(**SESSIONS.used_members(given))


def read_channels(
    top: Mapping[str, Any], environment: Environment, importer: Importer
) -> tuple[ChannelConfig, ...]:
    """Read the section `channels`; what is wrong with it is reported."""
    given, report = top.get("channels"), environment.report
    if given is None:
        return ()
    if not isinstance(given, Mapping):
        report.add(("channels",), "found something else", "channels by name")
        return ()
    found = [
        _read_channel(str(name), entry, environment, importer) for name, entry in given.items()
    ]
    return tuple(channel for channel in found if channel is not None)


def warn_of_unknown_agents(
    sessions: SessionsConfig,
    channels: Sequence[ChannelConfig],
    known: Collection[str],
    report: Report,
) -> None:
    """Warn of agents that are to answer and are not in the file; others may be made over HTTP."""
    named: dict[Where, str | None] = {("sessions", "agent"): sessions.agent}
    named |= {("channels", each.name, "agent"): each.agent for each in channels}
    for where, name in named.items():
        if name is not None and name not in known:
            hint = "until one is created over HTTP, its messages are not answered"
            report.warn(where, f"no agent of this file is called {name!r}", hint)


def _read_channel(
    name: str, entry: Any, environment: Environment, importer: Importer
) -> ChannelConfig | None:
    report, where = environment.report, ("channels", name)
    if not name.replace("-", "").replace("_", "").isalnum():
        report.add(where, f"the name {name!r}", "a name of letters, digits, - and _")
        return None
    if not isinstance(entry, Mapping):
        report.add(where, "found something else", "a mapping, as in {type: slack, agent: support}")
        return None
    own = {key: entry[key] for key in COMMON if entry.get(key) is not None}
    if not all(COMMON[key](value, (*where, key), report) for key, value in own.items()):
        return None
    kind = own.pop("type", name)
    channel_class = _find_class(kind, where, report, importer)
    if channel_class is None:
        return None
    given = {key: value for key, value in entry.items() if key not in COMMON}
    before = len(report.problems)
    said = _expand_secrets(given, where, environment)
    if len(report.problems) > before:
        return None
    model = channel_class.Options
    if not check_model(model, said, where, report):
        return None
    own["approvers"] = tuple(own.get("approvers", ()))
    return ChannelConfig(name, kind, channel_class, model.model_validate(said), **own)


def _find_class(kind: str, where: Where, report: Report, importer: Importer) -> Any:
    """Return the class of a type: one that is installed, or one in a file of the project."""
    if ":" in kind:
        return _import_class(kind, (*where, "type"), report, importer)
    known = {point.name: point for point in entry_points(group=GROUP)}
    if kind not in known:
        at = (*where, "type")
        report.add_unknown(at, "type of channel", kind, sorted(known))
        return None
    try:
        return known[kind].load()
    except CheckrailError as error:  # a package is missing
        report.add(where, str(error), "the extra of this channel")
    except Exception as error:  # noqa: BLE001 - it is somebody else's code
        problem = f"the channel type {kind!r} cannot be imported ({type(error).__name__})"
        report.add(where, problem, "a channel that can be imported", str(error))
    return None


def _import_class(path: str, where: Where, report: Report, importer: Importer) -> Any:
    try:
        found = importer.import_path(path)
    except NotLoadedError as error:
        report.add(where, error.found, error.expected, error.hint)
        return None
    if not (isinstance(found, type) and hasattr(found, "Options") and hasattr(found, "send")):
        report.add(where, f"{path!r} is no channel", "a subclass of checkrail.channels.Channel")
        return None
    return found


def _expand_secrets(value: Any, where: Where, environment: Environment) -> Any:
    """Put variables into the texts of a channel's options, which nobody but the server sees."""
    if isinstance(value, str):
        return str(environment.expand_secret(value, where))
    if isinstance(value, Mapping):
        return {
            key: _expand_secrets(item, (*where, key), environment) for key, item in value.items()
        }
    if isinstance(value, list):
        return [_expand_secrets(each, (*where, n), environment) for n, each in enumerate(value)]
    return value
