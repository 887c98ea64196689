"""The bare graph with the server's own checkpointer, as often as it is told, and what that costs.

It reads `runs clients` by the line and answers with the CPU seconds that they took.
"""

import asyncio
import sys
import uuid
from time import process_time

from checkrail.runs.graphs.checkpoints import open_checkpointer
from server_project.graphs import one


async def main(database: str) -> None:
    async with open_checkpointer(database) as saver:
        graph = one.copy(update={"checkpointer": saver})
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            runs, clients = map(int, line.split())
            began = process_time()
            await asyncio.gather(*(_client(graph, runs // clients) for _ in range(clients)))
            print(process_time() - began, flush=True)


async def _client(graph, runs: int) -> None:
    for _ in range(runs):
        config = {"configurable": {"thread_id": str(uuid.uuid4())}}
        found = await graph.ainvoke({"count": 1}, config)
        assert found == {"count": 2}


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
