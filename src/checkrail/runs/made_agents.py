"""Agents that were made over HTTP: read from the database, and again whenever one has changed."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checkrail.actions.outbound import Outbound
from checkrail.actions.outside import Outside
from checkrail.config import AgentConfig, ConfigError, load_blueprint, load_blueprint_hooks
from checkrail.config.agent_calls import check_calls
from checkrail.config.agent_circles import problems
from checkrail.config.problems import Report
from checkrail.config.trust import Trust
from checkrail.runs.catalogue import Catalogue, Entry, entry_of
from checkrail.runs.hub import Bell, Hub
from checkrail.runs.workshop import Workshop
from checkrail.store import agents, named_hooks
from checkrail.store.database import Database, Reads
from checkrail.store.rows import Row

log = logging.getLogger("checkrail.runs")

CHANGED = ("agents", "")
"""Told whenever an agent or a named hook has changed."""

_SERVER = ""  # stands for the hooks of the server itself
_LOOK_EVERY = 5.0  # seconds: behind the bell, in case a word was lost


@dataclass(frozen=True, slots=True)
class Kept:
    """What the database has: agents by name, and the named hooks that they may refer to."""

    rows: Mapping[str, Row] = field(default_factory=dict)
    hooks: Mapping[str, Row] = field(default_factory=dict)
    version: int | None = None  # of the set

    @property
    def definitions(self) -> dict[str, Any]:
        """The named hooks as they were defined."""
        return {name: row["definition"] for name, row in self.hooks.items()}


def _kept(reads: Reads, known: Kept) -> Kept:
    """Return what the database has; what is known already if nothing has changed."""
    version = agents.set_version(reads)  # first: what comes in between is looked for again
    if version == known.version:
        return known
    rows = {row["name"]: row for row in agents.everything(reads)}
    return Kept(rows, {row["name"]: row for row in named_hooks.everything(reads)}, version)


class MadeAgents:
    """Keeps the catalogue up to date with the agents that were made over HTTP.

    Their blueprints may run no code here, unless the config says `allow_code`. Those that cannot
    be read, for what they refer to is gone, are `broken`: by name, with the reason.
    """

    def __init__(
        self,
        database: Database,
        catalogue: Catalogue,
        workshop: Workshop,
        *,
        outbound: Outbound,
        outside: Outside,
        allow_code: bool = False,
    ) -> None:
        self.database = database
        self.catalogue = catalogue
        self.allow_code = allow_code
        self.kept = Kept()
        self._workshop = workshop
        self._outbound = outbound
        self._outside = outside
        self._renewing = asyncio.Lock()

    @property
    def broken(self) -> Mapping[str, str]:
        """The agents that cannot be used, by name with the reason."""
        return self.catalogue.broken

    @property
    def defined_in_files(self) -> Mapping[str, Any]:
        """The named hooks of the config."""
        return self._workshop.loaded.definitions

    async def serve(self, hub: Hub) -> None:
        """Read them whenever another process has changed one, until cancelled."""
        with Bell(hub, CHANGED) as bell:
            while True:
                await bell.wait(_LOOK_EVERY)
                try:
                    await self.renew()
                except Exception:
                    log.exception("the agents could not be read; it is tried again")

    async def renew(self, *, anew: bool = False, patient: bool = False) -> Kept:
        """Read them if any has changed; `anew` also if not, for the files have."""
        async with self._renewing:
            known = Kept() if anew else self.kept
            found = await self.database.read(lambda reads: _kept(reads, known), patient=patient)
            if found is not known:
                await self._take(found, known)
            return self.kept

    async def _take(self, found: Kept, known: Kept) -> None:
        """Take what the database has; agents that are as they are `known` stay as they are."""
        same = {
            name: entry
            for name, row in found.rows.items()
            if found.hooks == known.hooks and row == known.rows.get(name)
            if (entry := self.catalogue.made(name)) is not None
        }
        changed = {name: row for name, row in found.rows.items() if name not in same}
        made, broken = await asyncio.to_thread(self.read, changed, found.definitions)
        for name, told in broken.items():
            if self.broken.get(name) != told:
                log.error("the agent %s cannot be used: %s", name, told)
        off = frozenset(name for name, row in found.rows.items() if not row["enabled"])
        self.catalogue.take_made(same | made, off, broken, found.version)
        self._workshop.renew(self._workshop.loaded)
        self.kept = found

    def read(
        self, rows: Mapping[str, Row], definitions: Mapping[str, Any]
    ) -> tuple[dict[str, Entry], dict[str, str]]:
        """Make entries of agents, and say why of those of which none can be made."""
        made: dict[str, Entry] = {}
        broken: dict[str, str] = {}
        for name, row in rows.items():
            if row["blueprint"] is None:
                continue
            try:
                config = self.config(name, row["blueprint"], definitions, owner=row["owner"])
                told = {"version": row["version"], "blueprint": row["blueprint"]}
                made[name] = entry_of(config, made_over_http=True, **told)
            except ConfigError as error:
                broken[name] = str(error)
            except Exception as error:  # it is one agent's, and no reason to forget all others
                log.exception("the agent %s could not be read", name)
                broken[name] = f"reading it failed with {type(error).__name__}"
        return made, broken

    def config(
        self,
        name: str,
        blueprint: Mapping[str, Any],
        definitions: Mapping[str, Any],
        *,
        owner: str | None,
        trusted: bool | None = None,
    ) -> AgentConfig:
        """Read a blueprint, or raise `ConfigError`; what is stored was checked when it came."""
        label = f"agent {name!r}"
        if not (self.allow_code if trusted is None else trusted):
            report = Report(label)
            Trust(report, self._outbound).agent(blueprint)
            report.raise_if_any()
        loaded = self._workshop.loaded
        return load_blueprint(
            {"name": name, **blueprint},
            base=loaded.base,
            settings=loaded.settings,
            definitions={**definitions, **loaded.definitions},
            name=label,
            outside=self._outside,
            signer=(owner or "", name),
        )

    def signing_secret(self, name: str) -> str | None:
        """Return what signs the requests of an agent's own http hooks, if there is a secret."""
        return self._outside.signing_secret((self.kept.rows[name]["owner"] or "", name))

    def check_hook(
        self, name: str, definition: Any, definitions: Mapping[str, Any], *, trusted: bool
    ) -> None:
        """Raise `ConfigError` with what is wrong with a named hook."""
        label = f"hook {name!r}"
        if not trusted:
            report = Report(label)
            Trust(report, self._outbound).hook(definition, ())
            report.raise_if_any()
        loaded = self._workshop.loaded
        load_blueprint_hooks(
            "named",
            None,
            base=loaded.base,
            settings=loaded.settings,
            definitions={**definitions, name: definition, **loaded.definitions},
            name=label,
            outside=self._outside,
        )

    def wrong(self, made: Mapping[str, Entry]) -> list[str]:
        """Return which agents call others that are not there, or that lead back to them."""
        configs = {name: entry.config for name, entry in made.items()}
        configs |= {entry.name: entry.config for entry in self.catalogue.of_files}
        reports = {name: Report(f"agent {name!r}") for name in configs}
        check_calls(configs, reports)
        found = [str(problem) for each in reports.values() for problem in each.problems]
        hooks = {name: config.hooks for name, config in configs.items()}
        hooks[_SERVER] = self._workshop.loaded.specs
        for agent, hook, told in problems(hooks):
            who = f"agent {agent!r}" if agent != _SERVER else "the server"
            found.append(f"{who} hook {hook!r}: {told}")
        return found
