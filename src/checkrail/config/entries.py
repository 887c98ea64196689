"""Entries: one hook of a file, its references followed, its keys checked and its type known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from checkrail.config.environment import Environment
from checkrail.config.hook_objects import Defaults
from checkrail.config.problems import Report, Where, describe_value
from checkrail.config.pydantic_problems import check_model
from checkrail.config.schema import (
    VERBATIM,
    action_models,
    entry_keys,
    key_owners,
    note_older_spellings,
)
from checkrail.config.value_checks import describe_hook_form, mapping, read_members

if TYPE_CHECKING:
    from pydantic import BaseModel

_TELLING = "path, module and function, builtin, block, set, redact, command"
_LEAST_SECRET = 8
"""A shorter text is no secret, and taking it out would tear messages apart."""


@dataclass(frozen=True, slots=True)
class HookKeys:
    """The keys of a hook and the place of each: here, or in the definition that it refers to."""

    where: Where
    keys: Mapping[str, Any]
    at: Mapping[str, Where]

    def find_place(self, *keys: str) -> Where:
        """Return the place of the first of some keys that is present, else of the hook."""
        return next((self.at[key] for key in keys if key in self.at), self.where)

    def merge_over(self, base: HookKeys) -> HookKeys:
        """Return these keys merged over those of the definition that is referred to."""
        return HookKeys(self.where, {**base.keys, **self.keys}, {**base.at, **self.at})


@dataclass(frozen=True, slots=True)
class HookEntry:
    """One hook of a file, at the point under which it stands.

    One that is not `sound` cannot be made, but more may be wrong with it than is known yet.
    """

    point: str
    type: str
    said: HookKeys
    is_valid: bool = True

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key."""
        return self.said.keys.get(key, default)


class EntryReader:
    """Reads the hooks of one file; what is wrong with them is reported."""

    def __init__(self, report: Report, environment: Environment, defaults: Defaults) -> None:
        self.report = report
        self.environment = environment
        self.defaults = defaults
        self.definitions: dict[str, HookKeys] = {}

    def read_definitions(self, given: Any, where: Where) -> None:
        """Read the named hooks that entries may refer to."""
        if given is None or not mapping(given, where, self.report):
            return
        for name, value in given.items():
            said = self._read_keys(value, (*where, name))
            if "name" in said.keys:
                hint = f"it is {name!r} already, and hooks that use it have names of their own"
                self.report.add(said.find_place("name"), "a name inside a definition", "none", hint)
            self.definitions[name] = said
        for name in given:
            said = self._follow_ref(self.definitions[name], (name,))
            if (kind := self._find_type(said, partial=True)) is not None:
                self._check_fields(said, kind, partial=True)

    def read(self, given: Any, point: str, where: Where) -> HookEntry:
        """Read one hook at a point."""
        before = len(self.report.problems)
        if isinstance(given, str):
            self.report.add(
                where, f"found {describe_value(given)}", "a mapping", describe_hook_form(given)
            )
            given = None
        said = self._follow_ref(self._read_keys(given, where), ())
        _check_combinations(said, self.report)
        # A mistyped key explains why another one is missing: one problem, told once.
        partial = len(self.report.problems) > before
        kind = self._find_type(said, partial=partial)
        if kind is None:
            return HookEntry(point, "python", said, is_valid=False)
        return HookEntry(
            point, kind, said, is_valid=self._check_fields(said, kind, partial=partial)
        )

    def _read_keys(self, given: Any, where: Where) -> HookKeys:
        keys: dict[str, Any] = {}
        at: dict[str, Where] = {}
        for key, value in read_members(given, entry_keys(), where, self.report).items():
            place = (*where, key)
            known = "timeout" if key == "timeout_seconds" else key
            if known in keys:
                hint = "they are two names of one thing"
                found = "both `timeout` and `timeout_seconds`"
                self.report.add(place, found, "one of them", hint)
            note_older_spellings({key: value}, where, self.report)
            before = len(self.report.problems)
            expanded = self._expand_value(key, value, place)
            if len(self.report.problems) == before:
                keys[known], at[known] = expanded, place
        return HookKeys(where, keys, at)

    def _expand_value(self, key: str, value: Any, where: Where) -> Any:
        if key not in VERBATIM:
            found = self.environment.expand(value, where)
            if key == "secret" and found is value and len(value) >= _LEAST_SECRET:
                self.report.secrets[value] = "(the secret)"
            return found
        if "${" in value:
            self.report.add(where, f"a variable in `{key}`", "the thing itself")
        return value

    def _follow_ref(self, said: HookKeys, seen: tuple[str, ...]) -> HookKeys:
        name = said.keys.get("$ref")
        if name is None:
            return said
        if name in seen:
            circle = " → ".join((*seen, name))
            self.report.add(
                said.find_place("$ref"), f"a circle: {circle}", "a definition that ends"
            )
            return said
        if name not in self.definitions:
            self.report.add_unknown(said.find_place("$ref"), "definition", name, self.definitions)
            return said
        return said.merge_over(self._follow_ref(self.definitions[name], (*seen, name)))

    def _find_type(self, said: HookKeys, *, partial: bool) -> str | None:
        implied = {key: key_owners()[key] for key in said.keys if key in key_owners()}
        kind = said.keys.get("type")
        if kind is None and not implied:
            if not partial:
                found = "a hook that says nothing to do"
                self.report.add(said.where, found, f"one of: {_TELLING}, …")
            return None
        first = next(iter(implied), "type")
        kind = kind or implied[first]
        for key, owner in implied.items():
            if owner != kind:
                told = f"type: {kind}" if "type" in said.keys else f"`{first}`"
                found = f"`{key}`, which is for hooks of type {owner}, beside {told}"
                self.report.add(said.find_place(key), found, "keys of one type")
        return str(kind)

    def _check_fields(self, said: HookKeys, kind: str, *, partial: bool) -> bool:
        model = action_models().get(kind)
        if model is None:
            return _check_import_keys(said, kind, self.report, partial=partial)
        at = {**said.at, "": said.where}
        data = action_fields(said.keys, model, self.defaults)
        return check_model(model, data, at, self.report, partial=partial)


def action_fields(
    keys: Mapping[str, Any], model: type[BaseModel], defaults: Defaults
) -> dict[str, Any]:
    """Return the fields of a hook's action; defaults of all hooks are among them."""
    data = {key: value for key, value in keys.items() if key in model.model_fields}
    if "timeout_seconds" in model.model_fields:
        timeout = keys.get("timeout", defaults.timeout)
        data |= {} if timeout is None else {"timeout_seconds": timeout}
    if "on_error" in model.model_fields and defaults.on_error is not None:
        data.setdefault("on_error", defaults.on_error)
    return data


def _check_import_keys(said: HookKeys, kind: str, report: Report, *, partial: bool) -> bool:
    keys = said.keys
    if kind == "builtin":
        if "builtin" not in keys and not partial:
            report.add(said.where, "`builtin` is missing", "the name of a built-in hook")
        return "builtin" in keys
    if "path" in keys and ("module" in keys or "function" in keys):
        hint = "path: ./file.py:function, or module and function"
        found = "both `path` and `module` or `function`"
        report.add(said.find_place("module", "function"), found, "one of them", hint)
        return False
    if "path" in keys:
        return True
    missing = [key for key in ("module", "function") if key not in keys]
    if missing and not partial:
        hint = "path: ./file.py:function says both"
        report.add(said.where, f"`{missing[0]}` is missing", "`module` and `function`", hint)
    return not missing


def _check_combinations(said: HookKeys, report: Report) -> None:
    """Report keys that contradict each other, though each is right by itself."""
    keys = said.keys
    if keys.get("enabled") is True and keys.get("mode") == "off":
        found = "both `enabled: true` and `mode: off`"
        report.add(said.find_place("mode"), found, "one of them")
    if keys.get("background") is False and keys.get("mode") == "async":
        found = "both `background: false` and `mode: async`"
        report.add(said.find_place("background"), found, "one of them")
    lane = keys.get("lane", "transform")
    changes = next(
        (key for key in ("set", "prepend", "append", "redact", "inject") if key in keys), None
    )
    if changes and lane != "transform" and "retry" not in keys:
        found = f"`{changes}` in lane {lane}, where nothing can be changed"
        report.add(said.find_place(changes), found, "lane transform")
