"""Making, changing and removing agents and named hooks: checked first, and then kept at once."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from checkrail.config import ConfigError
from checkrail.config.agents import AGENT_NAME
from checkrail.runs.admission import own_assistant
from checkrail.runs.agents import sync_agents
from checkrail.runs.errors import ConflictError, InvalidError, NotFoundError, TooManyError
from checkrail.runs.made_agents import CHANGED, Kept, MadeAgents
from checkrail.runs.quotas import OwnerQuotas, stored_size
from checkrail.store import agents, assistants, crons, named_hooks
from checkrail.store.database import Tx
from checkrail.store.rows import Row

_TRIES = 5
Job = Callable[[Tx], None]


@dataclass(frozen=True, slots=True)
class Maker:
    """Who makes an agent; one who is `trusted` may have it run code here.

    `quotas` hold for what is stored; none for who has no quotas.
    """

    owner: str
    trusted: bool = False
    quotas: OwnerQuotas | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


class AgentMaking:
    """Changes what the database has of agents; they name each other, so it is one at a time."""

    def __init__(self, made: MadeAgents) -> None:
        self._made = made

    async def create(
        self, name: str, given: Mapping[str, Any], maker: Maker, most: int = 0
    ) -> None:
        """Make a new agent; of one maker there are `most`, 0 is no limit."""

        def planned(kept: Kept) -> Job:
            own = sum(
                bool(row["blueprint"]) and row["owner"] == maker.owner for row in kept.rows.values()
            )
            if own >= most > 0:
                raise TooManyError(
                    f"{maker.owner!r} has {own} agents, and limits.agents_per_owner allows {most}. "
                    "Delete some that are not needed"
                )
            if name in self._made.catalogue or (kept.rows.get(name) or {}).get("blueprint"):
                told = f"there is an agent {name!r} already"
                raise ConflictError(f"{told}. Change it by PATCH or PUT, or take another name")
            row = _row(name, given, maker.owner)
            description = self._checked(kept, row, trusted=maker.trusted)

            def keep(tx: Tx) -> None:
                _count_version(tx, row, maker)
                agents.remove(tx, name)  # a switch of an agent that its file does not have any more
                agents.add(tx, row)
                sync_agents(tx, {name: description}, time.time(), maker.metadata)

            return keep

        await self._carried_out(planned)

    async def revise(
        self, name: str, change: Callable[[Mapping[str, Any]], Mapping[str, Any]], maker: Maker
    ) -> None:
        """Make the next version of an agent; `change` gives it from the blueprint as it is."""

        def planned(kept: Kept) -> Job:
            known = self._own(kept, name)
            row = _row(name, change(_shown(known)), known["owner"])
            same = {"version": known["version"] + 1, "created_at": known["created_at"]}
            row |= same
            description = self._checked(kept, row, trusted=maker.trusted)

            def keep(tx: Tx) -> None:
                _count_version(tx, row, maker, known["stored_bytes"])
                agents.revise(tx, row)
                sync_agents(tx, {name: description}, time.time())

            return keep

        await self._carried_out(planned)

    async def remove(self, name: str) -> None:
        """Remove an agent that nobody refers to, with its assistant and its crons."""

        def planned(kept: Kept) -> Job:
            self._own(kept, name)
            rows = {each: row for each, row in kept.rows.items() if each != name}
            if wrong := self._newly_wrong(kept, rows, kept.definitions):
                raise ConflictError(f"the agent {name!r} is needed: {wrong[0]}", wrong)

            def keep(tx: Tx) -> None:
                agents.remove(tx, name)
                crons.remove_of_assistant(tx, own_assistant(name))
                assistants.remove(tx, own_assistant(name))

            return keep

        await self._carried_out(planned)

    async def switch(self, name: str, *, on: bool) -> None:
        """Switch an agent on or off, be it a file's or not."""
        catalogue = self._made.catalogue

        def planned(kept: Kept) -> Job:
            known, entry = kept.rows.get(name), catalogue.get(name)
            if known is None and entry is None:
                raise missing(name)
            if on and entry is not None and not entry.config.enabled:
                told = f"the agent {name!r} is switched off by {entry.config.source}"
                raise ConflictError(f"{told}. Change it there")
            now = time.time()

            def keep(tx: Tx) -> None:
                if not agents.change(tx, name, enabled=on, updated_at=now):
                    agents.add(tx, _switch(name, now, on=on))

            return keep

        await self._carried_out(planned)

    async def define(self, name: str, definition: Any, maker: Maker) -> None:
        """Define a named hook, or change it for all agents that refer to it."""

        def planned(kept: Kept) -> Job:
            if name in self._made.defined_in_files:
                raise ConflictError(f"the hook {name!r} is defined in the config. Change it there")
            others = {each: one for each, one in kept.definitions.items() if each != name}
            try:
                self._made.check_hook(name, definition, others, trusted=maker.trusted)
            except ConfigError as error:
                raise invalid(f"the hook {name!r} cannot be", error) from None
            changed = {**others, name: definition}
            if wrong := self._newly_wrong(kept, kept.rows, changed):
                told = f"the hook {name!r} does not fit where it is used: {wrong[0]}"
                raise InvalidError(told, wrong)
            return lambda tx: _put(tx, name, maker.owner, definition)

        await self._carried_out(planned)

    async def undefine(self, name: str) -> None:
        """Remove a named hook that nobody refers to."""

        def planned(kept: Kept) -> Job:
            if name in self._made.defined_in_files:
                raise ConflictError(f"the hook {name!r} is defined in the config. Remove it there")
            if name not in kept.hooks:
                raise NotFoundError(f"hook {name!r} not found")
            left = {each: one for each, one in kept.definitions.items() if each != name}
            if wrong := self._newly_wrong(kept, kept.rows, left):
                raise ConflictError(f"the hook {name!r} is needed: {wrong[0]}", wrong)
            return lambda tx: _drop(tx, name)

        await self._carried_out(planned)

    def _own(self, kept: Kept, name: str) -> Row:
        """Find an agent that was made over HTTP; those of files are changed in their files."""
        row, entry = kept.rows.get(name), self._made.catalogue.get(name)
        if entry is not None and not entry.made_over_http:
            raise ConflictError(
                f"the agent {name!r} is declared in {entry.config.source}. Change it there"
            )
        if row is None or row["blueprint"] is None:
            raise missing(name)
        return row

    def _checked(self, kept: Kept, row: Row, *, trusted: bool) -> str | None:
        """See that an agent can be, alone and with all others, and give what it says of itself."""
        name = row["name"]
        if not AGENT_NAME.fullmatch(name):
            told = f"{name!r} is no name for an agent. Use letters, digits, and - _ . between them"
            raise InvalidError(told)
        trusted = trusted and self._made.allow_code
        try:
            config = self._made.config(
                name, row["blueprint"], kept.definitions, owner=row["owner"], trusted=trusted
            )
        except ConfigError as error:
            raise invalid(f"the agent {name!r} cannot be", error) from None
        if wrong := self._newly_wrong(kept, {**kept.rows, name: row}, kept.definitions):
            raise InvalidError(f"the agent {name!r} cannot be: {wrong[0]}", wrong)
        return config.description or None

    def _newly_wrong(
        self, kept: Kept, rows: Mapping[str, Row], definitions: Mapping[str, Any]
    ) -> list[str]:
        """Return what a change makes wrong; what was wrong before is no reason to refuse it."""
        made = self._made
        before, was_broken = made.read(kept.rows, kept.definitions)
        after, broken = made.read(rows, definitions)
        known = {*was_broken.values(), *made.wrong(before)}
        return [each for each in (*broken.values(), *made.wrong(after)) if each not in known]

    async def _carried_out(self, planned: Callable[[Kept], Job]) -> None:
        """Plan a change and keep it; if another process was quicker, plan it again."""
        for _ in range(_TRIES):
            kept = await self._made.renew()
            keep = await asyncio.to_thread(planned, kept)  # it may take long

            def change(tx: Tx, keep: Job = keep, kept: Kept = kept) -> bool:
                if agents.lock_set(tx) != kept.version:
                    return False
                keep(tx)
                tx.tell(*CHANGED)
                return True

            if await self._made.database.write(change):
                await self._made.renew()
                return
        raise ConflictError("others change agents at the same time. Try again")


def missing(name: str) -> NotFoundError:
    """Say that there is no such agent; which there are is not for everybody."""
    return NotFoundError(f"agent {name!r} not found. GET /agents lists those that you may see")


def invalid(told: str, error: ConfigError) -> InvalidError:
    """Return everything that is wrong with a blueprint or a hook, so that it can be corrected."""
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


def _row(name: str, given: Mapping[str, Any], owner: str | None) -> Row:
    now = time.time()
    blueprint = {key: value for key, value in given.items() if key not in ("name", "enabled")}
    return {
        "name": name,
        "version": 1,
        "enabled": given.get("enabled", True),
        "owner": owner,
        "blueprint": blueprint,
        "created_at": now,
        "updated_at": now,
    }


def _count_version(tx: Tx, row: Row, maker: Maker, before: int | None = None) -> None:
    """Count a version of an agent among what is stored of its owner, or raise."""
    size = stored_size(row["blueprint"])
    if maker.quotas is not None:
        maker.quotas.check_bytes(tx, row["owner"], size)
    row["stored_bytes"] = (before or 0) + size


def _shown(row: Row) -> dict[str, Any]:
    return {**row["blueprint"], "enabled": row["enabled"]}


def _switch(name: str, now: float, *, on: bool) -> Row:
    return {
        "name": name,
        "version": 1,
        "enabled": on,
        "owner": None,
        "blueprint": None,
        "created_at": now,
        "updated_at": now,
    }


def _put(tx: Tx, name: str, owner: str, definition: Any) -> None:
    named_hooks.put(tx, name, owner, definition, time.time())


def _drop(tx: Tx, name: str) -> None:
    named_hooks.remove(tx, name)
