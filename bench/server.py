"""The server beside the bare graph: what a run costs, how long it takes, what stays behind."""

import asyncio
import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from server_clients import STATELESS, THREAD, first_events, wait_for_runs
from server_history import Growth, grown
from server_processes import (
    Floor,
    Place,
    Served,
    floor,
    folder,
    made_database,
    postgres,
    server,
)

DATABASES = ("SQLite", "PostgreSQL")
CLIENTS = (1, 8, 32)
ROUNDS = 9
BURST = 64
WARM_UP = 4 * BURST
RUNS = 10_000


@dataclass(frozen=True)
class Load:
    """Runs that were waited for, beside the same in the bare graph. Times are in milliseconds."""

    database: str
    mode: str
    clients: int
    floor_cpu: float
    server_cpu: float
    ratio: float
    rate: float  # runs a second
    p50: float
    p99: float


@dataclass(frozen=True)
class FirstEvent:
    """How long a stream took to say something, in milliseconds."""

    database: str
    clients: int
    p50: float
    p99: float


@dataclass(frozen=True)
class Memory:
    """What the server holds, in MB: at its start, when it has settled, and at the end."""

    database: str
    start: float
    settled: float
    settled_runs: int
    end: float
    end_runs: int


@dataclass(frozen=True)
class ServerResults:
    loads: list[Load]
    first_events: list[FirstEvent]
    memory: list[Memory]
    growth: list[Growth]


def measure_server() -> ServerResults:
    """Measure on both databases, one after the other."""
    found = ServerResults([], [], [], [])
    with places() as both:
        for place in both:
            with floor(place) as bare, server(place) as served:
                asyncio.run(_measure(place, bare, served, found))
            found.growth.extend(grown(place))
    return found


@contextmanager
def places() -> Iterator[list[Place]]:
    with ExitStack() as stack:
        within = stack.enter_context(folder())
        url = stack.enter_context(postgres(within))
        yield [
            Place(DATABASES[0], _made(within / "sqlite")),
            Place(DATABASES[1], _made(within / "server"), made_database(url, "bench")),
        ]


def _made(path: Path) -> Path:
    path.mkdir()
    return path


async def _measure(place: Place, bare: Floor, served: Served, found: ServerResults) -> None:
    start = served.rss_mb
    bare.cpu_seconds(WARM_UP, 8)
    await wait_for_runs(served.port, STATELESS, WARM_UP, 8)
    loads = [
        await load(place.name, bare, served, mode, clients)
        for mode in (STATELESS, THREAD)
        for clients in CLIENTS
    ]
    found.loads.extend(loads)
    found.first_events.extend([await _first_event(place.name, served, n) for n in CLIENTS])
    done = WARM_UP + BURST * ROUNDS * len(loads) + BURST * len(CLIENTS)
    settled = served.rss_mb
    await wait_for_runs(served.port, STATELESS, RUNS - done, 8)
    found.memory.append(Memory(place.name, start, settled, done, served.rss_mb, RUNS))


async def load(database: str, bare: Floor, served: Served, mode: str, clients: int) -> Load:
    """Alternate bursts of the bare graph and of the server; a ratio is of one round."""
    floors, servers, seconds, clock = [], [], [], 0.0
    loop = asyncio.get_running_loop()
    for _ in range(ROUNDS):
        floors.append(bare.cpu_seconds(BURST, clients) / BURST * 1000)
        cpu, began = served.cpu_seconds, loop.time()
        seconds += await wait_for_runs(served.port, mode, BURST, clients)
        clock += loop.time() - began
        servers.append((served.cpu_seconds - cpu) / BURST * 1000)
    ratios = [cost / base for cost, base in zip(servers, floors, strict=True)]
    return Load(
        database=database,
        mode=mode,
        clients=clients,
        floor_cpu=statistics.median(floors),
        server_cpu=statistics.median(servers),
        ratio=statistics.median(ratios),
        rate=len(seconds) / clock,
        **_percentiles(seconds),
    )


async def _first_event(database: str, served: Served, clients: int) -> FirstEvent:
    seconds = await first_events(served.port, THREAD, BURST, clients)
    return FirstEvent(database, clients, **_percentiles(seconds))


def _percentiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {"p50": cuts[49] * 1000, "p99": cuts[98] * 1000}
