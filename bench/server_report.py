"""The server's results as tables."""

from server import ServerResults
from server_history import FEW, MANY
from server_reference import CLIENTS, Streams

Table = list[list[str]]


def server_tables(results: ServerResults) -> dict[str, Table]:
    return {
        "Runs on the server": _loads(results),
        "Time to the first event of a stream": _first_events(results),
        "Memory of the server": _memory(results),
        "Queries beside many finished runs": _growth(results),
        "Messages of many people": _talks(results),
        "From asking for a run to its start on an idle runner": _pickups(results),
        **(_reference(results.reference.servers) if results.reference else {}),
    }


def server_legend() -> str:
    return (
        "Runs on the server: CPU time of the process, medians of alternating bursts, and the ratio "
        "to the bare graph in the same round: with LangGraph's own checkpointer, as its docs set "
        "it up, and with the server's, which writes those of many runs together. "
        "Times of answers and queries are on the wall clock."
    )


def server_notes(results: ServerResults) -> list[str]:
    found = results.reference
    if found is None:
        return []
    measured = f"langgraph-api {found.langgraph}, in an environment of its own."
    return [*([measured] if found.langgraph else ()), *found.not_measured]


def _loads(results: ServerResults) -> Table:
    head = ["", "bare graph", "server", "ratio", "same checkpointer", "runs/s", "p50", "p99"]
    return [
        head,
        *(
            [
                f"{load.database}, {load.mode}, {_clients(load.clients)}",
                f"{load.floor_cpu:.2f} ms",
                f"{load.server_cpu:.2f} ms",
                f"{load.ratio:.2f}×",
                f"{load.same_ratio:.2f}×",
                f"{load.rate:.0f}",
                f"{load.p50:.1f} ms",
                f"{load.p99:.1f} ms",
            ]
            for load in results.loads
        ),
    ]


def _first_events(results: ServerResults) -> Table:
    rows = [
        [f"{each.database}, {_clients(each.clients)}", f"{each.p50:.1f} ms", f"{each.p99:.1f} ms"]
        for each in results.first_events
    ]
    return [["", "p50", "p99"], *rows]


def _memory(results: ServerResults) -> Table:
    rows = [
        [each.database, *(f"{mb:.0f} MB" for mb in (each.start, each.settled, each.end))]
        for each in results.memory
    ]
    settled, runs = results.memory[0].settled_runs, results.memory[0].end_runs
    return [["", "at start", f"after {settled:,} runs", f"after {runs:,} runs"], *rows]


def _growth(results: ServerResults) -> Table:
    rows = [
        [
            f"{each.database}, {each.query}",
            _micros(each.few),
            _micros(each.many),
            f"{each.ratio:.2f}×",
        ]
        for each in results.growth
    ]
    return [["", f"{FEW} runs", f"{MANY:,} runs", "ratio"], *rows]


def _talks(results: ServerResults) -> Table:
    rows = [
        [
            each.database,
            f"{each.rate:.0f}",
            f"{each.p50:.0f} ms",
            f"{each.p99:.0f} ms",
            f"{each.run_p99:.0f} ms",
            f"{each.message_cpu:.2f} ms",
            f"{each.run_cpu:.2f} ms",
            f"{each.ratio:.2f}×",
            f"{each.memory:.0f} MB",
            f"{each.lost} · {each.disordered}",
        ]
        for each in results.talks
    ]
    head = ["", "messages/s", "p50", "p99", "p99 of runs", "CPU", "CPU of a run", "ratio"]
    return [[*head, "memory", "lost · disordered"], *rows]


def _pickups(results: ServerResults) -> Table:
    rows = [
        [f"{each.runners} waiting", f"{each.p50:.1f} ms", f"{each.p99:.1f} ms"]
        for each in results.pickups
    ]
    return [["PostgreSQL", "p50", "p99"], *rows]


def _reference(servers: list[Streams]) -> dict[str, Table]:
    rows = [
        [
            each.name,
            f"{each.rate:.0f}",
            f"{each.p50:.0f} ms",
            f"{each.p99:.0f} ms",
            f"{each.cpu:.2f} ms",
            f"{each.ratio:.2f}×",
            f"{each.lowest_ratio:.2f}–{each.highest_ratio:.2f}×",
            f"{each.memory_mb:.0f} MB",
        ]
        for each in servers
    ]
    head = ["", "runs/s", "p50", "p99", "CPU a run", "ratio", "of all rounds", "memory"]
    title = f"Beside LangGraph's own server: {CLIENTS} clients that stream"
    return {title: [head, *rows]} if rows else {}


def _micros(microseconds: float) -> str:
    return f"{microseconds:.0f} µs"


def _clients(count: int) -> str:
    return f"{count} client{'s' * (count > 1)}"
