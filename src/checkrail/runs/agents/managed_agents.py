"""Agents that were made over HTTP: read from the database, and again whenever one has changed."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from checkrail.actions.outbound import Outbound
from checkrail.actions.outside import Outside
from checkrail.config.agent_cycles import check_calls, find_agent_hook_problems
from checkrail.config.agents import AGENT_NAME, AgentConfig
from checkrail.config.blueprints import load_blueprint, load_blueprint_hooks
from checkrail.config.problems import ConfigError, Report
from checkrail.config.trust import TrustCheck
from checkrail.runs.admit.quotas import OwnerQuotas, stored_size
from checkrail.runs.agents.catalogue import AgentEntry, Catalogue, agent_assistant_id, build_entry
from checkrail.runs.agents.factory import AgentFactory
from checkrail.runs.errors import (
    ChangedError,
    ConflictError,
    InvalidError,
    NotFoundError,
    RequestError,
    TooManyError,
)
from checkrail.runs.events.hub import Hub, Wakeup
from checkrail.store import agents, assistants, crons, named_hooks
from checkrail.store.agents import Agent
from checkrail.store.assistants import Assistant
from checkrail.store.database import Database, Reads, Tx
from checkrail.store.named_hooks import NamedHook

METADATA = {"created_by": "system"}


def sync_agents(
    tx: Tx,
    agents: Mapping[str, str | None],
    now: float,
    metadata: Mapping[str, Any] | None = None,
) -> None:
    """Store an assistant for each agent, by its name and description; any number of times.

    `metadata` is for assistants that are new.
    """
    noted = {**(metadata or {}), **METADATA}
    rows = [_new_assistant(name, description, noted, now) for name, description in agents.items()]
    # Always in one order: two servers that start at once wait for each other, but not in a circle.
    for row in sorted(rows, key=lambda row: row.assistant_id):
        if not assistants.add(tx, row):
            _update_assistant(tx, row)


def _update_assistant(tx: Tx, row: Assistant) -> None:
    """Update an assistant from the config, unless somebody has revised it since."""
    kept = assistants.lock(tx, row.assistant_id)
    if kept is None or kept.owner is not None or kept.graph_id != row.graph_id:
        assistants.remove(tx, row.assistant_id)  # the id is the agent's, whoever took it
        assistants.add(tx, row)
    elif kept.version == 1 and kept.description != row.description:
        assistants.update_description(tx, row.assistant_id, row.description, row.updated_at)


def _new_assistant(
    name: str, description: str | None, metadata: dict[str, Any], now: float
) -> Assistant:
    return Assistant(
        assistant_id=agent_assistant_id(name),
        graph_id=name,
        name=name,
        description=description,
        config={},
        context={},
        metadata=metadata,
        version=1,
        created_at=now,
        updated_at=now,
    )


log = logging.getLogger("checkrail.runs")

CHANGED = ("agents", "")
"""Told whenever an agent or a named hook has changed."""

_SERVER = ""  # stands for the hooks of the server itself
_LOOK_EVERY = 5.0  # seconds: behind the bell, in case a word was lost


@dataclass(frozen=True, slots=True)
class StoredAgents:
    """What the database has: agents by name, and the named hooks that they may refer to."""

    rows: Mapping[str, Agent] = field(default_factory=dict)
    hooks: Mapping[str, NamedHook] = field(default_factory=dict)
    version: int | None = None  # of the set

    @property
    def definitions(self) -> dict[str, Any]:
        """The named hooks as they were defined."""
        return {name: row.definition for name, row in self.hooks.items()}


def _load_stored(reads: Reads, known: StoredAgents) -> StoredAgents:
    """Return what the database has; what is known already if nothing has changed."""
    version = agents.set_version(reads)  # first: what comes in between is looked for again
    if version == known.version:
        return known
    rows = {row.name: row for row in agents.all_by_name(reads)}
    return StoredAgents(rows, {row.name: row for row in named_hooks.all_by_name(reads)}, version)


class ManagedAgents:
    """Keeps the catalogue up to date with the agents that were created over HTTP.

    Their blueprints may run no code here, unless the config says `allow_code`. Those that cannot
    be read, for what they refer to is gone, are `broken`: by name, with the reason.
    """

    def __init__(
        self,
        database: Database,
        catalogue: Catalogue,
        workshop: AgentFactory,
        *,
        outbound: Outbound,
        outside: Outside,
        allow_code: bool = False,
    ) -> None:
        self.database = database
        self.catalogue = catalogue
        self.allow_code = allow_code
        self.kept = StoredAgents()
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
        with Wakeup(hub, CHANGED) as bell:
            while True:
                await bell.wait(_LOOK_EVERY)
                try:
                    await self.refresh()
                except Exception:
                    log.exception("the agents could not be read; it is tried again")

    async def refresh(self, *, anew: bool = False, patient: bool = False) -> StoredAgents:
        """Read them if any has changed; `anew` also if not, because the files have."""
        async with self._renewing:
            known = StoredAgents() if anew else self.kept
            found = await self.database.read(
                lambda reads: _load_stored(reads, known), patient=patient
            )
            if found is not known:
                await self._apply_stored(found, known)
            return self.kept

    async def _apply_stored(self, found: StoredAgents, known: StoredAgents) -> None:
        """Apply what the database has; agents that are as they are `known` stay as they are."""
        same = {
            name: entry
            for name, row in found.rows.items()
            if found.hooks == known.hooks and row == known.rows.get(name)
            if (entry := self.catalogue.get_managed(name)) is not None
        }
        changed = {name: row for name, row in found.rows.items() if name not in same}
        made, broken = await asyncio.to_thread(self.build_entries, changed, found.definitions)
        for name, told in broken.items():
            if self.broken.get(name) != told:
                log.error("the agent %s cannot be used: %s", name, told)
        off = frozenset(name for name, row in found.rows.items() if not row.enabled)
        self.catalogue.set_managed(same | made, off, broken, found.version)
        self._workshop.update_project(self._workshop.loaded)
        self.kept = found

    def build_entries(
        self, rows: Mapping[str, Agent], definitions: Mapping[str, Any]
    ) -> tuple[dict[str, AgentEntry], dict[str, str]]:
        """Return the entries of agents, and the reasons for those that cannot be built."""
        made: dict[str, AgentEntry] = {}
        broken: dict[str, str] = {}
        for name, row in rows.items():
            if row.blueprint is None:
                continue
            try:
                config = self.read_blueprint(name, row.blueprint, definitions, owner=row.owner)
                told = {"version": row.version, "blueprint": row.blueprint}
                made[name] = build_entry(config, made_over_http=True, **told)
            except ConfigError as error:
                broken[name] = str(error)
            except Exception as error:  # it is one agent's, and no reason to forget all others
                log.exception("the agent %s could not be read", name)
                broken[name] = f"reading it failed with {type(error).__name__}"
        return made, broken

    def read_blueprint(
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
            TrustCheck(report, self._outbound).check_agent(blueprint)
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
        """Return the secret that signs the requests of an agent's own http hooks, or None."""
        return self._outside.signing_secret((self.kept.rows[name].owner or "", name))

    def check_hook(
        self, name: str, definition: Any, definitions: Mapping[str, Any], *, trusted: bool
    ) -> None:
        """Raise `ConfigError` with what is wrong with a named hook."""
        label = f"hook {name!r}"
        if not trusted:
            report = Report(label)
            TrustCheck(report, self._outbound).check_hook(definition, ())
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

    def reference_problems(self, made: Mapping[str, AgentEntry]) -> list[str]:
        """Return which agents call others that do not exist, or that lead back to them."""
        configs = {name: entry.config for name, entry in made.items()}
        configs |= {entry.name: entry.config for entry in self.catalogue.declared_agents}
        reports = {name: Report(f"agent {name!r}") for name in configs}
        check_calls(configs, reports)
        found = [str(problem) for each in reports.values() for problem in each.problems]
        hooks = {name: config.hooks for name, config in configs.items()}
        hooks[_SERVER] = self._workshop.loaded.specs
        for agent, hook, told in find_agent_hook_problems(hooks):
            who = f"agent {agent!r}" if agent != _SERVER else "the server"
            found.append(f"{who} hook {hook!r}: {told}")
        return found


_TRIES = 5
Job = Callable[[Tx], None]


@dataclass(frozen=True, slots=True)
class AgentCreator:
    """Who creates an agent; one who is `trusted` may have it run code here.

    `quotas` hold for what is stored; none for who has no quotas.
    """

    owner: str
    trusted: bool = False
    quotas: OwnerQuotas | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


class AgentEditor:
    """Changes agents and named hooks in the database, one change at a time."""

    def __init__(self, made: ManagedAgents) -> None:
        self._made = made

    async def create(
        self, name: str, given: Mapping[str, Any], maker: AgentCreator, most: int = 0
    ) -> None:
        """Create an agent; of one owner there are at most `most`, 0 is no limit."""

        def plan_creation(kept: StoredAgents) -> Job:
            own = sum(
                bool(row.blueprint) and row.owner == maker.owner for row in kept.rows.values()
            )
            if own >= most > 0:
                raise TooManyError(
                    f"{maker.owner!r} has {own} agents, and limits.agents_per_owner allows {most}. "
                    "Delete some that are not needed"
                )
            known = kept.rows.get(name)
            if name in self._made.catalogue or (known is not None and known.blueprint):
                told = f"there is an agent {name!r} already"
                raise ConflictError(f"{told}. Change it by PATCH or PUT, or take another name")
            made = _new_agent(name, given, maker.owner)
            description = self._check_agent(kept, made, trusted=maker.trusted)

            def store_agent(tx: Tx) -> None:
                counted = _count_version(tx, made, maker)
                agents.remove(tx, name)  # a switch of an agent that its file does not have any more
                agents.add(tx, counted)
                sync_agents(tx, {name: description}, time.time(), maker.metadata)

            return store_agent

        await self._apply_change(plan_creation)

    async def revise(
        self,
        name: str,
        change: Callable[[Mapping[str, Any]], Mapping[str, Any]],
        maker: AgentCreator,
        *,
        expected: int | None = None,
        note: str | None = None,
    ) -> None:
        """Store the next version of an agent; `change` makes it from the current blueprint.

        With `expected`, that has to be of this version.
        """

        def plan_revision(kept: StoredAgents) -> Job:
            known = self._find_managed(kept, name)
            if expected is not None and known.version != expected:
                told = f"the agent {name!r} is at version {known.version}, not {expected}"
                raise ChangedError(f"{told}. Read it again, and make your change on that")
            made = replace(
                _new_agent(name, change(_blueprint_of(known)), known.owner),
                version=known.version + 1,
                created_at=known.created_at,
            )
            description = self._check_agent(kept, made, trusted=maker.trusted)

            def store_version(tx: Tx) -> None:
                agents.add_version(tx, _count_version(tx, made, maker, known.stored_bytes), note)
                sync_agents(tx, {name: description}, time.time())

            return store_version

        await self._apply_change(plan_revision)

    async def remove(self, name: str) -> None:
        """Remove an agent that nobody refers to, with its assistant and its crons."""

        def plan_removal(kept: StoredAgents) -> Job:
            self._find_managed(kept, name)
            rows = {each: row for each, row in kept.rows.items() if each != name}
            if wrong := self._new_problems(kept, rows, kept.definitions):
                raise ConflictError(f"the agent {name!r} cannot be removed: {wrong[0]}", wrong)

            def remove_agent(tx: Tx) -> None:
                agents.remove(tx, name)
                crons.remove_of_assistant(tx, agent_assistant_id(name))
                assistants.remove(tx, agent_assistant_id(name))

            return remove_agent

        await self._apply_change(plan_removal)

    async def switch(self, name: str, *, on: bool) -> None:
        """Switch an agent on or off, whether a file declares it or not."""
        catalogue = self._made.catalogue

        def plan_switch(kept: StoredAgents) -> Job:
            known, entry = kept.rows.get(name), catalogue.get(name)
            if known is None and entry is None:
                raise agent_not_found(name)
            if on and entry is not None and not entry.config.enabled:
                told = f"the agent {name!r} is switched off by {entry.config.source}"
                raise ConflictError(f"{told}. Change it there")
            now = time.time()

            def store_switch(tx: Tx) -> None:
                if not agents.update_agent(tx, name, enabled=on, updated_at=now):
                    agents.add(tx, Agent(name, 1, on, now, now))

            return store_switch

        await self._apply_change(plan_switch)

    async def define_hook(self, name: str, definition: Any, maker: AgentCreator) -> None:
        """Define a named hook, or change it for all agents that refer to it."""

        def plan_definition(kept: StoredAgents) -> Job:
            if name in self._made.defined_in_files:
                raise ConflictError(f"the hook {name!r} is defined in the config. Change it there")
            others = {each: one for each, one in kept.definitions.items() if each != name}
            try:
                self._made.check_hook(name, definition, others, trusted=maker.trusted)
            except ConfigError as error:
                raise invalid_definition(f"the hook {name!r} cannot be", error) from None
            changed = {**others, name: definition}
            if wrong := self._new_problems(kept, kept.rows, changed):
                told = f"the hook {name!r} does not fit where it is used: {wrong[0]}"
                raise InvalidError(told, wrong)
            return lambda tx: _store_hook(tx, name, maker.owner, definition)

        await self._apply_change(plan_definition)

    async def remove_hook(self, name: str) -> None:
        """Remove a named hook that nobody refers to."""

        def plan_removal(kept: StoredAgents) -> Job:
            if name in self._made.defined_in_files:
                raise ConflictError(f"the hook {name!r} is defined in the config. Remove it there")
            if name not in kept.hooks:
                raise NotFoundError(f"hook {name!r} not found")
            left = {each: one for each, one in kept.definitions.items() if each != name}
            if wrong := self._new_problems(kept, kept.rows, left):
                raise ConflictError(f"the hook {name!r} cannot be removed: {wrong[0]}", wrong)
            return lambda tx: _delete_hook(tx, name)

        await self._apply_change(plan_removal)

    async def check_draft(
        self, name: str, given: Mapping[str, Any], maker: AgentCreator
    ) -> tuple[AgentConfig | None, list[Any]]:
        """Return a blueprint as it is read, and what would be wrong with it; nothing is stored."""
        kept = await self._made.refresh()
        known = kept.rows.get(name)
        owner = maker.owner if known is None else known.owner or maker.owner

        def check() -> tuple[AgentConfig | None, list[Any]]:
            draft = _new_agent(name, given, owner)
            trusted = maker.trusted and self._made.allow_code
            try:
                self._check_agent(kept, draft, trusted=trusted)
            except RequestError as error:
                found = error.detail if isinstance(error.detail, list) else []
                return None, [*found] or [str(error)]
            read = self._made.read_blueprint
            return read(name, draft.blueprint, kept.definitions, owner=owner, trusted=trusted), []

        return await asyncio.to_thread(check)

    def _find_managed(self, kept: StoredAgents, name: str) -> Agent:
        """Return the row of an agent created over HTTP; those of files are changed in files."""
        row, entry = kept.rows.get(name), self._made.catalogue.get(name)
        if entry is not None and not entry.made_over_http:
            raise ConflictError(
                f"the agent {name!r} is declared in {entry.config.source}. Change it there"
            )
        if row is None or row.blueprint is None:
            raise agent_not_found(name)
        return row

    def _check_agent(self, kept: StoredAgents, row: Agent, *, trusted: bool) -> str | None:
        """Check an agent, alone and with all others, and return its description."""
        name = row.name
        if not AGENT_NAME.fullmatch(name):
            told = f"{name!r} is no name for an agent. Use letters, digits, and - _ . between them"
            raise InvalidError(told)
        trusted = trusted and self._made.allow_code
        try:
            config = self._made.read_blueprint(
                name, row.blueprint, kept.definitions, owner=row.owner, trusted=trusted
            )
        except ConfigError as error:
            raise invalid_definition(f"the agent {name!r} is invalid", error) from None
        if wrong := self._new_problems(kept, {**kept.rows, name: row}, kept.definitions):
            raise InvalidError(f"the agent {name!r} is invalid: {wrong[0]}", wrong)
        return config.description or None

    def _new_problems(
        self, kept: StoredAgents, rows: Mapping[str, Agent], definitions: Mapping[str, Any]
    ) -> list[str]:
        """Return the problems that a change causes; older ones are no reason to refuse it."""
        made = self._made
        before, was_broken = made.build_entries(kept.rows, kept.definitions)
        after, broken = made.build_entries(rows, definitions)
        known = {*was_broken.values(), *made.reference_problems(before)}
        return [
            each
            for each in (*broken.values(), *made.reference_problems(after))
            if each not in known
        ]

    async def _apply_change(self, planned: Callable[[StoredAgents], Job]) -> None:
        """Plan a change and store it; if another process was quicker, plan it again."""
        for _ in range(_TRIES):
            kept = await self._made.refresh()
            keep = await asyncio.to_thread(planned, kept)  # it may take long

            def change(tx: Tx, keep: Job = keep, kept: StoredAgents = kept) -> bool:
                if agents.lock_set(tx) != kept.version:
                    return False
                keep(tx)
                tx.publish(*CHANGED)
                return True

            if await self._made.database.write(change):
                await self._made.refresh()
                return
        raise ConflictError("others change agents at the same time. Try again")


def agent_not_found(name: str) -> NotFoundError:
    """Return the error for an agent that does not exist, without listing those that do."""
    return NotFoundError(f"agent {name!r} not found. GET /agents lists those that you may see")


def invalid_definition(told: str, error: ConfigError) -> InvalidError:
    """Return the error with everything that is wrong with a blueprint or a hook."""
    detail = [
        {
            "path": each.path,
            "message": each.found,
            "expected": each.expected or None,
            "hint": each.hint or None,
        }
        for each in error.problems
    ]
    first = error.problems[0]
    place = f"{first.path}: " if first.path else ""
    return InvalidError(f"{told}: {place}{first.found}", detail)


def _new_agent(name: str, given: Mapping[str, Any], owner: str | None) -> Agent:
    now = time.time()
    blueprint = {key: value for key, value in given.items() if key not in ("name", "enabled")}
    return Agent(
        name=name,
        version=1,
        enabled=given.get("enabled", True),
        owner=owner,
        blueprint=blueprint,
        created_at=now,
        updated_at=now,
    )


def _count_version(tx: Tx, agent: Agent, maker: AgentCreator, before: int | None = None) -> Agent:
    """Return an agent with a version that counts among what is stored of its owner, or raise."""
    size = stored_size(agent.blueprint)
    if maker.quotas is not None:
        maker.quotas.check_bytes(tx, agent.owner or maker.owner, size)
    return replace(agent, stored_bytes=(before or 0) + size)


def _blueprint_of(agent: Agent) -> dict[str, Any]:
    return {**agent.blueprint, "enabled": agent.enabled}


def _store_hook(tx: Tx, name: str, owner: str, definition: Any) -> None:
    named_hooks.put(tx, name, owner, definition, time.time())


def _delete_hook(tx: Tx, name: str) -> None:
    named_hooks.remove(tx, name)
