"""What is not there: clients look for "not found" in what the official client raises."""

import uuid

import pytest
from langgraph_sdk.errors import NotFoundError

GONE = str(uuid.UUID(int=7, version=4))


@pytest.mark.parametrize(
    "request_it",
    [
        lambda client, _: client.assistants.get(GONE),
        lambda client, _: client.assistants.get_graph(GONE),
        lambda client, _: client.assistants.get_schemas(GONE),
        lambda client, _: client.assistants.get_subgraphs(GONE),
        lambda client, _: client.assistants.update(GONE, metadata={}),
        lambda client, _: client.assistants.delete(GONE),
        lambda client, _: client.threads.get(GONE),
        lambda client, _: client.threads.get_state(GONE),
        lambda client, _: client.threads.update(GONE, metadata={}),
        lambda client, _: client.threads.delete(GONE),
        lambda client, thread: client.threads.get_state(thread, checkpoint_id=GONE),
        lambda client, _: client.runs.create(GONE, "echo"),
        lambda client, _: client.runs.list(GONE),
        lambda client, thread: client.runs.create(thread, GONE),
        lambda client, thread: client.runs.get(thread, GONE),
        lambda client, thread: client.runs.cancel(thread, GONE),
        lambda client, _: client.crons.delete(GONE),
        lambda client, _: client.crons.create_for_thread(GONE, "echo", schedule="0 0 1 1 *"),
    ],
)
async def test_what_is_not_there_is_not_found(client, thread, request_it):
    with pytest.raises(NotFoundError, match="not found"):
        await request_it(client, thread)
