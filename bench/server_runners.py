"""Runners that wait for work: how long it takes from asking for a run to its start on one."""

import asyncio
import statistics
from dataclasses import dataclass
from time import perf_counter

import httpx

RUNNERS = (1, 10, 100)
ASKED = 150
WARM_UP = 20
REST = 0.03  # seconds in which a run ends, and its runner polls again: they are to be idle
AGENT = "away"  # which needs a tag that only these runners have


@dataclass(frozen=True)
class Pickup:
    """From `POST /runs` to the start of its execution on an idle runner, in milliseconds."""

    runners: int
    p50: float
    p99: float


def measure_pickups(port: int) -> list[Pickup]:
    return [asyncio.run(_measured(port, runners)) for runners in RUNNERS]


async def _measured(port: int, runners: int) -> Pickup:
    limits = httpx.Limits(max_connections=None)
    url = f"http://127.0.0.1:{port}"
    async with httpx.AsyncClient(base_url=url, timeout=120, limits=limits) as http:
        started: dict[str, float] = {}
        news = asyncio.Condition()
        waiting = [
            asyncio.create_task(_runner(http, number, started, news)) for number in range(runners)
        ]
        await asyncio.sleep(1)  # all of them are polling
        taken = [await _taken(http, started, news) for _ in range(WARM_UP + ASKED)][WARM_UP:]
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    taken.sort()
    return Pickup(runners, statistics.median(taken), taken[int(len(taken) * 0.99)])


async def _taken(
    http: httpx.AsyncClient, started: dict[str, float], news: asyncio.Condition
) -> float:
    """Ask for a run, and say after how long a runner had it."""
    body = {"agent_name": AGENT, "parameters": {}}
    began = perf_counter()
    run = (await http.post("/runs", json=body)).json()["run_id"]
    async with news:
        await news.wait_for(lambda: run in started)
    await asyncio.sleep(REST)
    return (started[run] - began) * 1000


async def _runner(
    http: httpx.AsyncClient, number: int, started: dict[str, float], news: asyncio.Condition
) -> None:
    """Take runs as a runner does, and say at once that they are done."""
    told = {"name": f"bench-{number}", "tags": [AGENT], "agents": [AGENT], "capacity": 1}
    runner = (await http.post("/runner/register", json=told)).json()
    headers = {"X-Runner-Id": runner["runner_id"]}
    try:
        while True:
            answer = await http.get("/runner/runs", params={"room": 1}, headers=headers)
            now = perf_counter()
            for claim in answer.json()["runs"] if answer.status_code == 200 else ():
                run = claim["run"]
                async with news:
                    started[run["run_id"]] = now
                    news.notify_all()
                done = {"attempt": run["attempt"], "output": {}}
                path = f"/runner/runs/{run['run_id']}/completed"
                (await http.post(path, json=done, headers=headers)).raise_for_status()
    finally:
        await asyncio.shield(http.post("/runner/deregister", headers=headers))
