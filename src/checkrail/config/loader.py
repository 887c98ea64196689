"""Loading: from a file to hooks that the engine accepts, or to everything that is wrong with it."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkrail.actions.outside import Outside
from checkrail.config.agent_keys import find_blueprint
from checkrail.config.builder import HookBuilder, build_hooks
from checkrail.config.document import FORMATS, Document, parse_document, read_document
from checkrail.config.entries import EntryReader
from checkrail.config.environment import Environment, Variables, read_variables, set_in_environment
from checkrail.config.gateway import GatewayConfig, PriceConfig
from checkrail.config.gateway_reader import GatewayReader
from checkrail.config.imports import Expected, Importer, load_object
from checkrail.config.modules import extend_search_path, module_files, own_modules
from checkrail.config.problems import Problem, Report, scrub_secrets
from checkrail.config.project import agents_folder, blueprint_files, is_foreign
from checkrail.config.server import ServerConfig
from checkrail.config.server_reader import ServerReader
from checkrail.config.sessions import (
    ChannelConfig,
    SessionsConfig,
    read_channels,
    read_sessions,
    warn_of_unknown_agents,
)
from checkrail.config.settings import Settings, read_settings, read_top_level
from checkrail.engine.errors import suggestion
from checkrail.engine.hook import HookSpec

if TYPE_CHECKING:
    from checkrail.config.agent_models import ModelConfig
    from checkrail.config.agent_tools import CheckTools
    from checkrail.config.agents import AgentConfig
    from checkrail.styles.hook_chain import HookChain

AGENTS = frozenset({"agents", "graphs"})
"""The sections of a file that have its agents."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The content of a file.

    `files` are the file itself, the Python files of its hooks, its `.env` and the files of agents
    in its `folder` of them; `digest` changes with any of them. `modules` are what was imported for
    it; `base` is where its relative paths start; `definitions` are as they stand in the file.
    `notes` name what it says in older words.
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
    prices: tuple[PriceConfig, ...] = ()
    sessions: SessionsConfig = field(default_factory=SessionsConfig)
    channels: tuple[ChannelConfig, ...] = field(default=(), repr=False)
    folder: Path | None = None
    definitions: Mapping[str, Any] = field(repr=False, default_factory=dict)
    notes: tuple[Problem, ...] = ()

    def scrub(self, text: str) -> str:
        """Replace the values of the variables that the file uses in a text."""
        return scrub_secrets(text, self.secrets)

    def load_object(self, path: str, label: str, expected: Expected = None) -> Any:
        """Import what the server needs of this file's project; see `load_object`."""
        roots = self.server.import_path
        return load_object(path, self.base, label, expected, roots=roots, secrets=self.secrets)

    def load_state_types(self) -> list[type]:
        """Import the types that `checkpointer.types` names."""
        named = self.server.checkpointer.types
        return [self.load_object(path, "checkpointer.types", type) for path in named]

    def load_store_index(self) -> dict[str, Any] | None:
        """Return `store.index`, with the embedding function if that is in the project's files."""
        index = self.server.store.index
        if not index:
            return None
        embed = index["embed"]
        if embed.rpartition(":")[0].endswith(".py"):  # others are models, as in openai:name
            embed = self.load_object(embed, "store.index.embed")
        return {**index, "embed": embed}


def missing_files(loaded: Loaded) -> tuple[Problem, ...]:
    """Return the Python files that the server would import and that are not there."""
    return tuple(
        Problem(str(loaded.file or "<text>"), None, key, f"there is no file {file}", "", "")
        for key, path in _iter_references(loaded)
        if (file := _referenced_file(path, loaded.base)) is not None and not file.is_file()
    )


def _iter_references(loaded: Loaded) -> Iterator[tuple[str, str]]:
    server = loaded.server
    for agent in loaded.agents.values():
        if agent.path:
            yield agent.name, agent.path
    if server.auth is not None:
        yield "auth.path", server.auth.path
    yield "http.app", server.http.app
    yield "checkpointer.path", server.checkpointer.path
    yield from (("checkpointer.types", path) for path in server.checkpointer.types)


def _referenced_file(path: str, base: Path) -> Path | None:
    """Return the file that a reference names; one to a module names none."""
    where = path.rpartition(":")[0]
    return base / where if where.endswith(".py") or "/" in where else None


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
    document = read_document(path, report)
    return _load_document(document, report, path.absolute(), check_tools, outside)


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
    document = parse_document(text.encode(errors="surrogatepass"), format, folder, report)
    return _load_document(document, report, None, None, outside)


def load_hooks_from_config(config_path: str | os.PathLike[str], chain: HookChain) -> int:
    """Add the hooks of a file to a chain, and return how many there are.

    Those that are not enabled are left out. Raises `ConfigError` if anything in the file is wrong.
    """
    specs = [spec for spec in load(Path(config_path)).specs if spec.mode != "off"]
    for spec in specs:
        chain.registry.register(spec)
    return len(specs)


def _load_document(
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
    top = read_top_level(document.data, report)
    _check_not_empty(document.data, report)
    variables = read_variables(top.get("env"), document.base, report)
    with set_in_environment(variables.values):
        return _load_with_variables(
            variables, document, top, report, own=own, check_tools=check_tools, outside=outside
        )


def _load_with_variables(
    variables: Variables,
    document: Document,
    top: Mapping[str, Any],
    report: Report,
    *,
    own: tuple[Path, ...],
    check_tools: CheckTools | None,
    outside: Outside | None,
) -> Loaded:
    """Load the content of a file; its variables are set."""
    folder = agents_folder(own[0] if own else None, document.data)
    blueprints = blueprint_files(folder)
    settings = read_settings(top, document.base, report, variables.allowed)
    environment = Environment(settings.env_allow, report)
    server = ServerReader(environment, document.base).read(
        top, variables.values, imports=bool(blueprints)
    )
    gateways = GatewayReader(environment)
    prices = gateways.read_prices(top)
    gateway = gateways.read(top, prices)
    sessions = read_sessions(top, report)
    importer = Importer(
        document.base, outside=outside or _build_outside(server), allow=server.outbound.allow
    )
    before = {*sys.modules.copy()}
    folders = (*settings.python_path, *server.import_path)
    with extend_search_path(settings.python_path, server.import_path):
        model = _read_default_model(top.get("defaults"), environment, importer)
        settings = replace(settings, default_model=model)
        reader = EntryReader(report, environment, settings.defaults)
        reader.read_definitions(top.get("definitions"), ("definitions",))
        builder = HookBuilder(report, importer, settings.defaults, _name_prefix(document.data))
        build_hooks(top.get("hooks"), ("hooks",), reader, builder)
        agents = _read_agents(
            document.data,
            reader,
            builder,
            blueprints,
            check_tools=check_tools,
            default_model=settings.default_model,
        )
        channels = read_channels(top, environment, importer)
        warn_of_unknown_agents(sessions, channels, agents, report)
        modules = own_modules(before, importer.files, folders)
        named = {*blueprints, *([variables.file] if variables.file else ())}
        files = (*own, *sorted(importer.files | module_files(modules) | named))
        report.raise_if_any((*files, *([folder] if folder and folder.is_dir() else ())))
    report.warn_of_unused()
    return Loaded(
        specs=tuple(builder.specs.values()),
        settings=settings,
        warnings=report.all_warnings(),
        file=own[0] if own else None,
        base=document.base,
        files=files,
        modules=tuple(sorted(modules)),
        digest=_compute_digest(document.digest, files[len(own) :]),
        secrets=report.secrets,
        agents=agents,
        server=server,
        gateway=gateway,
        prices=prices or gateway.prices,
        sessions=sessions,
        channels=channels,
        folder=folder,
        definitions=top.get("definitions") or {},
        notes=report.all_notes(),
    )


def _read_default_model(
    defaults: Any, environment: Environment, importer: Importer
) -> ModelConfig | None:
    """Read the model of agents without one, which may have to be imported."""
    given = defaults.get("model") if isinstance(defaults, dict) else None
    if given is None:
        return None
    from checkrail.config.agents import read_default_model

    return read_default_model(given, environment, importer)


def _build_outside(server: ServerConfig) -> Outside:
    """Return what hooks use where there is no server; the file says which hosts they may call."""
    return Outside(secret=server.outbound.webhook_secret, allow=server.outbound.allow)


def _name_prefix(data: Any) -> str:
    """Return the prefix for the names of unnamed hooks: in a blueprint, its agent."""
    return "" if find_blueprint(data) is None else f"{data.get('name')}."


def _read_agents(
    data: Any,
    reader: EntryReader,
    builder: HookBuilder,
    files: Iterable[Path],
    *,
    check_tools: CheckTools | None,
    default_model: ModelConfig | None,
) -> dict[str, AgentConfig]:
    blueprint, files = find_blueprint(data), [*files]
    if blueprint is None and not files and not (isinstance(data, dict) and AGENTS & data.keys()):
        return {}
    from checkrail.config.agent_list import AgentList  # which a file of hooks alone does not need

    agents = AgentList(builder.importer, check_tools, default_model)
    if blueprint is not None:
        agents.read_blueprint_file(data, blueprint, reader)
    elif isinstance(data, dict):
        agents.add_sections(data, reader)
        agents.add_files(files, reader)
        agents.check(builder)
    return agents.agents


def _check_not_empty(data: Any, report: Report) -> None:
    """Refuse an empty file: it may be one that is still being written."""
    meant = "if no hooks are meant, write hooks: {}"
    if data is None or data == {}:
        report.add((), "an empty file", "hooks", meant)
    elif isinstance(data, dict) and data.get("hooks", {}) is None and find_blueprint(data) is None:
        report.add(("hooks",), "found nothing", "points and their hooks", meant)


def _compute_digest(document: str, files: Iterable[Path]) -> str:
    found = hashlib.sha256(document.encode())
    for file in files:
        content = file.read_bytes() if file.is_file() else b""
        found.update(hashlib.sha256(content).digest())
    return found.hexdigest()
