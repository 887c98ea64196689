"""Python modules of a file's hooks: found on `python_path`, and loaded anew when they change."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType

_INSTALLED = frozenset({"site-packages", "dist-packages"})


@contextmanager
def importable(folders: Sequence[Path]) -> Iterator[None]:
    """Put folders first on the search path, for good unless the work fails."""
    before = [*sys.path]
    added = [str(folder) for folder in folders]
    sys.path[:] = [*added, *(entry for entry in before if entry not in added)]
    importlib.invalidate_caches()
    try:
        yield
    except BaseException:
        sys.path[:] = before
        raise


@contextmanager
def anew(modules: Iterable[str]) -> Iterator[None]:
    """Forget modules, so that they are imported as they are now; they are back if that fails."""
    before = {**sys.modules}
    for name in modules:
        _forget(name)
    importlib.invalidate_caches()
    try:
        yield
    except BaseException:
        for name in sys.modules.keys() - before.keys():
            if is_local(sys.modules[name]):
                _forget(name)
        sys.modules.update(before)
        raise


def imported_since(before: Iterable[str], folders: Sequence[Path]) -> set[str]:
    """Name the modules in some folders that were not there before."""
    new = sys.modules.keys() - set(before)
    return {name for name in new if _lies_in(sys.modules[name], folders)}


def files_of(modules: Iterable[str]) -> set[Path]:
    """Give the files of modules that are loaded."""
    found = (_file(sys.modules[name]) for name in modules if name in sys.modules)
    return {file for file in found if file is not None}


def is_local(module: ModuleType) -> bool:
    """Say whether a module is somebody's own and not an installed one."""
    file = _file(module)
    return file is not None and not _INSTALLED & {*file.parts}


def _lies_in(module: ModuleType, folders: Sequence[Path]) -> bool:
    file = _file(module)
    return (
        file is not None
        and is_local(module)
        and any(file.is_relative_to(folder) for folder in folders)
    )


def _file(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file).resolve() if file and file.endswith(".py") else None


def _forget(name: str) -> None:
    """Forget a module and its bytecode, which cannot tell two changes within one second apart."""
    module = sys.modules.pop(name, None)
    file = _file(module) if module is not None else None
    if file is not None:
        with suppress(OSError, NotImplementedError):
            Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)
