"""Loading: from a file to hooks that the engine accepts, or to everything that is wrong with it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkrail.config.builder import Builder
from checkrail.config.document import Document, parse, read
from checkrail.config.entries import Entry, EntryReader
from checkrail.config.environment import Environment
from checkrail.config.kinds import fitting, text
from checkrail.config.modules import files_of, importable, imported_since
from checkrail.config.objects import Defaults
from checkrail.config.problems import Problem, Report, Where, described
from checkrail.config.schema import DEFAULTS, ENV, OTHER_PARTS, TOP
from checkrail.config.targets import Importer
from checkrail.engine.errors import UnknownPointError
from checkrail.engine.hook import HookSpec
from checkrail.engine.points import ALIASES, HookPoint, places
from checkrail.engine.records import History

_OBJECT_KEYS = ("path", "timeout")


@dataclass(frozen=True, slots=True)
class Settings:
    """What a file says about all hooks together; None where it says nothing."""

    history: History | None = None
    max_retries: int | None = None
    defaults: Defaults = Defaults()
    python_path: tuple[Path, ...] = ()
    env_allow: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a file holds.

    `files` are the file itself and the Python files of its hooks; `digest` changes with any of them.
    """

    specs: tuple[HookSpec, ...] = field(repr=False)
    settings: Settings
    warnings: tuple[Problem, ...]
    file: Path | None
    files: tuple[Path, ...]
    modules: tuple[str, ...] = field(repr=False)
    digest: str


def load(path: str | Path) -> Loaded:
    """Load a file, or raise `ConfigError` with everything that is wrong with it."""
    path = Path(path)
    report = Report(str(path))
    document = read(path, report)
    if document is None:
        report.raise_if_any((path.resolve(),))
    assert document is not None  # noqa: S101 - else there was a problem
    return _Loading(document, report, path.resolve()).loaded()


def load_text(
    text: str,
    format: str = "yaml",  # noqa: A002 - the word that users know
    base: str | Path | None = None,
    name: str = "<text>",
) -> Loaded:
    """Load a document that is no file; its relative paths start from `base`."""
    report = Report(name)
    folder = Path.cwd() if base is None else Path(base)
    document = parse(text.encode(errors="surrogatepass"), format, folder, report)
    if document is None:
        report.raise_if_any()
    assert document is not None  # noqa: S101 - else there was a problem
    return _Loading(document, report, None).loaded()
