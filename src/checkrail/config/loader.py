"""Loading: from a file to hooks that the engine accepts, or to everything that is wrong with it."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkrail.actions.outside import Outside
from checkrail.config.agent_keys import blueprint_of
from checkrail.config.builder import Builder
from checkrail.config.document import FORMATS, Document, parse, read
from checkrail.config.dotenv import set_in_environment
from checkrail.config.entries import EntryReader
from checkrail.config.environment import Environment
from checkrail.config.gateway import GatewayConfig
from checkrail.config.gateway_reader import GatewayReader
from checkrail.config.hook_section import build_hooks
from checkrail.config.imports import Expected, load_object
from checkrail.config.modules import files_of, importable, own_modules
from checkrail.config.problems import Problem, Report, scrubbed
from checkrail.config.project import agents_folder, blueprint_files, is_foreign
from checkrail.config.server import ServerConfig
from checkrail.config.server_reader import ServerReader
from checkrail.config.settings import Settings, read_settings, top_level
from checkrail.config.targets import Importer
from checkrail.config.variables import Variables, read_variables
from checkrail.engine.errors import suggestion
from checkrail.engine.hook import HookSpec

if TYPE_CHECKING:
    from checkrail.config.agent_tools import CheckTools
    from checkrail.config.agents import AgentConfig

AGENTS = frozenset({"agents", "graphs"})
"""The sections of a file that have its agents."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """What a file holds.

    `files` are the file itself, the Python files of its hooks, its `.env` and the files of agents
    in its `folder` of them; `digest` changes with any of them. `modules` are what was imported for
    it; `base` is where its relative paths start; `definitions` are as they stand in the file.
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
    gateway: GatewayConfig = field(default_factory=GatewayConfig)
    folder: Path | None = None
    definitions: Mapping[str, Any] = field(repr=False, default_factory=dict)

    def scrubbed(self, text: str) -> str:
        """Take the values of the variables that the file uses out of a text."""
        return scrubbed(text, self.secrets)

    def load_object(self, path: str, label: str, expected: Expected = None) -> Any:
        """Import what the server needs of this file's project; see `load_object`."""
        roots = self.server.import_path
        return load_object(path, self.base, label, expected, roots=roots, secrets=self.secrets)

    def load_state_types(self) -> list[type]:
        """Import the types that `checkpointer.types` names."""
        named = self.server.checkpointer.types
        return [self.load_object(path, "checkpointer.types", type) for path in named]

    def load_store_index(self) -> dict[str, Any] | None:
        """Return `store.index`, with what embeds texts if that is of the project's files."""
        index = self.server.store.index
        if not index:
            return None
        embed = index["embed"]
        if embed.rpartition(":")[0].endswith(".py"):  # others are models, as in openai:name
            embed = self.load_object(embed, "store.index.embed")
        return {**index, "embed": embed}


def load(
    path: str | Path,
    *,
    check_tools: CheckTools | None = None,
    outside: Outside | None = None,
) -> Loaded:
    """Load a file, or raise `ConfigError` with everything that is wrong with it.

    `check_tools` has more to say of the tools of agents than that they can be imported. `outside`
    is what hooks use that call services and agents.
    """
    path = Path(path)
    report = Report(str(path))
    document = read(path, report)
    return _loaded(document, report, path.absolute(), check_tools, outside)


def load_text(
    text: str,
    format: str = "yaml",
    base: str | Path | None = None,
    name: str = "<text>",
    *,
    outside: Outside | None = None,
) -> Loaded:
    """Load a document that is no file; its relative paths start from `base`."""
    if format not in FORMATS.values():
        message = f"there is no format {format!r}{suggestion(format, FORMATS.values())}"
        raise ValueError(message)
    report = Report(name)
    folder = Path.cwd() if base is None else Path(base)
    document = parse(text.encode(errors="surrogatepass"), format, folder, report)
    return _loaded(document, report, None, None, outside)


def _loaded(
    document: Document | None,
    report: Report,
    file: Path | None,
    check_tools: CheckTools | None,
    outside: Outside | None,
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
        return _loaded_with(
            variables, document, top, report, own=own, check_tools=check_tools, outside=outside
        )


def _loaded_with(
    variables: Variables,
    document: Document,
    top: Mapping[str, Any],
    report: Report,
    *,
    own: tuple[Path, ...],
    check_tools: CheckTools | None,
    outside: Outside | None,
) -> Loaded:
    """Load what stands in a file; its variables are set."""
    folder = agents_folder(own[0] if own else None, document.data)
    blueprints = blueprint_files(folder)
    settings = read_settings(top, document.base, report, variables.allowed)
    environment = Environment(settings.env_allow, report)
    server = ServerReader(environment, document.base).read(
        top, variables.values, imports=bool(blueprints)
    )
    gateway = GatewayReader(environment).read(top)
    importer = Importer(
        document.base, outside=outside or _outside(server), allow=server.outbound.allow
    )
    before = {*sys.modules.copy()}
    folders = (*settings.python_path, *server.import_path)
    with importable(settings.python_path, server.import_path):
        settings = _with_default_model(settings, top.get("defaults"), environment, importer)
        reader = EntryReader(report, environment, settings.defaults)
        reader.define(top.get("definitions"), ("definitions",))
        builder = Builder(report, importer, settings.defaults, _prefix(document.data))
        build_hooks(top.get("hooks"), ("hooks",), reader, builder)
        agents = _agents(document.data, reader, builder, check_tools, blueprints)
        modules = own_modules(before, importer.files, folders)
        named = {*blueprints, *([variables.file] if variables.file else ())}
        files = (*own, *sorted(importer.files | files_of(modules) | named))
        report.raise_if_any((*files, *([folder] if folder and folder.is_dir() else ())))
    report.warn_of_left()
    return Loaded(
        specs=tuple(builder.specs.values()),
        settings=settings,
        warnings=report.all_warnings(),
        file=own[0] if own else None,
        base=document.base,
        files=files,
        modules=tuple(sorted(modules)),
        digest=_digest(document.digest, files[len(own) :]),
        secrets=report.secrets,
        agents=agents,
        server=server,
        gateway=gateway,
        folder=folder,
        definitions=top.get("definitions") or {},
    )


def _with_default_model(
    settings: Settings, defaults: Any, environment: Environment, importer: Importer
) -> Settings:
    """Read the model of agents that name none, which may have to be imported."""
    given = defaults.get("model") if isinstance(defaults, dict) else None
    if given is None:
        return settings
    from checkrail.config.agents import read_default_model

    model = read_default_model(given, environment, importer)
    return replace(settings, defaults=replace(settings.defaults, model=model))


def _outside(server: ServerConfig) -> Outside:
    """Return what hooks use where there is no server: the file says where they may go."""
    return Outside(secret=server.outbound.webhook_secret, allow=server.outbound.allow)


def _prefix(data: Any) -> str:
    """Return what unnamed hooks are called by: in a blueprint, its agent."""
    return "" if blueprint_of(data) is None else f"{data.get('name')}."


def _agents(
    data: Any,
    reader: EntryReader,
    builder: Builder,
    check_tools: CheckTools | None,
    files: Iterable[Path],
) -> dict[str, AgentConfig]:
    blueprint, files = blueprint_of(data), [*files]
    if blueprint is None and not files and not (isinstance(data, dict) and AGENTS & data.keys()):
        return {}
    from checkrail.config.roster import Roster  # which a file of hooks alone does not need

    roster = Roster(builder.importer, check_tools)
    if blueprint is not None:
        roster.blueprint_alone(data, blueprint, reader)
    elif isinstance(data, dict):
        roster.add_sections(data, reader)
        roster.add_files(files, reader)
        roster.check(builder)
    return roster.agents


def _check_said(data: Any, report: Report) -> None:
    """Refuse a file that says nothing: it may be one that is still being written."""
    meant = "if no hooks are meant, write hooks: {}"
    if data is None or data == {}:
        report.add((), "an empty file", "hooks", meant)
    elif isinstance(data, dict) and data.get("hooks", {}) is None and blueprint_of(data) is None:
        report.add(("hooks",), "found nothing", "points and their hooks", meant)


def _digest(document: str, files: Iterable[Path]) -> str:
    found = hashlib.sha256(document.encode())
    for file in files:
        content = file.read_bytes() if file.is_file() else b""
        found.update(hashlib.sha256(content).digest())
    return found.hexdigest()
