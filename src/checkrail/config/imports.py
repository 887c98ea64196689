"""Imports of what a file names: functions of hooks, graphs, auth, an app, a checkpointer."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from checkrail.actions.errors import ActionError
from checkrail.actions.expression_fields import kind_of
from checkrail.actions.outside import Outside
from checkrail.actions.python import load, load_function
from checkrail.config.modules import dotted_name, extend_search_path, is_local, name_types_by_path
from checkrail.config.problems import Report
from checkrail.config.schema import find_module_rename, find_renames
from checkrail.config.server_keys import reference

Expected = type | tuple[type, ...] | None
_NO_SECRETS: Mapping[str, str] = MappingProxyType({})


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


def load_object(
    path: str,
    base: Path,
    label: str,
    expected: Expected = None,
    *,
    roots: Sequence[Path] = (),
    secrets: Mapping[str, str] = _NO_SECRETS,
) -> Any:
    """Import what `./file.py:name` or `package.module:name` names, or raise `ConfigError`.

    The folder of the file and the `roots` stay on the search path, for graphs import while they
    run. `label` says what it is, as in "the graph 'support'"; `secrets` are told in no message.
    """
    report = Report(label)
    report.secrets = {**secrets}
    importer = Importer(base, roots)
    if not reference(path, (), report):
        report.raise_if_any()
    file = path.rpartition(":")[0]
    beside = [(base / file).resolve().parent] if file.endswith(".py") or "/" in file else []
    try:
        with extend_search_path((), (*roots, *beside)):
            found = importer.import_path(path)
    except NotLoadedError as error:
        report.add((), error.found, error.expected, error.hint)
        found = None
    else:
        _check_type(found, path, expected, report)
    report.raise_if_any(sorted(importer.files))
    return found


def _check_type(found: Any, path: str, expected: Expected, report: Report) -> None:
    if expected is None or isinstance(found, expected):
        return
    kinds = expected if isinstance(expected, tuple) else (expected,)
    wanted = " or ".join(
        f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}" for kind in kinds
    )
    report.add((), f"{path!r} is {kind_of(found)}", wanted)
