"""The server beside the bare graph: what a run costs, how long it takes, what stays behind."""

import asyncio
import statistics
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

from server_clients import STATELESS, THREAD, first_events, wait_for_runs
from server_history import Growth, grown
from server_messages import Talk, measure_messages
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
from server_reference import ReferenceResults, measure_beside_reference
from server_runners import Pickup, measure_pickups

DATABASES = ("SQLite", "PostgreSQL")
CHECKPOINTERS = ("official", "server")
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
    floor_cpu: float  # with LangGraph's own checkpointer
    same_cpu: float  # with the server's
    server_cpu: float
    ratio: float  # to the former
    same_ratio: float
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
    pickups: list[Pickup]
    talks: list[Talk]
    reference: ReferenceResults | None = None


def measure_server(*, with_peers: bool) -> ServerResults:
    """Measure on both databases, one after the other, and then beside LangGraph's own server."""
    found = ServerResults([], [], [], [], [], [])
    with places() as both:
        for place in both:
            with ExitStack() as started:
                floors = [started.enter_context(floor(place, each)) for each in CHECKPOINTERS]
                served = started.enter_context(server(place))
                asyncio.run(_measure(place, floors, served, found))
                if place.url:
                    found.pickups.extend(measure_pickups(served.port))
            found.growth.extend(grown(place))
            found.talks.append(measure_messages(apart(place)))
    return replace(found, reference=_beside_reference()) if with_peers else found


def _beside_reference() -> ReferenceResults:
    with places() as both:
        return measure_beside_reference(both, both[0].folder)


@contextmanager
def places() -> Iterator[list[Place]]:
    with ExitStack() as stack:
        within = stack.enter_context(folder())
        url = stack.enter_context(postgres(within))
        yield [
            Place(DATABASES[0], _made(within / "sqlite")),
            Place(DATABASES[1], _made(within / "server"), made_database(url, "bench")),
        ]


def apart(place: Place) -> Place:
    """Return a place beside another one, for a server that shares nothing with it."""
    within = _made(place.folder / "messages")
    url = made_database(place.url, "messages") if place.url else None
    return Place(place.name, within, url)


def _made(path: Path) -> Path:
    path.mkdir()
    return path


async def _measure(place: Place, floors: list[Floor], served: Served, found: ServerResults) -> None:
    start = served.rss_mb
    for bare in floors:
        bare.cpu_seconds(WARM_UP, 8)
    await wait_for_runs(served.port, STATELESS, WARM_UP, 8)
    ways = [_Way(mode, clients) for mode in (STATELESS, THREAD) for clients in CLIENTS]
    for _ in range(ROUNDS):  # a while in which others keep the machine busy spoils no way alone
        for way in ways:
            await way.burst(floors, served)
    found.loads.extend(way.load(place.name) for way in ways)
    found.first_events.extend([await _first_event(place.name, served, n) for n in CLIENTS])
    done = WARM_UP + BURST * ROUNDS * len(ways) + BURST * len(CLIENTS)
    settled = served.rss_mb
    await wait_for_runs(served.port, STATELESS, RUNS - done, 8)
    found.memory.append(Memory(place.name, start, settled, done, served.rss_mb, RUNS))


class _Way:
    """One way to ask for runs, and what it cost in each burst, beside the bare graph."""

    def __init__(self, mode: str, clients: int) -> None:
        self.mode = mode
        self.clients = clients
        self.floors: list[list[float]] = []
        self.servers: list[float] = []
        self.seconds: list[float] = []
        self.clock = 0.0

    async def burst(self, floors: list[Floor], served: Served) -> None:
        """Let the bare graphs and then the server do the same number of runs."""
        self.floors.append([e.cpu_seconds(BURST, self.clients) / BURST * 1000 for e in floors])
        cpu, began = served.cpu_seconds, perf_counter()
        self.seconds += await wait_for_runs(served.port, self.mode, BURST, self.clients)
        self.clock += perf_counter() - began
        self.servers.append((served.cpu_seconds - cpu) / BURST * 1000)

    def load(self, database: str) -> Load:
        """Give what was found; a ratio is of one round."""
        official, same = zip(*self.floors, strict=True)
        return Load(
            database=database,
            mode=self.mode,
            clients=self.clients,
            floor_cpu=statistics.median(official),
            same_cpu=statistics.median(same),
            server_cpu=statistics.median(self.servers),
            ratio=_median_ratio(self.servers, official),
            same_ratio=_median_ratio(self.servers, same),
            rate=len(self.seconds) / self.clock,
            **_percentiles(self.seconds),
        )


def _median_ratio(costs: Sequence[float], floors: Sequence[float]) -> float:
    return statistics.median(cost / base for cost, base in zip(costs, floors, strict=True))


async def _first_event(database: str, served: Served, clients: int) -> FirstEvent:
    seconds = await first_events(served.port, THREAD, BURST, clients)
    return FirstEvent(database, clients, **_percentiles(seconds))


def _percentiles(seconds: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(seconds, n=100, method="inclusive")
    return {"p50": cuts[49] * 1000, "p99": cuts[98] * 1000}
