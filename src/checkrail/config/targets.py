"""Targets: what the hooks of a file call, imported or made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkrail.actions.agent import UNSERVED
from checkrail.actions.errors import ActionError, about_key
from checkrail.actions.outside import Outside
from checkrail.actions.paths import Path as FieldPath
from checkrail.actions.paths import relative_path
from checkrail.config.entries import HookEntry, action_fields
from checkrail.config.hook_objects import Defaults
from checkrail.config.imports import Importer, NotLoadedError, check_module_name
from checkrail.config.schema import is_off
from checkrail.engine.errors import suggestion
from checkrail.engine.event import Event
from checkrail.engine.hook import Hook
from checkrail.engine.points import CONTRACTS, Decision, Lane, find_places
from checkrail.llm.walk import path_of

BUILTIN_MODULE = "checkrail.builtin"
REFUSING = frozenset({Decision.BLOCK, Decision.ASK, Decision.FAIL})
CLOSED = frozenset({"redact", "retry"})
"""Rules that are no gates, and yet must not let pass what they could not judge."""
_TOLD_BY = ("path", "builtin", "agent_name", "url", "command")
_OUTSIDE = frozenset({"http", "agent"})
"""Types that call others: while such a hook is off, nothing that it needs has to be there."""


@dataclass(frozen=True, slots=True)
class HookTarget:
    """What a hook calls, and what is known of it."""

    fn: Hook | Callable[..., Any]
    name: str
    type: str = "python"
    decisions: frozenset[Decision] | None = None
    lane: str | None = None
    on_error: str | None = None
    redacts: bool = False
    restores: bool = False
    timeout: float | None = None
    warning: str = ""
    together: tuple[str, ...] = ()
    observes: frozenset[str] = frozenset()


def build_target(entry: HookEntry, importer: Importer, defaults: Defaults) -> HookTarget:
    """Build what a hook of a file calls, or raise `NotLoadedError` or `ActionError`."""
    if entry.type == "builtin":
        return _build_builtin(entry, importer, str(entry.get("builtin")), "builtin")
    if entry.type == "python":
        return _build_python(entry, importer)
    return _build_action(entry, importer, defaults)


def describe_reference(entry: HookEntry) -> str:
    """Return the name of what a hook calls, without importing it."""
    keys = entry.said.keys
    if "module" in keys and "function" in keys:
        return f"{keys['module']}:{keys['function']}"
    told = next((keys[key] for key in _TOLD_BY if key in keys), entry.type)
    first = told[0] if isinstance(told, list) and told else told
    return str(getattr(first, "written", first))


def build_placeholder(entry: HookEntry) -> HookTarget:
    """Return what takes the place of a hook that is not to be called."""
    return HookTarget(_do_nothing, describe_reference(entry), entry.type)


def _do_nothing(_event: Event[Any]) -> None:
    """Do nothing, for this is never called."""


def _build_python(entry: HookEntry, importer: Importer) -> HookTarget:
    path, module, function = (entry.get(key) for key in ("path", "module", "function"))
    if module == BUILTIN_MODULE:
        return _build_builtin(entry, importer, function, "function")
    if is_off(entry.said.keys):
        check_module_name(path.rpartition(":")[0] if path else module, "path" if path else "module")
        return build_placeholder(entry)
    found = importer.import_path(path) if path else importer.import_function(module, function)
    if not isinstance(found, Hook) and callable(found):
        found = _adapt_function(entry, found)
    return HookTarget(found, describe_reference(entry))


def _adapt_function(entry: HookEntry, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that can be called with a `HookContext`, if it takes one.

    Its annotation says so; without one, an entry as proxies write them: a module and a function
    under one of their events.
    """
    from checkrail.styles.proxy import EVENTS, HookEvent, adapt, is_proxy_hook

    is_entry_of_proxy = entry.get("module") is not None and entry.point in [*HookEvent]
    if not is_proxy_hook(fn, unless_annotated=is_entry_of_proxy):
        return fn
    if any(place.point not in EVENTS for place in find_places(entry.point)):
        found = f"a function that takes a HookContext, which {entry.point} has not"
        raise NotLoadedError(found, f"one of: {', '.join(EVENTS)}", "", "function", "path")
    return adapt(fn)


def _check_fields(entry: HookEntry, fields: Sequence[str] | None) -> None:
    """Refuse a field that no value of the point has."""
    for text in fields or ():
        for place in find_places(entry.point):
            try:
                relative_path(FieldPath(text, path_of(text), rooted=False), CONTRACTS[place.point])
            except ActionError as error:
                raise NotLoadedError(
                    f"`fields`: {error.problem}", "", error.remedy, "config"
                ) from None


def _build_builtin(entry: HookEntry, importer: Importer, name: str, key: str) -> HookTarget:
    from checkrail.builtin import BUILTINS

    if name not in BUILTINS:
        expected = f"one of: {', '.join(BUILTINS)}"
        near = suggestion(name, BUILTINS).strip(" ()")
        raise NotLoadedError(f"unknown built-in hook {name!r}", expected, near, key)
    builtin = BUILTINS[name]
    if any(place.point in builtin.observes for place in find_places(entry.point)):
        found = f"{name} under {entry.point}, where it only looks on"
        raise NotLoadedError(found, f"it under {builtin.points[0]}", "", key)
    config = entry.get("config", {})
    importer.files |= builtin.named_files(config, importer.base)
    fn = builtin.make(config, base=importer.base, outside=importer.outside)
    lane = None if _runs_in_background(entry) else builtin.lane
    redacts = name == "redact"
    _check_fields(entry, config.get("fields") if redacts else None)
    on_error = _closed_on_error(entry) if builtin.closed else None
    together = builtin.points if builtin.together else ()
    agent = config[builtin.runs_agent] if builtin.runs_agent else None
    return HookTarget(
        fn,
        agent or name,
        "agent" if agent else "python",
        lane=lane,
        on_error=on_error,
        redacts=redacts,
        restores=redacts and _restores(entry, config),
        together=together,
        observes=builtin.observes,
        warning=UNSERVED if agent and not importer.outside.serving else "",
    )


def _restores(entry: HookEntry, options: Any) -> bool:
    """Return whether a redaction is to be taken back, which an agent's own loop cannot do."""
    restores = isinstance(options, Mapping) and options.get("restore") is not None
    if restores and entry.said.where[:1] == ("agents",):
        found = "`restore` among the hooks of an agent, where nothing is put back"
        raise NotLoadedError(found, "it under `hooks`, for the gateway", "", "redact", "config")
    return restores


def _runs_in_background(entry: HookEntry) -> bool:
    return entry.get("background") is True or entry.get("mode") == "async"


def _build_action(entry: HookEntry, importer: Importer, defaults: Defaults) -> HookTarget:
    from checkrail.actions.types import ACTION_TYPES

    action = ACTION_TYPES[entry.type]
    if entry.type in _OUTSIDE and is_off(entry.said.keys):
        return build_placeholder(entry)
    fields = action_fields(entry.said.keys, action.fields, defaults)
    warning = UNSERVED if action.served and not importer.outside.serving else ""
    if importer.allow is not None and isinstance(url := fields.get("url"), str):
        with about_key("url"):
            warning = _place_warning(url, importer.allow, importer.outside)
    own = action.fields.model_fields.get("timeout_seconds")
    fn, decisions = action.build(
        fields,
        (entry.point,),
        importer.base,
        outside=importer.outside,
        timeout=entry.get("timeout", defaults.timeout),
        signer=() if _is_lent_by_project(entry, importer) else importer.signer,
    )
    return HookTarget(
        fn,
        describe_reference(entry),
        entry.type,
        decisions,
        lane=_choose_lane(entry, decisions),
        on_error=_closed_on_error(entry) if fields.keys() & CLOSED else None,
        redacts="redact" in fields,
        restores=_restores(entry, fields.get("redact")),
        timeout=own.default if own else None,
        warning=warning,
    )


def _place_warning(url: str, allow: Sequence[str], outside: Outside) -> str:
    """Raise `ActionError` if no request may go to a URL; return what is said of this machine."""
    from checkrail.actions.allowlist import AllowList
    from checkrail.actions.destinations import parse_destination
    from checkrail.actions.errors import OutboundRefused

    if outside.outbound is not None:
        outside.outbound.check(url)
        return ""
    where = parse_destination(url)
    AllowList(allow, dev=True).check(where)
    try:
        AllowList(allow).check(where)
    except OutboundRefused as error:
        return "" if outside.serving else f"{error.problem}; `checkrail dev` alone allows it"
    return ""


def _is_lent_by_project(entry: HookEntry, importer: Importer) -> bool:
    """Return whether the address that a hook calls comes from the project, not the agent."""
    section, *names = entry.said.at.get("url", ("",))
    return section == "definitions" and names[0] in importer.lent


def _choose_lane(entry: HookEntry, decisions: frozenset[Decision] | None) -> str | None:
    """Return the lane of a rule: one that can only refuse is a gate, so that it fails closed."""
    if decisions is None or _runs_in_background(entry):
        return None
    has_gates = all(Lane.GATE in CONTRACTS[place.point].lanes for place in find_places(entry.point))
    return Lane.GATE if decisions <= REFUSING and has_gates else None


def _closed_on_error(entry: HookEntry) -> str | None:
    """Return `block` where a point can block, so that a failed hook lets nothing pass."""
    able = all(CONTRACTS[place.point].block for place in find_places(entry.point))
    return "block" if able and entry.get("lane") != Lane.OBSERVE else None
