"""Messages of many people beside the same runs over `POST /runs`: what they cost, and their order.

python server_messages.py            on SQLite and PostgreSQL
"""

import asyncio
import json
import statistics
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from time import perf_counter

from server_clients import post_json
from server_processes import Place, Served, server

USERS = 1000
MESSAGES = 10
CLIENTS = 50
ROUNDS = 20
"""In each, a share of the users talks, and as many sessions have the same runs."""


@dataclass(frozen=True)
class Talk:
    """What users said, beside the same runs. Times are in milliseconds, of the wall clock."""

    database: str
    message_cpu: float
    run_cpu: float
    ratio: float
    rate: float  # messages a second
    p50: float  # the model answers at once: all of it is overhead
    p99: float
    run_p99: float
    lost: int
    disordered: int
    memory: float


def measure_messages(place: Place) -> Talk:
    """Let all users talk to a server of their own, and look what became of what they said."""
    with server(place) as served:
        return asyncio.run(_measure(place.name, served))


Say = Callable[..., Awaitable[str]]


async def _measure(database: str, served: Served) -> Talk:
    for say in (_send, _run):
        await _talk(served, say, CLIENTS, "warm")
    costs: dict[Say, list[float]] = {_send: [], _run: []}
    seconds: dict[Say, list[float]] = {_send: [], _run: []}
    wrong, clock = 0, 0.0
    share = USERS // ROUNDS
    for number in range(ROUNDS):
        for say in (_send, _run) if number % 2 else (_run, _send):
            cpu, began = served.cpu_seconds, perf_counter()
            found, bad = await _talk(served, say, share, str(number))
            costs[say].append((served.cpu_seconds - cpu) / len(found) * 1000)
            seconds[say] += found
            wrong += bad
            clock += perf_counter() - began if say is _send else 0
    lost, disordered = await _burst(served)
    ratios = [one / other for one, other in zip(costs[_send], costs[_run], strict=True)]
    cuts = {say: statistics.quantiles(seconds[say], n=100, method="inclusive") for say in costs}
    return Talk(
        database=database,
        message_cpu=statistics.median(costs[_send]),
        run_cpu=statistics.median(costs[_run]),
        ratio=statistics.median(ratios),
        rate=len(seconds[_send]) / clock,
        p50=cuts[_send][49] * 1000,
        p99=cuts[_send][98] * 1000,
        run_p99=cuts[_run][98] * 1000,
        lost=lost,
        disordered=wrong + disordered,
        memory=served.rss_mb,
    )


async def _talk(served: Served, say: Say, users: int, label: str) -> tuple[list[float], int]:
    """Let users talk, each on a connection; return the seconds of each answer, and wrong ones."""
    waiting = iter(range(users))
    found: list[float] = []
    wrong = 0

    async def work() -> None:
        nonlocal wrong
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        for user in waiting:
            session: dict[str, str] = {}
            for number in range(1, MESSAGES + 1):
                began = perf_counter()
                answer = await say((reader, writer), f"u{label}-{user}", session, f"m{number}")
                found.append(perf_counter() - began)
                wrong += answer != f"{number}: m{number}"
        writer.close()

    await asyncio.gather(*(work() for _ in range(min(CLIENTS, users))))
    return found, wrong


async def _send(stream, user: str, session: dict[str, str], text: str) -> str:
    body = {"user_id": user, "content": text, "agent_name": "counter"}
    return (await post_json(*stream, "/messages", body))["reply"]


async def _run(stream, user: str, session: dict[str, str], text: str) -> str:
    body = {"agent_name": "counter", "execution_mode": "sync", "parameters": {"prompt": text}}
    answer = await post_json(*stream, "/runs", body | session)
    session["session_id"] = answer["session_id"]  # the first has opened it
    return answer["result_text"]


async def _burst(served: Served) -> tuple[int, int]:
    """Let users say all at once what they have to say; return what was lost, and out of order."""
    stream = await asyncio.open_connection("127.0.0.1", served.port)
    users = [f"burst-{n}" for n in range(CLIENTS)]

    async def hurry(user: str) -> None:
        own = await asyncio.open_connection("127.0.0.1", served.port)
        for number in range(1, MESSAGES + 1):
            body = {"user_id": user, "content": f"m{number}", "agent_name": "counter"}
            await post_json(*own, "/messages", body | {"wait": False, "message_id": f"{number}"})
        own[1].close()

    await asyncio.gather(*map(hurry, users))
    lost = disordered = 0
    for user in users:  # one that came before is answered as it is, when it has ended
        for number in range(1, MESSAGES + 1):
            body = {"user_id": user, "content": f"m{number}", "agent_name": "counter"}
            again = await post_json(*stream, "/messages", body | {"message_id": f"{number}"})
            lost += again["status"] != "answered"
            disordered += again["reply"] != f"{number}: m{number}"
    stream[1].close()
    return lost, disordered


def main() -> None:
    from server import places

    with places() as both:
        for place in both:
            print(json.dumps(asdict(measure_messages(place)), indent=2), flush=True)


if __name__ == "__main__":
    main()
