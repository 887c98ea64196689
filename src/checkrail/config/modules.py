"""Python modules of a file's hooks: found on `python_path`, and loaded anew when they change."""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

from checkrail.actions.python import module_name

KEPT = 32_768
"""How many files are remembered: a program has thousands, and is looked through at each reload."""

_OURS = __name__.partition(".")[0]
_STDLIB = Path(sysconfig.get_path("stdlib")).resolve()
_INSTALLED = frozenset({"site-packages", "dist-packages"})
_ELSEWHERE = (f"{_STDLIB}{os.sep}", *(f"{os.sep}{name}{os.sep}" for name in _INSTALLED))


@contextmanager
def extend_search_path(folders: Sequence[Path], last: Sequence[Path] = ()) -> Iterator[None]:
    """Put folders first on the search path, and others last; undone if the work fails."""
    before = [*sys.path]
    added = [str(folder) for folder in folders]
    found = dict.fromkeys([*added, *before, *(str(folder) for folder in last)])
    sys.path[:] = [*found]
    importlib.invalidate_caches()
    try:
        yield
    except BaseException:
        sys.path[:] = before
        raise


@contextmanager
def reimport_modules(modules: Iterable[str]) -> Iterator[None]:
    """Forget modules, so that they are imported as they are now; undone if the work fails."""
    before = sys.modules.copy()
    for name in modules:
        _forget_module(name)
    importlib.invalidate_caches()
    try:
        yield
    except BaseException:
        for name in sys.modules.keys() - before.keys():
            if _user_file(name, sys.modules[name]) is not None:
                _forget_module(name)
        sys.modules.update(before)
        raise


def own_modules(
    before: AbstractSet[str], files: AbstractSet[Path], folders: Iterable[Path]
) -> set[str]:
    """Return the modules that belong to a file's hooks.

    They are those of the Python files that it names, and what was imported for them from beside
    them or from the folders of its `python_path`. What an application has there is its own.
    """
    beside = {file.parent for file in files}
    loaded = sys.modules.copy()  # others may import meanwhile
    return {
        name
        for name in (loaded if files else loaded.keys() - before)
        if (file := _user_file(name, loaded[name])) is not None
        and (file in files or (name not in before and _is_beside(name, file, beside, folders)))
    }


def _is_beside(name: str, file: Path, beside: AbstractSet[Path], folders: Iterable[Path]) -> bool:
    if any(file.is_relative_to(folder.resolve()) for folder in folders):
        return True
    return file.parent in beside and "." not in name


def project_modules(folders: Iterable[Path]) -> set[str]:
    """Return the modules of a project: what was imported from its folders, and is not installed."""
    roots = [folder.resolve() for folder in folders]
    return {
        name
        for name, module in sys.modules.copy().items()
        if (file := _user_file(name, module)) is not None
        and any(file.is_relative_to(root) for root in roots)
    }


def dotted_name(file: Path, roots: Iterable[Path]) -> tuple[str, Path] | None:
    """Return the name of a file within its package, and the folder that the package is in.

    A package is told by its `__init__.py`; below a root, folders are packages without it too.
    """
    top = file.parent
    while (top / "__init__.py").is_file():
        top = top.parent
    if top == file.parent:
        inner = [root for root in roots if file.parent != root and file.is_relative_to(root)]
        if not inner:
            return None
        top = max(inner, key=lambda root: len(root.parts))
    parts = file.relative_to(top).with_suffix("").parts
    return (".".join(parts), top) if all(part.isidentifier() for part in parts) else None


def name_types_by_path(package: str, base: Path) -> None:
    """Let what a package defines below the folder `base`, which is in it, be found by its path.

    LangGraph stores a type by the name of its module. In such a package that has the folder's own
    name in it, and what was stored could not be read after the folder was renamed.
    """
    for name, module in [*sys.modules.items()]:
        if name.partition(".")[0] != package:
            continue
        file = _source_file(module)
        if file is None or not file.is_relative_to(base):
            continue
        new = module_name(os.path.relpath(file, base))
        known = sys.modules.get(new)
        if known is not None and _source_file(known) != file:
            continue  # another project's file of the same path was loaded before
        sys.modules[new] = module
        for each in [*vars(module).values()]:
            if isinstance(each, type) and each.__module__ == name:
                type.__setattr__(each, "__module__", new)


def module_files(modules: Iterable[str]) -> set[Path]:
    """Return the files of modules that are loaded."""
    found = (_source_file(sys.modules[name]) for name in modules if name in sys.modules)
    return {file for file in found if file is not None}


def is_local(name: str, file: Path) -> bool:
    """Return whether a module is the user's own: not installed, not Python's, not one of ours."""
    return name.partition(".")[0] != _OURS and _is_user_file(file)


@functools.lru_cache(maxsize=KEPT)
def _is_user_file(file: Path) -> bool:
    return not file.is_relative_to(_STDLIB) and not _INSTALLED & {*file.parts}


def _user_file(name: str, module: ModuleType) -> Path | None:
    """Return the file of a module that is the user's own.

    Where a module was found says it of nearly all, without a look at the disk: a program has
    thousands, and links lead out of the folders of what is installed, never into them.
    """
    file = getattr(module, "__file__", None)
    if not isinstance(file, str) or any(each in file for each in _ELSEWHERE):
        return None
    path = _source_file(module)
    return path if path is not None and is_local(name, path) else None


def _source_file(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return _resolve_path(file) if isinstance(file, str) and file.endswith(".py") else None


@functools.lru_cache(maxsize=KEPT)
def _resolve_path(file: str) -> Path:
    return Path(file).resolve()


def _forget_module(name: str) -> None:
    """Forget a module and its bytecode, which misses a second change within one second."""
    module = sys.modules.pop(name, None)
    file = _source_file(module) if module is not None else None
    if file is not None:
        with suppress(OSError, NotImplementedError):
            Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
