"""A row's dataclass and its table say the same: names, what may be missing, and types."""

import typing
from dataclasses import FrozenInstanceError, fields, replace

import pytest
from sqlalchemy import JSON, Boolean, Double, Integer, LargeBinary, String

from checkrail.llm.call_record import CallRecord
from checkrail.store import (
    agents,
    approvals,
    assistants,
    crons,
    deliveries,
    events,
    idempotency,
    items,
    keys,
    logins,
    messages,
    named_hooks,
    records,
    rollups,
    runs,
    sessions,
    tables,
    threads,
    workers,
)
from checkrail.store.rows import column_values

KINDS = {
    agents.Agent: tables.agents,
    agents.AgentVersion: tables.agent_versions,
    approvals.Approval: tables.approvals,
    assistants.Assistant: tables.assistants,
    assistants.AssistantVersion: tables.assistant_versions,
    crons.Cron: tables.crons,
    deliveries.Delivery: tables.deliveries,
    events.EventRow: tables.events,
    CallRecord: tables.gateway_calls,
    idempotency.StoredRequest: tables.idempotency,
    items.Item: tables.store_items,
    keys.Key: tables.api_keys,
    logins.Login: tables.logins,
    messages.Message: tables.messages,
    named_hooks.NamedHook: tables.named_hooks,
    records.StoredRecord: tables.hook_records,
    rollups.Rollup: tables.rollups,
    runs.Run: tables.runs,
    sessions.Session: tables.sessions,
    threads.Thread: tables.threads,
    workers.Worker: tables.workers,
}
OTHERS = {  # which have no row that anybody is given whole
    tables.agent_set,
    tables.conversations,
    tables.counters,
    tables.receivers,
    tables.state_updates,
    tables.writers,
}
TYPES = ((Boolean, bool), (Double, float), (Integer, int), (LargeBinary, bytes), (String, str))


def test_every_table_has_a_dataclass_or_none_on_purpose():
    assert {*KINDS.values(), *OTHERS} == {*tables.metadata.tables.values()}


@pytest.mark.parametrize(("kind", "table"), KINDS.items(), ids=lambda it: getattr(it, "name", ""))
def test_a_dataclass_has_the_columns_of_its_table(kind, table):
    assert sorted(each.name for each in fields(kind)) == sorted(table.c.keys())
    hints = typing.get_type_hints(kind)
    for column in table.c:
        said = hints[column.name]
        if isinstance(column.type, (JSON, tables.Packed)):
            continue  # what is in JSON is not the table's to say
        optional = type(None) in typing.get_args(said)
        assert optional == column.nullable, column
        plain = next(py for sql, py in TYPES if isinstance(_plain(column.type), sql))
        assert plain in (said, *typing.get_args(said)), column


def _plain(kind):
    return getattr(kind, "impl", kind)


def test_a_row_cannot_be_changed_but_others_are_made_of_it():
    thread = threads.Thread("t", "idle", {}, 0, temporary=False, created_at=1.0, updated_at=1.0)
    with pytest.raises(FrozenInstanceError):
        thread.status = "busy"
    assert replace(thread, status="busy").status == "busy"
    assert threads.Thread(**column_values(thread)) == thread
