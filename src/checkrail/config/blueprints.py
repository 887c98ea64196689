"""Blueprints that come from elsewhere than a file, such as a request: an agent, or its hooks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from checkrail.actions.outside import Outside
from checkrail.config.agent_list import AgentList
from checkrail.config.agent_tools import CheckTools
from checkrail.config.agents import AGENT_NAME, AgentConfig
from checkrail.config.builder import HookBuilder, build_hooks
from checkrail.config.entries import EntryReader
from checkrail.config.environment import Environment
from checkrail.config.imports import Importer
from checkrail.config.problems import Report, Where
from checkrail.config.settings import Settings
from checkrail.engine.hook import HookSpec

log = logging.getLogger("checkrail.config")

Definitions = Mapping[str, Any]


def load_blueprint(
    blueprint: Mapping[str, Any],
    *,
    base: str | Path | None = None,
    settings: Settings | None = None,
    definitions: Definitions | None = None,
    name: str | None = None,
    check_tools: CheckTools | None = None,
    outside: Outside | None = None,
    signer: tuple[str, ...] = (),
) -> AgentConfig:
    """Load an agent's blueprint, which has its `name`, or raise `ConfigError`.

    `settings` and `definitions` are those of the project. With a `signer`, requests to places that
    the blueprint names itself are signed with a secret of the signer's own. Whether the agents that
    it calls are there is not looked at: `agent_cycles.check_calls` does that for all of them.
    """
    report = Report(name or f"agent {blueprint.get('name')!r}")
    importer = _build_importer(base, outside)
    importer.signer = signer
    own = blueprint.get("definitions")
    importer.lent = frozenset(definitions or ()) - frozenset(own if isinstance(own, dict) else ())
    reader = _build_reader(report, settings, definitions)
    agents = AgentList(importer, check_tools, settings.default_model if settings else None)
    agent = agents.read_blueprint(dict(blueprint), reader)
    _raise_problems(report, importer)
    if agent is None:  # pragma: no cover - an agent or a problem
        raise AssertionError(report.file)
    return agent


def load_blueprint_hooks(
    agent_name: str,
    hooks: Mapping[str, Any] | None,
    *,
    base: str | Path | None = None,
    settings: Settings | None = None,
    definitions: Definitions | None = None,
    name: str | None = None,
    lines: Mapping[Where, int] | None = None,
    outside: Outside | None = None,
) -> tuple[HookSpec, ...]:
    """Load the hooks of an agent's blueprint; unnamed ones are called `<agent>.<point>`.

    `lines` are those of the document that the blueprint came from, by places that begin with
    `hooks`; without them, problems tell the place alone.
    """
    report = Report(name or f"agent {agent_name!r}", lines)
    if not AGENT_NAME.fullmatch(agent_name):
        expected = "letters, digits, and - _ . between them"
        report.add((), f"the agent name {agent_name!r}", expected, "a name is no path")
    importer = _build_importer(base, outside)
    reader = _build_reader(report, settings, definitions)
    builder = HookBuilder(report, importer, reader.defaults, f"{agent_name}.")
    build_hooks(dict(hooks or {}), ("hooks",), reader, builder)
    _raise_problems(report, importer)
    return tuple(builder.specs.values())


def _build_importer(base: str | Path | None, outside: Outside | None) -> Importer:
    return Importer(Path.cwd() if base is None else Path(base), outside=outside or Outside())


def _build_reader(
    report: Report, settings: Settings | None, definitions: Definitions | None
) -> EntryReader:
    settings = settings or Settings()
    reader = EntryReader(report, Environment(settings.env_allow, report), settings.defaults)
    reader.read_definitions(dict(definitions or {}), ("definitions",))
    return reader


def _raise_problems(report: Report, importer: Importer) -> None:
    """Raise the problems that were found; warnings are logged."""
    report.raise_if_any(sorted(importer.files))
    for warning in report.warnings:
        log.warning("%s", warning)
