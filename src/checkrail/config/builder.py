"""The builder: from a section `hooks` to hooks that the engine has accepted."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from checkrail.actions.errors import ActionError
from checkrail.actions.expression import compile_expression
from checkrail.actions.expression_fields import kind_of
from checkrail.config.entries import EntryReader, HookEntry
from checkrail.config.hook_objects import (
    EXPECTED,
    Defaults,
    NoHooksError,
    apply_defaults,
    find_specs,
)
from checkrail.config.imports import Importer, NotLoadedError
from checkrail.config.problems import Report, Where, describe_value
from checkrail.config.pydantic_problems import check_model
from checkrail.config.schema import COMMON, key_owners
from checkrail.config.targets import HookTarget, build_placeholder, build_target
from checkrail.config.value_checks import describe_hook_form, is_reference, seconds, text
from checkrail.engine.errors import HookRefusedError, UnknownPointError
from checkrail.engine.hook import HookSpec, declare
from checkrail.engine.matchers import FIELDS
from checkrail.engine.points import ALIASES, FIRED_AS, HookPoint, find_places
from checkrail.engine.registry import HookRegistry
from checkrail.regex import PatternError, Regex, read_pattern

if TYPE_CHECKING:
    from checkrail.builtin import BuiltinConfigError

WRITTEN_AS = {"fn": ("path", "function", "builtin"), "background": ("background", "mode")}
"""Under which keys an option may stand in a file, where that is not the option's name."""

_OPTIONS = COMMON.keys() - {"name", "$ref", "when", "timeout_seconds", "mode"}


def build_hooks(hooks: Any, where: Where, reader: EntryReader, builder: HookBuilder) -> None:
    """Read everything under `hooks`: an object by its path, and the hooks of each point."""
    report = reader.report
    if hooks is None:
        return
    if not isinstance(hooks, dict):
        expected = "a mapping: `path`, or points and their hooks"
        hint = f"write hooks: {{path: {hooks}}}" if is_reference(hooks) else ""
        report.add(where, f"found {describe_value(hooks)}", expected, hint)
        return
    _build_object(hooks, where, reader, builder)
    points = {key: value for key, value in hooks.items() if key not in ("path", "timeout")}
    builder.add_entries([*_read_entries(points, where, reader)])


def _build_object(
    hooks: Mapping[str, Any], where: Where, reader: EntryReader, builder: HookBuilder
) -> None:
    report, at = reader.report, (*where, "path")
    timeout = hooks.get("timeout")
    if timeout is not None and not seconds(timeout, (*where, "timeout"), report):
        timeout = None
    if "path" in hooks and text(hooks["path"], at, report):
        before = len(report.problems)
        path = reader.environment.expand(hooks["path"], at)
        if len(report.problems) == before:
            builder.add_object(path, timeout, at)
    elif "timeout" in hooks and "path" not in hooks:
        hint = "defaults.timeout is for all hooks"
        found = "`timeout` without `path`"
        report.add((*where, "timeout"), found, "a `path` that it is for", hint)


def _read_entries(
    points: Mapping[str, Any], where: Where, reader: EntryReader
) -> Iterator[HookEntry]:
    for point, given in points.items():
        at = (*where, point)
        known = _check_point(point, at, reader.report)
        if given is None:
            continue
        if not isinstance(given, (dict, list)):
            expected = "a hook, or a list of hooks"
            reader.report.add(
                at, f"found {describe_value(given)}", expected, describe_hook_form(given)
            )
            continue
        items = given if isinstance(given, list) else [given]
        for number, item in enumerate(items):
            entry = reader.read(item, point, (*at, number) if isinstance(given, list) else at)
            if known:
                yield entry


def _check_point(name: str, where: Where, report: Report) -> bool:
    try:
        find_places(name)
    except UnknownPointError:
        report.add_unknown(where, "point", name, [*HookPoint, *ALIASES])
        return False
    return True


class HookBuilder:
    """Builds the hooks of one file, each under a name of its own; what fails is reported."""

    def __init__(self, report: Report, importer: Importer, defaults: Defaults, prefix: str) -> None:
        self.report = report
        self.importer = importer
        self.defaults = defaults
        self.prefix = prefix
        self.specs: dict[str, HookSpec] = {}
        self.where: dict[str, Where] = {}

    def add_object(self, reference: str, timeout: float | None, where: Where) -> None:
        """Add the hooks of a Python object."""
        defaults = dataclasses.replace(self.defaults, timeout=timeout or self.defaults.timeout)
        try:
            specs = find_specs(self.importer.import_path(reference), defaults)
            HookRegistry().swap(_number_names(specs))
        except NotLoadedError as error:
            self._add_not_loaded(where, error)
        except NoHooksError as error:
            found = f"{reference!r} is {kind_of(error.given)}"
            hint = "a function goes under its point, as in before_run: {path: …}"
            self.report.add(where, found, EXPECTED, hint if callable(error.given) else "")
        except HookRefusedError as error:
            self.report.add(where, f"hook {error.hook!r}: {error.problem}", "", error.remedy)
        else:
            for spec in _number_names(specs):
                self.specs[spec.name] = spec
                self.where[spec.name] = where

    def add_entries(self, entries: Iterable[HookEntry]) -> None:
        """Add hooks that are declared in the file itself."""
        entries = [*entries]
        taken = {entry.get("name") for entry in entries} | self.specs.keys()
        for entry in entries:
            name = entry.get("name") or _free_name(self._default_name(entry), taken)
            taken.add(name)
            spec = self._build_spec(entry, name)
            if self._claim_name(name, entry.said.find_place("name")) and spec is not None:
                self.specs[name] = spec

    def _default_name(self, entry: HookEntry) -> str:
        return f"{self.prefix}{FIRED_AS.get(entry.point, entry.point)}"

    def _claim_name(self, name: str, where: Where) -> bool:
        """Reserve a name, or report that another hook has it."""
        if name not in self.where:
            self.where[name] = where
            return True
        line = self.report.find_line(self.where[name])
        first = f"it is on line {line} already" if line else "it is there already"
        self.report.add(where, f"the name {name!r} a second time", "each name once", first)
        return False

    def _build_spec(self, entry: HookEntry, name: str) -> HookSpec | None:
        """Build a hook; one that cannot be built is still checked for everything else."""
        made = self._build_target(entry) if entry.is_valid else None
        target = made or build_placeholder(entry)
        when = self._compile_when(entry)
        options = self._build_options(entry, target) | ({} if when is None else {"when": when})
        try:
            own = FIRED_AS.get(entry.point, entry.point)
            others = (point for point in target.together if point != own)
            spec = declare(target.fn, (entry.point, *others), name, **options)
            spec = dataclasses.replace(
                apply_defaults(spec, self.defaults), when_text=entry.get("when")
            )
            HookRegistry().register(spec)
        except HookRefusedError as error:
            self._report_refused(entry, error, *error.keys)
            return None
        if target.warning:
            self.report.warn(entry.said.where, target.warning, "until then it fails as unreachable")
        return spec if made else None

    def _build_target(self, entry: HookEntry) -> HookTarget | None:
        try:
            return build_target(entry, self.importer, self.defaults)
        except NotLoadedError as error:
            self._report_not_loaded(entry, error)
        except ActionError as error:
            telling = (key for key in entry.said.at if key in key_owners())
            self._report_refused(entry, error, *filter(None, (error.key,)), *telling)
        except Exception as error:  # noqa: BLE001 - one hook that cannot be made hides no other
            self._report_not_built(entry, error)
        return None

    def _report_not_built(self, entry: HookEntry, error: Exception) -> None:
        from checkrail.builtin import BuiltinConfigError  # slow, and most files have no such hook

        if isinstance(error, BuiltinConfigError):
            self._report_wrong_config(entry, error)
            return
        found = f"the hook cannot be made: {type(error).__name__}: {error}"
        self.report.add(entry.said.find_place("config"), found)

    def _report_not_loaded(self, entry: HookEntry, error: NotLoadedError) -> None:
        where = entry.said.find_place(*error.keys)
        if entry.get("optional"):
            hint = error.hint or f"expected {error.expected}"
            self.report.warn(where, f"left out, for it is optional: {error.found}", hint)
        else:
            self._add_not_loaded(where, error)

    def _add_not_loaded(self, where: Where, error: NotLoadedError) -> None:
        add = self.report.add_shared if error.broken else self.report.add
        add(where, error.found, error.expected, error.hint)

    def _report_wrong_config(self, entry: HookEntry, error: BuiltinConfigError) -> None:
        where = entry.said.find_place("config")
        if "config" not in entry.said.at:
            where = (*where, "config")
        from checkrail.builtin import BUILTINS

        model = BUILTINS[error.hook].config_model
        if check_model(model, entry.get("config", {}), where, self.report):
            self.report.add((*where, error.key), f"found {error.found}", error.expected)

    def _report_refused(
        self, entry: HookEntry, error: HookRefusedError | ActionError, *keys: str
    ) -> None:
        """Report what the engine or an action refused, at the first of some keys that is there."""
        places = [place for key in keys for place in WRITTEN_AS.get(key, (key,))]
        self.report.add(entry.said.find_place(*places), error.problem, "", error.remedy)

    def _compile_when(self, entry: HookEntry) -> Any:
        text = entry.get("when")
        if text is None:
            return None
        try:
            return compile_expression(text, (entry.point,))
        except ActionError as error:
            self.report.add(entry.said.find_place("when"), error.problem, "", error.remedy)
            return None

    def _build_options(self, entry: HookEntry, target: HookTarget) -> dict[str, Any]:
        line = self.report.find_line(entry.said.where)
        options: dict[str, Any] = {
            "source": self.report.file if line is None else f"{self.report.file}:{line}",
            "target_type": target.type,
            "target_name": target.name,
        }
        for key in ("lane", "decisions", "redacts", "restores", "observes"):
            if known := getattr(target, key):
                options[key] = known
        for key in ("timeout", "on_error"):
            if (known := getattr(target, key)) is not None and getattr(self.defaults, key) is None:
                options[key] = known
        options |= {key: value for key, value in entry.said.keys.items() if key in _OPTIONS}
        options |= {key: self._read_patterns(entry, key) for key in FIELDS if key in options}
        return options | _mode_options(entry.said.keys)

    def _read_patterns(self, entry: HookEntry, key: str) -> list[str | Regex]:
        """Read the patterns of a matcher; an invalid one is reported."""
        given, where = entry.get(key), entry.said.find_place(key)
        found: list[str | Regex] = []
        for number, pattern in enumerate([given] if isinstance(given, str) else given):
            try:
                found.append(read_pattern(pattern))
            except PatternError as error:
                at = where if isinstance(given, str) else (*where, number)
                told = f"{describe_value(pattern)} is no pattern here: {error.problem}"
                self.report.add(at, told, "", error.remedy)
                found.append("*")  # so that everything else about the hook is checked too
        return found


def _mode_options(keys: Mapping[str, Any]) -> dict[str, Any]:
    if keys.get("mode") == "async":
        return {"background": True}
    return {"mode": keys["mode"]} if "mode" in keys else {}


def _number_names(specs: Iterable[HookSpec]) -> list[HookSpec]:
    """Number hooks without a name of their own whose default names are the same."""
    found: dict[str, HookSpec] = {}
    for spec in specs:
        name = spec.name if spec.named else _free_name(spec.name, found)
        if name in found:
            remedy = "Names are unique at their level: rename one of them"
            raise HookRefusedError(name, "there are two hooks of that name", remedy, "name")
        found[name] = dataclasses.replace(spec, name=name)
    return [*found.values()]


def _free_name(name: str, taken: Iterable[str]) -> str:
    taken = set(taken)
    number = 1
    free = name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free
