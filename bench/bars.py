"""What Checkrail has promised, and whether it holds."""

from collections.abc import Sequence
from dataclasses import dataclass

import startup
from gateway import NO_HOOKS, GatewayResults
from measure import Timing
from scripted_run import ITERATIONS
from server import DATABASES as SERVER_DATABASES
from server import ServerResults
from server_history import MANY
from server_reference import ReferenceResults

RESENDS = {"105 kB": 6, "1 MB": 4, "5 MB": 4}
"""How much hooks may cost beside none when 200 messages of so much are sent again."""


@dataclass(frozen=True)
class Bar:
    """A promise: what, at most how much, and what was found (None: not measured)."""

    what: str
    limit: float
    unit: str
    found: float | None

    @property
    def held(self) -> bool:
        return self.found is not None and self.found <= self.limit


def judge(
    returning: Sequence[Timing],
    suspending: Sequence[Timing],
    empty: Sequence[Timing],
    startup_ms: dict[str, float | None],
) -> list[Bar]:
    """The full service is timeout, isolation, `when`, ids and readable records."""
    full, sink = "checkrail, when", "checkrail, when, sink"
    return [
        _ratio("no hook: has(point)", 1, empty, "registry.has", 0),
        _ratio("no hook: registry.fire", 5, empty, "registry.fire", 0),
        _ratio("no hook: scope.fire", 5, empty, "scope.fire", 0),
        _ratio("5 hooks, full service", 12, returning, full, 5),
        _ratio("20 hooks, full service", 11, returning, full, 20),
        _ratio("5 hooks, every record to a sink", 26, returning, sink, 5),
        _ratio("5 hooks that suspend", 2.8, suspending, full, 5),
        Bar("import checkrail", 100, " ms", startup_ms[startup.IMPORT]),
        Bar("checkrail --help", 150, " ms", startup_ms[startup.HELP]),
        Bar(
            "checkrail check, beside --help",
            6,
            "×",
            _beside(startup.HELP, startup.CHECK, startup_ms),
        ),
        Bar(
            "checkrail serve up again, beside its frameworks' import",
            2.1,
            "×",
            _beside(startup.FRAMEWORKS, startup.SERVE, startup_ms),
        ),
    ]


def judge_loop(loops: Sequence[Timing], hooked_wall: Sequence[Timing]) -> list[Bar]:
    """An iteration is a third of a whole run: the model, the tools and the answer are in it."""
    run_ns = next(t.dispatch_ns for t in loops if t.name == "checkrail")
    hooked = hooked_wall[-1]
    return [
        Bar("agent loop, CPU an iteration", 1, " ms", run_ns / ITERATIONS / 1e6),
        Bar(
            f"{hooked.hooks} hooks at every point, added on the wall clock",
            5,
            " %",
            (hooked.ratio - 1) * 100,
        ),
    ]


def judge_server(found: ServerResults) -> list[Bar]:
    """The worst counts: of all modes and numbers of clients, and of all queries."""
    pickup = max(each.p50 for each in found.pickups)
    return [
        *(bar for database in SERVER_DATABASES for bar in _judge_database(database, found)),
        Bar("start of a run on an idle runner, p50", 30, " ms", pickup),
        *(_judge_beside_reference(found.reference) if found.reference else ()),
    ]


def judge_gateway(found: GatewayResults) -> list[Bar]:
    """Without hooks; of one client and many, the worse counts."""
    [way] = [each for each in found.ways if each.name == NO_HOOKS]
    crowd = found.histories.crowd
    return [
        Bar("gateway, CPU a request of 10 kB", 1.5, " ms", max(way.cpu, way.crowded_cpu)),
        Bar("gateway, CPU a chunk of a stream", 0.1, " ms", way.chunk_cpu),
        Bar("gateway, first byte after the upstream's", 5, " ms", way.first_byte_added),
        *(_judge_resend(found, size, limit) for size, limit in RESENDS.items()),
        Bar("somebody small beside first 5 MB, added CPU", 50, " ms", crowd.beside - crowd.alone),
        Bar(f"{crowd.streams} streams of 1 MB requests, memory", 400, " MB", crowd.memory_mb),
    ]


def _judge_resend(found: GatewayResults, size: str, limit: float) -> Bar:
    [each] = [
        each for each in found.histories.growth if (each.size, each.hooks) == (size, "redact")
    ]
    return Bar(f"resend of {size}, redact and a policy beside none", limit, "×", each.ratio)


def _judge_database(database: str, found: ServerResults) -> list[Bar]:
    loads = [each for each in found.loads if each.database == database]
    [memory] = [each for each in found.memory if each.database == database]
    [first] = [e for e in found.first_events if (e.database, e.clients) == (database, 1)]
    [talk] = [each for each in found.talks if each.database == database]
    growth = max(each.ratio for each in found.growth if each.database == database)
    added = max(each.server_cpu - each.same_cpu for each in loads)
    return [
        Bar(f"{database}: server beside the bare graph", 2, "×", max(e.ratio for e in loads)),
        Bar(f"{database}: CPU that the server adds to a run", 5, " ms", added),
        Bar(f"{database}: first event of a stream, p50", 10, " ms", first.p50),
        Bar(f"{database}: memory after {memory.end_runs:,} runs", 200, " MB", memory.end),
        Bar(f"{database}: memory that runs leave behind", 10, " MB", memory.end - memory.settled),
        Bar(f"{database}: queries beside {MANY:,} runs", 1.5, "×", growth),
        Bar(f"{database}: CPU of a message beside its run over POST /runs", 2, "×", talk.ratio),
        Bar(f"{database}: messages lost or out of order", 0, "", talk.lost + talk.disordered),
    ]


def _judge_beside_reference(found: ReferenceResults) -> list[Bar]:
    ratios = {each.name: each.ratio for each in found.servers}
    what = "{}: CPU of a run beside LangGraph's own server"
    return [Bar(what.format(each), 0.8, "×", ratios.get(each)) for each in SERVER_DATABASES]


def _beside(floor: str, name: str, startup_ms: dict[str, float | None]) -> float | None:
    floor_ms, found = startup_ms[floor], startup_ms[name]
    return None if floor_ms is None or found is None else found / floor_ms


def _ratio(what: str, limit: float, timings: Sequence[Timing], name: str, hooks: int) -> Bar:
    found = next(t.ratio for t in timings if (t.name, t.hooks) == (name, hooks))
    return Bar(what, limit, "×", found)
