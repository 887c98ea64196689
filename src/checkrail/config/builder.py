"""The builder: from the entries of a file to hooks that the engine has accepted."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from checkrail.actions import ActionError, compile_expression
from checkrail.actions.fields import kind_of
from checkrail.config.entries import Entry
from checkrail.config.models import check_model
from checkrail.config.objects import EXPECTED, Defaults, NoHooksError, specs_of, with_defaults
from checkrail.config.problems import Report, Where, described
from checkrail.config.schema import COMMON, owners
from checkrail.config.targets import Importer, NotLoadedError, Target, stand_in, target_of
from checkrail.engine.errors import HookRefusedError
from checkrail.engine.hook import HookSpec, declare
from checkrail.engine.matchers import FIELDS
from checkrail.engine.points import FIRED_AS
from checkrail.engine.registry import HookRegistry
from checkrail.regex import PatternError, Regex, read_pattern

if TYPE_CHECKING:
    from checkrail.builtin import BuiltinConfigError

_OPTIONS = COMMON.keys() - {"name", "$ref", "when", "timeout_seconds", "mode"}


class Builder:
    """Makes the hooks of one file, each under a name of its own; what fails is reported."""

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
            specs = specs_of(self.importer.path(reference), defaults)
            HookRegistry().swap(_renamed(specs))
        except NotLoadedError as error:
            self._add_not_loaded(where, error)
        except NoHooksError as error:
            found = f"{reference!r} is {kind_of(error.given)}"
            hint = "a function goes under its point, as in before_run: {path: …}"
            self.report.add(where, found, EXPECTED, hint if callable(error.given) else "")
        except HookRefusedError as error:
            self.report.add(where, f"hook {error.hook!r}: {error.problem}", "", error.remedy)
        else:
            for spec in _renamed(specs):
                self.specs[spec.name] = spec
                self.where[spec.name] = where

    def add_entries(self, entries: Iterable[Entry]) -> None:
        """Add hooks that are declared in the file itself."""
        entries = [*entries]
        taken = {entry.get("name") for entry in entries} | self.specs.keys()
        for entry in entries:
            name = entry.get("name") or _free(self._unnamed(entry), taken)
            taken.add(name)
            spec = self._spec(entry, name)
            if self._claim(name, entry.said.place("name")) and spec is not None:
                self.specs[name] = spec

    def _unnamed(self, entry: Entry) -> str:
        return f"{self.prefix}{FIRED_AS.get(entry.point, entry.point)}"

    def _claim(self, name: str, where: Where) -> bool:
        """Take a name, or report that another hook has it."""
        if name not in self.where:
            self.where[name] = where
            return True
        line = self.report.line(self.where[name])
        first = f"it is on line {line} already" if line else "it is there already"
        self.report.add(where, f"the name {name!r} a second time", "each name once", first)
        return False

    def _spec(self, entry: Entry, name: str) -> HookSpec | None:
        """Make a hook; one that cannot be made is still checked for everything else."""
        made = self._target(entry) if entry.sound else None
        target = made or stand_in(entry)
        when = self._when(entry)
        options = self._options(entry, target) | ({} if when is None else {"when": when})
        try:
            own = FIRED_AS.get(entry.point, entry.point)
            others = (point for point in target.together if point != own)
            spec = declare(target.fn, (entry.point, *others), name, **options)
            spec = dataclasses.replace(
                with_defaults(spec, self.defaults), when_text=entry.get("when")
            )
            HookRegistry().register(spec)
        except HookRefusedError as error:
            self._refused(entry, error.problem, error.remedy)
            return None
        if target.warning:
            self.report.warn(entry.said.where, target.warning, "until then it fails as unreachable")
        return spec if made else None

    def _target(self, entry: Entry) -> Target | None:
        try:
            return target_of(entry, self.importer, self.defaults)
        except NotLoadedError as error:
            self._not_loaded(entry, error)
        except ActionError as error:
            telling = (key for key in entry.said.at if key in owners())
            self._refused(entry, error.problem, error.remedy, *telling)
        except Exception as error:  # noqa: BLE001 - one hook that cannot be made hides no other
            self._not_made(entry, error)
        return None

    def _not_made(self, entry: Entry, error: Exception) -> None:
        from checkrail.builtin import BuiltinConfigError  # slow, and most files have no such hook

        if isinstance(error, BuiltinConfigError):
            self._wrong_config(entry, error)
            return
        found = f"the hook cannot be made: {type(error).__name__}: {error}"
        self.report.add(entry.said.place("config"), found)

    def _not_loaded(self, entry: Entry, error: NotLoadedError) -> None:
        where = entry.said.place(*error.keys)
        if entry.get("optional"):
            hint = error.hint or f"expected {error.expected}"
            self.report.warn(where, f"left out, for it is optional: {error.found}", hint)
        else:
            self._add_not_loaded(where, error)

    def _add_not_loaded(self, where: Where, error: NotLoadedError) -> None:
        add = self.report.add_shared if error.broken else self.report.add
        add(where, error.found, error.expected, error.hint)

    def _wrong_config(self, entry: Entry, error: BuiltinConfigError) -> None:
        where = entry.said.place("config")
        if "config" not in entry.said.at:
            where = (*where, "config")
        from checkrail.builtin import BUILTINS

        model = BUILTINS[error.hook].config_model
        if check_model(model, entry.get("config", {}), where, self.report):
            self.report.add((*where, error.key), f"found {error.found}", error.expected)

    def _refused(self, entry: Entry, problem: str, remedy: str, *telling: str) -> None:
        """Report what the engine or an action refused, at the first key that it speaks of."""
        parts = re.findall(r"\w+", problem)
        words = [word for part in parts for word in (part, part.rstrip("s"), part.lower())]
        if "background" in words:
            words.append("mode")  # async is another word for it
        if problem.startswith("it "):  # what was imported, and not how it is to be treated
            words += ["path", "function"]
        if problem.startswith("it reads"):
            words.append("builtin")
        self.report.add(entry.said.place(*words, *telling), problem, "", remedy)

    def _when(self, entry: Entry) -> Any:
        text = entry.get("when")
        if text is None:
            return None
        try:
            return compile_expression(text, (entry.point,))
        except ActionError as error:
            self.report.add(entry.said.place("when"), error.problem, "", error.remedy)
            return None

    def _options(self, entry: Entry, target: Target) -> dict[str, Any]:
        line = self.report.line(entry.said.where)
        options: dict[str, Any] = {
            "source": self.report.file if line is None else f"{self.report.file}:{line}",
            "target_type": target.type,
            "target_name": target.name,
        }
        for key in ("lane", "decisions", "redacts", "observes"):
            if known := getattr(target, key):
                options[key] = known
        for key in ("timeout", "on_error"):
            if (known := getattr(target, key)) is not None and getattr(self.defaults, key) is None:
                options[key] = known
        options |= {key: value for key, value in entry.said.keys.items() if key in _OPTIONS}
        options |= {key: self._patterns(entry, key) for key in FIELDS if key in options}
        return options | _mode(entry.said.keys)

    def _patterns(self, entry: Entry, key: str) -> list[str | Regex]:
        """Read the patterns of a matcher; one that cannot be is reported."""
        given, where = entry.get(key), entry.said.place(key)
        found: list[str | Regex] = []
        for number, pattern in enumerate([given] if isinstance(given, str) else given):
            try:
                found.append(read_pattern(pattern))
            except PatternError as error:
                at = where if isinstance(given, str) else (*where, number)
                told = f"{described(pattern)} is no pattern here: {error.problem}"
                self.report.add(at, told, "", error.remedy)
                found.append("*")  # so that everything else about the hook is checked too
        return found


def _mode(keys: Mapping[str, Any]) -> dict[str, Any]:
    if keys.get("mode") == "async":
        return {"background": True}
    return {"mode": keys["mode"]} if "mode" in keys else {}


def _renamed(specs: Iterable[HookSpec]) -> list[HookSpec]:
    """Number hooks that were never given a name, and were named alike by chance."""
    found: dict[str, HookSpec] = {}
    for spec in specs:
        name = spec.name if spec.named else _free(spec.name, found)
        if name in found:
            remedy = "Names are unique at their level: rename one of them"
            raise HookRefusedError(name, "there are two hooks of that name", remedy)
        found[name] = dataclasses.replace(spec, name=name)
    return [*found.values()]


def _free(name: str, taken: Iterable[str]) -> str:
    taken = set(taken)
    number = 1
    free = name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free
