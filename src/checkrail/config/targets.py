"""Targets: what the hooks of a file call, imported or made."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkrail.actions import ActionError, load, load_function
from checkrail.actions.agent import UNSERVED
from checkrail.actions.outside import Outside
from checkrail.config.entries import Entry, fields_of
from checkrail.config.modules import dotted_name, importable, is_local
from checkrail.config.objects import Defaults
from checkrail.config.schema import is_off, new_name, renames
from checkrail.engine.errors import suggestion
from checkrail.engine.event import Event
from checkrail.engine.hook import Hook
from checkrail.engine.points import CONTRACTS, Decision, Lane, places

BUILTIN_MODULE = "checkrail.builtin"
REFUSING = frozenset({Decision.BLOCK, Decision.ASK, Decision.FAIL})
CLOSED = frozenset({"redact", "retry"})
"""Rules that are no gates, and yet must not let pass what they could not judge."""
_TOLD_BY = ("path", "builtin", "agent_name", "url", "command")
_OUTSIDE = frozenset({"http", "agent"})
"""Types that call others: while such a hook is off, nothing that it needs has to be there."""


class NotLoadedError(Exception):
    """What a hook calls is not there; `keys` say where in the entry that was said.

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
class Target:
    """What a hook calls, and what is known of it."""

    fn: Hook | Callable[..., Any]
    name: str
    type: str = "python"
    decisions: frozenset[Decision] | None = None
    lane: str | None = None
    on_error: str | None = None
    redacts: bool = False
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

    def path(self, reference: str) -> Any:
        """Import what `./file.py:name` or `package.module:name` names."""
        where = reference.rpartition(":")[0]
        check_name(where, "path")
        if not (where.endswith(".py") or "/" in where):
            self._note(where)
            return self._imported(lambda: load(reference, self.base), where, "path")
        try:
            file = (self.base / where).resolve()
            self.files.add(file)
            return self._imported(lambda: self._from_file(reference, file), where, "path")
        except (OSError, ValueError) as error:
            found = f"{reference!r}, which names no file: {error}"
            raise NotLoadedError(found, "./file.py:name", "", "path") from None

    def _from_file(self, reference: str, file: Path) -> Any:
        named = dotted_name(file, [root.resolve() for root in self.roots])
        if named is None:
            return load(reference, self.base)
        name, folder = named
        with importable((), (folder,)):
            if not _is_module_of(name, file):
                return load(reference, self.base)
            return load(f"{name}:{reference.rpartition(':')[2]}", self.base)

    def function(self, module: str, function: str) -> Any:
        """Import a function by its module and its name."""
        check_name(module, "module")
        self._note(module)
        return self._imported(lambda: load_function(module, function, self.base), module, "module")

    def _note(self, module: str) -> None:
        try:
            found = importlib.util.find_spec(module)
        except (Exception, SystemExit):  # noqa: BLE001 - parents are imported, and may do anything
            return
        if found is not None and found.origin is not None and found.origin.endswith(".py"):
            file = Path(found.origin).resolve()
            if is_local(module, file):
                self.files.add(file)

    def _imported(self, imported: Callable[[], Any], module: str, key: str) -> Any:
        """Import something; a module that broke is not run again, for it may break otherwise."""
        try:
            if module in self.broken:
                raise self.broken[module]
            return imported()
        except ActionError as error:
            cause = error.__cause__
            if cause is not None:
                self.broken[module] = error
            lacking = cause.name if isinstance(cause, ModuleNotFoundError) else None
            hint = _renamed(lacking or "") or error.remedy
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


def check_name(module: str, key: str) -> None:
    """Refuse a module under the name that it has elsewhere."""
    if new := new_name(module):
        found = f"the module {module!r}, which has another name here"
        raise NotLoadedError(found, repr(new), f"rename it to {new}", key)


def _renamed(package: str) -> str:
    known = [f"{old} is {new} here" for old, new in renames(package).items()] if package else []
    return f"rename it: {', '.join(known)}" if known else ""


def target_of(entry: Entry, importer: Importer, defaults: Defaults) -> Target:
    """Make what a hook of a file calls, or raise `NotLoadedError` or `ActionError`."""
    if entry.type == "builtin":
        return _builtin(entry, importer, str(entry.get("builtin")), "builtin")
    if entry.type == "python":
        return _python(entry, importer)
    return _action(entry, importer, defaults)


def reference_of(entry: Entry) -> str:
    """Name what a hook calls, without importing it."""
    keys = entry.said.keys
    if "module" in keys and "function" in keys:
        return f"{keys['module']}:{keys['function']}"
    told = next((keys[key] for key in _TOLD_BY if key in keys), entry.type)
    first = told[0] if isinstance(told, list) and told else told
    return str(getattr(first, "written", first))


def stand_in(entry: Entry) -> Target:
    """Return what takes the place of a hook that is not to be called."""
    return Target(_never, reference_of(entry), entry.type)


def _never(_event: Event[Any]) -> None:
    """Do nothing, for this is never called."""


def _python(entry: Entry, importer: Importer) -> Target:
    path, module, function = (entry.get(key) for key in ("path", "module", "function"))
    if module == BUILTIN_MODULE:
        return _builtin(entry, importer, function, "function")
    if is_off(entry.said.keys):
        check_name(path.rpartition(":")[0] if path else module, "path" if path else "module")
        return stand_in(entry)
    found = importer.path(path) if path else importer.function(module, function)
    if not isinstance(found, Hook) and callable(found):
        found = _adapted(entry, found)
    return Target(found, reference_of(entry))


def _adapted(entry: Entry, fn: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function that takes a `HookContext` be called with one."""
    from checkrail.styles.proxy import EVENTS, adapt, is_proxy_hook

    if not is_proxy_hook(fn):
        return fn
    if any(place.point not in EVENTS for place in places(entry.point)):
        found = f"a function that takes a HookContext, which {entry.point} has not"
        raise NotLoadedError(found, f"one of: {', '.join(EVENTS)}", "", "function", "path")
    return adapt(fn)


def _builtin(entry: Entry, importer: Importer, name: str, key: str) -> Target:
    from checkrail.builtin import BUILTINS

    if name not in BUILTINS:
        expected = f"one of: {', '.join(BUILTINS)}"
        near = suggestion(name, BUILTINS).strip(" ()")
        raise NotLoadedError(f"unknown built-in hook {name!r}", expected, near, key)
    builtin = BUILTINS[name]
    if any(place.point in builtin.observes for place in places(entry.point)):
        found = f"{name} under {entry.point}, where it only looks on"
        raise NotLoadedError(found, f"it under {builtin.points[0]}", "", key)
    config = entry.get("config", {})
    importer.files |= builtin.named_files(config, importer.base)
    fn = builtin.make(config, base=importer.base, outside=importer.outside)
    lane = None if _in_background(entry) else builtin.lane
    redacts = name == "redact"
    on_error = _closed(entry) if redacts else None
    together = builtin.points if builtin.together else ()
    return Target(
        fn,
        name,
        lane=lane,
        on_error=on_error,
        redacts=redacts,
        together=together,
        observes=builtin.observes,
    )


def _in_background(entry: Entry) -> bool:
    return entry.get("background") is True or entry.get("mode") == "async"


def _action(entry: Entry, importer: Importer, defaults: Defaults) -> Target:
    from checkrail.actions import ACTION_TYPES

    action = ACTION_TYPES[entry.type]
    if entry.type in _OUTSIDE and is_off(entry.said.keys):
        return stand_in(entry)
    fields = fields_of(entry.said.keys, action.fields, defaults)
    warning = UNSERVED if action.served and not importer.outside.serving else ""
    if importer.allow is not None and isinstance(url := fields.get("url"), str):
        warning = _place_warning(url, importer.allow, importer.outside)
    own = action.fields.model_fields.get("timeout_seconds")
    fn, decisions = action.build(
        fields,
        (entry.point,),
        importer.base,
        outside=importer.outside,
        timeout=entry.get("timeout", defaults.timeout),
        signer=() if _is_lent(entry, importer) else importer.signer,
    )
    return Target(
        fn,
        reference_of(entry),
        entry.type,
        decisions,
        lane=_lane(entry, decisions),
        on_error=_closed(entry) if fields.keys() & CLOSED else None,
        redacts="redact" in fields,
        timeout=own.default if own else None,
        warning=warning,
    )


def _place_warning(url: str, allow: Sequence[str], outside: Outside) -> str:
    """Raise `ActionError` if no request may go to a URL; return what is said of this machine."""
    from checkrail.actions.allowlist import AllowList
    from checkrail.actions.destinations import destination
    from checkrail.actions.outbound_errors import OutboundRefused

    if outside.outbound is not None:
        outside.outbound.check(url)
        return ""
    where = destination(url)
    AllowList(allow, dev=True).check(where)
    try:
        AllowList(allow).check(where)
    except OutboundRefused as error:
        return "" if outside.serving else f"{error.problem}; `checkrail dev` alone allows it"
    return ""


def _is_lent(entry: Entry, importer: Importer) -> bool:
    """Whether the place that a hook calls was named by the project, and not by the agent."""
    section, *names = entry.said.at.get("url", ("",))
    return section == "definitions" and names[0] in importer.lent


def _lane(entry: Entry, decisions: frozenset[Decision] | None) -> str | None:
    """Give a rule its lane: one that can only refuse is a gate, so that it fails closed."""
    if decisions is None or _in_background(entry):
        return None
    has_gates = all(Lane.GATE in CONTRACTS[place.point].lanes for place in places(entry.point))
    return Lane.GATE if decisions <= REFUSING and has_gates else None


def _closed(entry: Entry) -> str | None:
    """Return `block` where a point can block: what a failed hook was to stop must not pass."""
    able = all(CONTRACTS[place.point].block for place in places(entry.point))
    return "block" if able and entry.get("lane") != Lane.OBSERVE else None
