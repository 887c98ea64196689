"""Loading: from a file to hooks that the engine accepts, or to everything that is wrong with it."""

from __future__ import annotations

import hashlib
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkrail.config.agent_tools import CheckTools
from checkrail.config.agents import AGENT_NAME, AgentConfig, AgentReader
from checkrail.config.builder import Builder
from checkrail.config.document import FORMATS, Document, parse, read
from checkrail.config.dotenv import set_in_environment
from checkrail.config.entries import Entry, EntryReader
from checkrail.config.environment import Environment
from checkrail.config.imports import Expected, load_object
from checkrail.config.kinds import hook_form, is_reference, seconds, text
from checkrail.config.modules import files_of, importable, own_modules
from checkrail.config.problems import Problem, Report, Where, described, scrubbed
from checkrail.config.project import is_foreign
from checkrail.config.schema import blueprint_of
from checkrail.config.server import ServerConfig
from checkrail.config.server_reader import ServerReader
from checkrail.config.settings import Settings, read_settings, top_level
from checkrail.config.targets import Importer
from checkrail.config.variables import Variables, read_variables
from checkrail.engine.errors import UnknownPointError, suggestion
from checkrail.engine.hook import HookSpec
from checkrail.engine.points import ALIASES, HookPoint, places

log = logging.getLogger("checkrail.config")


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a file holds.

    `files` are the file itself, the Python files of its hooks and its `.env`; `digest` changes with
    any of them. `modules` are what was imported for it; `base` is where its relative paths start.
    """

    specs: tuple[HookSpec, ...] = field(repr=False)
    settings: Settings
    warnings: tuple[Problem, ...]
    file: Path | None
    base: Path
    files: tuple[Path, ...]
    modules: tuple[str, ...] = field(repr=False)
    digest: str
    secrets: Mapping[str, str] = field(repr=False, default_factory=dict)
    agents: Mapping[str, AgentConfig] = field(default_factory=dict)
    server: ServerConfig = field(default_factory=ServerConfig)

    def scrubbed(self, text: str) -> str:
        """Take the values of the variables that the file uses out of a text."""
        return scrubbed(text, self.secrets)

    def load_object(self, path: str, label: str, expected: Expected = None) -> Any:
        """Import what the server needs of this file's project; see `load_object`."""
        roots = self.server.import_path
        return load_object(path, self.base, label, expected, roots=roots, secrets=self.secrets)


def load(path: str | Path, *, check_tools: CheckTools | None = None) -> Loaded:
    """Load a file, or raise `ConfigError` with everything that is wrong with it.

    `check_tools` has more to say of the tools of agents than that they can be imported.
    """
    path = Path(path)
    report = Report(str(path))
    document = read(path, report)
    return _loaded(document, report, path.absolute(), check_tools)


def load_text(
    text: str,
    format: str = "yaml",
    base: str | Path | None = None,
    name: str = "<text>",
) -> Loaded:
    """Load a document that is no file; its relative paths start from `base`."""
    if format not in FORMATS.values():
        message = f"there is no format {format!r}{suggestion(format, FORMATS.values())}"
        raise ValueError(message)
    report = Report(name)
    folder = Path.cwd() if base is None else Path(base)
    document = parse(text.encode(errors="surrogatepass"), format, folder, report)
    return _loaded(document, report, None, None)


def load_blueprint_hooks(
    agent_name: str,
    hooks: Mapping[str, Any],
    *,
    base: str | Path | None = None,
    settings: Settings | None = None,
    definitions: Mapping[str, Any] | None = None,
    name: str | None = None,
    lines: Mapping[Where, int] | None = None,
) -> tuple[HookSpec, ...]:
    """Load the hooks of an agent's blueprint; unnamed ones are called `<agent>.<point>`.

    `lines` are those of the document that the blueprint came from, by places that begin with
    `hooks`; without them, problems tell the place alone.
    """
    report = Report(name or f"agent {agent_name!r}", lines)
    if not AGENT_NAME.fullmatch(agent_name):
        expected = "letters, digits, and - _ . between them"
        report.add((), f"the agent name {agent_name!r}", expected, "a name is no path")
    importer = Importer(Path.cwd() if base is None else Path(base))
    settings = settings or Settings()
    builder = Builder(report, importer, settings.defaults, f"{agent_name}.")
    reader = EntryReader(report, Environment(settings.env_allow, report), settings.defaults)
    reader.define(dict(definitions or {}), ("definitions",))
    _build(dict(hooks), ("hooks",), reader, builder)
    report.raise_if_any(sorted(importer.files))
    for warning in report.warnings:
        log.warning("%s", warning)
    return tuple(builder.specs.values())


def _loaded(
    document: Document | None,
    report: Report,
    file: Path | None,
    check_tools: CheckTools | None,
) -> Loaded:
    own = () if file is None else (file,)
    if document is None:
        report.raise_if_any(own)
        raise AssertionError(report.file)  # pragma: no cover - a document or a problem
    report.foreign = file is not None and is_foreign(file)
    top = top_level(document.data, report)
    _check_said(document.data, report)
    variables = read_variables(top.get("env"), document.base, report)
    with set_in_environment(variables.values):
        return _loaded_with(variables, document, top, report, own=own, check_tools=check_tools)


def _loaded_with(
    variables: Variables,
    document: Document,
    top: Mapping[str, Any],
    report: Report,
    *,
    own: tuple[Path, ...],
    check_tools: CheckTools | None,
) -> Loaded:
    """Load what stands in a file; its variables are set."""
    settings = read_settings(top, document.base, report, variables.allowed)
    environment = Environment(settings.env_allow, report)
    server = ServerReader(environment, document.base).read(top, variables.values)
    importer = Importer(document.base)
    reader = EntryReader(report, environment, settings.defaults)
    before = {*sys.modules}
    folders = (*settings.python_path, *server.import_path)
    with importable(settings.python_path, server.import_path):
        reader.define(top.get("definitions"), ("definitions",))
        builder = Builder(report, importer, settings.defaults, _prefix(document.data))
        _build(top.get("hooks"), ("hooks",), reader, builder)
        agents = _agents(document.data, reader, importer, check_tools)
        modules = own_modules(before, importer.files, folders)
        named = {variables.file} if variables.file else set()
        files = (*own, *sorted(importer.files | files_of(modules) | named))
        report.raise_if_any(files)
    report.warn_of_left()
    return Loaded(
        specs=tuple(builder.specs.values()),
        settings=settings,
        warnings=tuple(report.warnings),
        file=own[0] if own else None,
        base=document.base,
        files=files,
        modules=tuple(sorted(modules)),
        digest=_digest(document.digest, files[len(own) :]),
        secrets=report.secrets,
        agents=agents,
        server=server,
    )


def _prefix(data: Any) -> str:
    """Give what unnamed hooks are called by: in a blueprint, its agent."""
    return "" if blueprint_of(data) is None else f"{data.get('name')}."


def _agents(
    data: Any,
    reader: EntryReader,
    importer: Importer,
    check_tools: CheckTools | None,
) -> dict[str, AgentConfig]:
    def hooks(name: str, given: Any, where: Where) -> tuple[HookSpec, ...]:
        builder = Builder(reader.report, importer, reader.defaults, f"{name}.")
        _build(given, where, reader, builder)
        return tuple(builder.specs.values())

    agents = AgentReader(reader.environment, importer, hooks, check_tools)
    blueprint = blueprint_of(data)
    if blueprint is not None:
        agent = agents.blueprint(data, blueprint)
        return {} if agent is None else {agent.name: agent}
    if not isinstance(data, dict):
        return {}
    found = agents.section(data["agents"], ("agents",)) if "agents" in data else {}
    return found | agents.graphs(data.get("graphs"), ("graphs",), found)


def _check_said(data: Any, report: Report) -> None:
    """Refuse a file that says nothing: it may be one that is still being written."""
    meant = "if no hooks are meant, write hooks: {}"
    if data is None or data == {}:
        report.add((), "an empty file", "hooks", meant)
    elif isinstance(data, dict) and "hooks" in data and data["hooks"] is None:
        report.add(("hooks",), "found nothing", "points and their hooks", meant)


def _build(hooks: Any, where: Where, reader: EntryReader, builder: Builder) -> None:
    """Read everything under `hooks`: an object by its path, and the hooks of each point."""
    report = reader.report
    if hooks is None:
        return
    if not isinstance(hooks, dict):
        expected = "a mapping: `path`, or points and their hooks"
        hint = f"write hooks: {{path: {hooks}}}" if is_reference(hooks) else ""
        report.add(where, f"found {described(hooks)}", expected, hint)
        return
    _build_object(hooks, where, reader, builder)
    points = {key: value for key, value in hooks.items() if key not in ("path", "timeout")}
    builder.add_entries([*_entries(points, where, reader)])


def _build_object(
    hooks: Mapping[str, Any], where: Where, reader: EntryReader, builder: Builder
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


def _entries(points: Mapping[str, Any], where: Where, reader: EntryReader) -> Iterator[Entry]:
    for point, given in points.items():
        at = (*where, point)
        known = _is_point(point, at, reader.report)
        if given is None:
            continue
        if not isinstance(given, (dict, list)):
            expected = "a hook, or a list of hooks"
            reader.report.add(at, f"found {described(given)}", expected, hook_form(given))
            continue
        items = given if isinstance(given, list) else [given]
        for number, item in enumerate(items):
            entry = reader.read(item, point, (*at, number) if isinstance(given, list) else at)
            if known:
                yield entry


def _is_point(name: str, where: Where, report: Report) -> bool:
    try:
        places(name)
    except UnknownPointError:
        report.unknown(where, "point", name, [*HookPoint, *ALIASES])
        return False
    return True


def _digest(document: str, files: Iterable[Path]) -> str:
    found = hashlib.sha256(document.encode())
    for file in files:
        content = file.read_bytes() if file.is_file() else b""
        found.update(hashlib.sha256(content).digest())
    return found.hexdigest()
