"""The bare graph with a checkpointer, as often as it is told, and what that costs.

The checkpointer is LangGraph's own, as its docs set it up, or the server's. It reads `runs clients`
by the line and answers with the CPU seconds that they took.
"""

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from time import process_time

from checkrail.runs.graphs.checkpoints import is_postgres, open_checkpointer
from server_project.graphs import one

POOL = 8


async def main(database: str, checkpointer: str) -> None:
    opened = open_checkpointer if checkpointer == "server" else open_official
    async with opened(database) as saver:
        graph = one.copy(update={"checkpointer": saver})
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            runs, clients = map(int, line.split())
            began = process_time()
            await asyncio.gather(*(_client(graph, runs // clients) for _ in range(clients)))
            print(process_time() - began, flush=True)


@asynccontextmanager
async def open_official(database: str) -> AsyncIterator[object]:
    """Open LangGraph's own checkpointer, on PostgreSQL with a pool for many clients."""
    if not is_postgres(database):
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async with AsyncSqliteSaver.from_conn_string(database) as saver:
            yield saver
        return
    from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
    from psycopg.rows import dict_row
    from psycopg_pool import AsyncConnectionPool

    options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
    pool = AsyncConnectionPool(database, min_size=POOL, max_size=POOL, kwargs=options, open=False)
    async with pool:
        saver = AsyncPostgresSaver(pool)
        await saver.setup()
        yield saver


async def _client(graph, runs: int) -> None:
    for _ in range(runs):
        config = {"configurable": {"thread_id": str(uuid.uuid4())}}
        found = await graph.ainvoke({"count": 1}, config)
        assert found == {"count": 2}


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
