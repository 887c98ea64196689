"""Targets: what the hooks of a file call, imported or made."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkrail.actions.agent import UNSERVED
from checkrail.actions.errors import ActionError, about_key
from checkrail.actions.outside import Outside
from checkrail.actions.paths import Path as FieldPath
from checkrail.actions.paths import relative_path
from checkrail.actions.python import load, load_function
from checkrail.config.entries import HookEntry, action_fields
from checkrail.config.hook_objects import Defaults
from checkrail.config.modules import (
    dotted_name,
    extend_search_path,
    is_local,
    name_types_by_path,
)
from checkrail.config.schema import find_module_rename, find_renames, is_off
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


class NotLoadedError(Exception):
    """What a hook calls is not there; `keys` are the keys of the entry that name it.

    A `broken` module is one problem, however many hooks are in it.
    """

    def __init__(
        self,
        found: str,
        expected: str = "",
        hint: str = "",
        *keys: str,
        broken: bool = False,
    ) -> None:
        self.found = found
        self.expected = expected
        self.hint = hint
        self.keys = keys
        self.broken = broken
        super().__init__(found)


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


@dataclass(slots=True)
class Importer:
    """Imports what a file names, and remembers which files that were.

    A Python file in a package, or below one of the `roots`, is imported as a part of that package.
    `outside` is what hooks of services and agents are made with; `allow` are the places that the
    file lists for them. What an agent that a request made sends to places of its own is signed as
    its `signer`'s; `lent` are the definitions that are not.
    """

    base: Path
    roots: Sequence[Path] = ()
    outside: Outside = field(default_factory=Outside)
    files: set[Path] = field(default_factory=set)
    broken: dict[str, ActionError] = field(default_factory=dict)
    allow: tuple[str, ...] | None = None
    signer: tuple[str, ...] = ()
    lent: frozenset[str] = frozenset()

    def import_path(self, reference: str) -> Any:
        """Import what `./file.py:name` or `package.module:name` names."""
        where = reference.rpartition(":")[0]
        check_module_name(where, "path")
        if not (where.endswith(".py") or "/" in where):
            self._add_file(where)
            return self._run_import(lambda: load(reference, self.base), where, "path")
        try:
            file = (self.base / where).resolve()
            self.files.add(file)
            return self._run_import(lambda: self._from_file(reference, file), where, "path")
        except (OSError, ValueError) as error:
            found = f"{reference!r}, which names no file: {error}"
            raise NotLoadedError(found, "./file.py:name", "", "path") from None

    def _from_file(self, reference: str, file: Path) -> Any:
        named = dotted_name(file, [root.resolve() for root in self.roots])
        if named is None:
            return load(reference, self.base)
        name, folder = named
        with extend_search_path((), (folder,)):
            if not _is_module_of(name, file):
                return load(reference, self.base)
            found = load(f"{name}:{reference.rpartition(':')[2]}", self.base)
        base = self.base.resolve()
        if folder in base.parents:
            name_types_by_path(name.partition(".")[0], base)
        return found

    def import_function(self, module: str, function: str) -> Any:
        """Import a function by its module and its name."""
        check_module_name(module, "module")
        self._add_file(module)
        return self._run_import(
            lambda: load_function(module, function, self.base), module, "module"
        )

    def _add_file(self, module: str) -> None:
        try:
            found = importlib.util.find_spec(module)
        except (Exception, SystemExit):  # noqa: BLE001 - parents are imported, and may do anything
            return
        if found is not None and found.origin is not None and found.origin.endswith(".py"):
            file = Path(found.origin).resolve()
            if is_local(module, file):
                self.files.add(file)

    def _run_import(self, imported: Callable[[], Any], module: str, key: str) -> Any:
        """Import something; a module that failed is not run again, for it may fail otherwise."""
        try:
            if module in self.broken:
                raise self.broken[module]
            return imported()
        except ActionError as error:
            cause = error.__cause__
            if cause is not None:
                self.broken[module] = error
            lacking = cause.name if isinstance(cause, ModuleNotFoundError) else None
            hint = _describe_renames(lacking or "") or error.remedy
            broken = cause is not None
            raise NotLoadedError(error.problem, "", hint, key, "function", broken=broken) from error


def _is_module_of(name: str, file: Path) -> bool:
    """Return whether a name leads to a file, and not to something else that is called the same."""
    try:
        found = importlib.util.find_spec(name)
    except (Exception, SystemExit):  # noqa: BLE001 - the import itself is to say what is wrong
        return True
    origin = found.origin if found is not None else None
    return origin is not None and Path(origin).resolve() == file


def check_module_name(module: str, key: str) -> None:
    """Refuse a module under the name that it has in another server."""
    if new := find_module_rename(module):
        found = f"the module {module!r}, which has another name here"
        raise NotLoadedError(found, repr(new), f"rename it to {new}", key)


def _describe_renames(package: str) -> str:
    known = (
        [f"{old} is {new} here" for old, new in find_renames(package).items()] if package else []
    )
    return f"rename it: {', '.join(known)}" if known else ""


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
