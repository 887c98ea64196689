"""Import references: `./hooks.py:hooks` for a file, `package.module:attribute` for a module."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import pkgutil
import re
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType, TracebackType
from typing import Any

from checkrail.actions.errors import ActionError
from checkrail.engine.errors import suggestion

_NAME = r"[^\W\d]\w*"
_DOTTED = re.compile(rf"{_NAME}(?:\.{_NAME})*")
_PREFIX = "checkrail_file_"
_SHOWN = 12
_SAME = 0.85
"""How alike two names are of which one is the other misspelled."""


def load(reference: str, base: Path | None = None, *, reload: bool = False) -> Any:
    """Import what a reference names; a path is relative to `base`.

    A file is executed once, whoever asks for it, unless `reload` asks for it as it is now.
    """
    where, attribute = _split_reference(reference)
    if _is_path(where):
        module = _from_file(where, base or Path.cwd(), reference, reload=reload)
    else:
        module = _from_package(where, reference, base or Path.cwd())
    return _find_attribute(module, attribute, where, reference)


def load_function(
    module: str,
    function: str,
    base: Path | None = None,
    *,
    reload: bool = False,
) -> Callable[..., Any]:
    """Import a function that is named by its module, or file, and its own name."""
    found = load(f"{module}:{function}", base, reload=reload)
    if not callable(found):
        problem = f"{function!r} in {module} is {type(found).__name__}, which cannot be called"
        raise ActionError(problem, "Name a function, or an object that can be called")
    return found  # type: ignore[no-any-return]


def _split_reference(reference: Any) -> tuple[str, str]:
    where, _, attribute = str(reference).rpartition(":")
    known = _is_path(where) or _DOTTED.fullmatch(where)
    if isinstance(reference, str) and known and _DOTTED.fullmatch(attribute):
        return where, attribute
    remedy = "Write ./file.py:name for a file, or package.module:name for an installed module"
    raise ActionError(f"{reference!r} is no import reference", remedy)


def _is_path(where: str) -> bool:
    return where.endswith(".py") or "/" in where


class _Source(SourceFileLoader):
    """Reads a file as it is now: no bytecode is taken from the folder, or left in it."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _from_file(where: str, base: Path, reference: str, *, reload: bool) -> ModuleType:
    given = base / where
    path = given.resolve()
    if path.suffix != ".py" or not path.is_file():
        _refuse_file(given, path, reference)
    name = _loaded_name(path) or _new_name(where, base, path)
    known = sys.modules.get(name)
    if known is not None and not reload:
        return known
    loader = _Source(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None  # noqa: S101 - a loader was given
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with _add_import_path(str(path.parent)):
            loader.exec_module(module)
    except BaseException as error:
        _restore_module(name, known)
        if isinstance(error, (Exception, SystemExit)):
            raise _import_error(str(path), error) from error
        raise
    return module


def _loaded_name(path: Path) -> str | None:
    """Return the name under which a file was loaded."""
    for name, module in [*sys.modules.items()]:
        if name.startswith(_PREFIX) and getattr(module, "__file__", None) == str(path):
            return name
    return None


def _new_name(where: str, base: Path, path: Path) -> str:
    """Return a module's name: what a file defines is found by it wherever its project lies.

    It comes of the path beside the config. Only where a process has another project's file of
    the same path, it comes of the whole path.
    """
    name = module_name(os.path.relpath(base / where, base))
    return module_name(str(path)) if name in sys.modules else name


def module_name(path: str) -> str:
    """Return the name of the module that a file is loaded as."""
    stem = re.sub(r"\W", "_", Path(path).stem)
    place = Path(path).as_posix()
    return f"{_PREFIX}{stem}_{hashlib.sha256(place.encode()).hexdigest()[:12]}"


def _restore_module(name: str, known: ModuleType | None) -> None:
    if known is None:
        sys.modules.pop(name, None)
    else:
        sys.modules[name] = known


@contextmanager
def _add_import_path(folder: str) -> Iterator[None]:
    """Let a file import its neighbours while it is loaded, where nothing else has their name."""
    if folder in sys.path:
        yield
        return
    sys.path.append(folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def _refuse_file(given: Path, path: Path, reference: str) -> None:
    if path.exists():
        problem = f"{reference!r} names {given}, which is no Python file"
        raise ActionError(problem, "Name a file that ends in .py")
    beside = [item.name for item in path.parent.glob("*.py")] if path.parent.is_dir() else []
    problem = f"there is no file {path}{suggestion(path.name, beside)}, named by {reference!r}"
    raise ActionError(problem, f"Python files there are: {_join_names(beside)}")


def _from_package(name: str, reference: str, base: Path) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _import_error(name, error) from error
        near = _suggest_module(error.name, (base,))
        problem = f"there is no module {error.name!r}{near}, named by {reference!r}"
    except (Exception, SystemExit) as error:
        raise _import_error(name, error) from error
    raise ActionError(problem, _where_to_find(name, reference, base))


def _where_to_find(name: str, reference: str, base: Path) -> str:
    """Return how a module that is not there is reached: it may be a file of the project."""
    file = f"{name.replace('.', '/')}.py"
    if (base / file).is_file():
        return f"There is a file {file}: name it, as in ./{file}:{reference.rpartition(':')[2]}"
    if "." in name:
        return "Correct its name, install it, or put the folder of its package on python_path"
    return f"Install it, put its folder on python_path, or name its file: ./folder/{file}:name"


def _suggest_module(name: str, folders: Iterable[Path] = ()) -> str:
    """Return the module that was probably meant: one of the project, or one spelled nearly so."""
    package, _, last = name.rpartition(".")
    if package:
        within = getattr(sys.modules.get(package), "__path__", None)
        return "" if within is None else suggestion(last, _modules_in(within))
    own = [*map(str, folders), *(path for path in sys.path if not _is_installed(Path(path)))]
    return suggestion(last, _modules_in(own)) or suggestion(last, _modules_in(None), _SAME)


def _is_installed(folder: Path) -> bool:
    """Whether a folder is Python's own, or that of its packages."""
    packages = {"site-packages", "dist-packages"}
    return bool(packages & {*folder.parts}) or folder.is_relative_to(sysconfig.get_path("stdlib"))


def _modules_in(folders: Iterable[str] | None) -> list[str]:
    """Return the names of the modules in some folders, or of all that can be imported."""
    return [item.name for item in pkgutil.iter_modules(folders) if not item.name.startswith("_")]


def _import_error(what: str, error: BaseException) -> ActionError:
    file, line = _error_location(error)
    at = f" in {file}, line {line}" if file else ""
    problem = f"{what} could not be imported: {type(error).__name__}: {error}{at}"
    if isinstance(error, ModuleNotFoundError) and error.name is not None:
        return ActionError(problem, _missing_remedy(error.name))
    if isinstance(error, ImportError) and "relative import" in str(error):
        remedy = "A file has no package around it: name it as package.module:name instead"
        return ActionError(problem, remedy)
    return ActionError(problem, "Mend it there and try again")


def _missing_remedy(name: str) -> str:
    """Return what to do about a module that somebody's code imports and that is not there."""
    package = name.rpartition(".")[0]
    if package and package in sys.modules:
        return (
            f"{package} is there, but has no such module{_suggest_module(name)}: correct the import"
        )
    return f"Install {name.partition('.')[0]}, or put its folder on python_path"


def _error_location(error: BaseException) -> tuple[str | None, int | None]:
    """Find where the user's own code stood: its first line beyond this loader and importlib."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not (file.startswith("<frozen importlib") or file in (__file__, importlib.__file__)):
            return file, trace.tb_lineno
        trace = trace.tb_next
    return None, None


def _find_attribute(module: ModuleType, attribute: str, where: str, reference: str) -> Any:
    found: Any = module
    seen = where
    for part in attribute.split("."):
        try:
            found = getattr(found, part)
        except AttributeError:
            names = [name for name in dir(found) if not name.startswith("_")]
            problem = f"{seen} has no {part!r}{suggestion(part, names)}, named by {reference!r}"
            raise ActionError(problem, f"It has: {_join_names(names)}") from None
        seen = f"{seen}:{part}" if seen == where else f"{seen}.{part}"
    return found


def _join_names(names: Iterable[str]) -> str:
    known = sorted(names)
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return ", ".join(known[:_SHOWN]) + more or "none"
