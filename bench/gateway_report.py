"""The gateway's results as a table."""

from gateway import CLIENTS, DIRECT, READERS, GatewayResults, Way
from gateway_histories import MESSAGES
from gateway_upstream import CHUNKS

Table = list[list[str]]


def gateway_tables(results: GatewayResults) -> dict[str, Table]:
    return {
        "In front of a model: requests of 10 kB": _requests(results),
        f"In front of a model: streams of {CHUNKS} chunks": _streams(results),
        f"In front of a model: {MESSAGES} messages that are sent again": _histories(results),
    }


def gateway_legend() -> str:
    return (
        "In front of a model: CPU time of the process, medians of alternating bursts; requests a "
        f"second with {CLIENTS} clients, times with one, chunks with {READERS} streams at once. "
        "What is added is beside the same burst that went to the upstream directly, and the CPU of "
        "a chunk has the request's in it."
    )


def gateway_notes(results: GatewayResults) -> list[str]:
    measured = [f"litellm {results.litellm}, in an environment of its own."]
    return [*(measured if results.litellm else ()), *results.not_measured]


def _requests(results: GatewayResults) -> Table:
    head = ["", "requests/s", "p50", "added", "CPU, 1 client", f"CPU, {CLIENTS} clients", "memory"]
    return [head, *(_request_row(way) for way in results.ways)]


def _request_row(way: Way) -> list[str]:
    bare = way.name == DIRECT
    return [
        way.name,
        f"{way.rate:.0f}",
        _millis(way.p50),
        "" if bare else _millis(way.added),
        "" if bare else _millis(way.cpu),
        "" if bare else _millis(way.crowded_cpu),
        "" if bare else f"{way.memory_mb:.0f} MB",
    ]


def _streams(results: GatewayResults) -> Table:
    rows = [
        [
            way.name,
            _millis(way.first_byte),
            "" if way.name == DIRECT else _millis(way.first_byte_added),
            "" if way.name == DIRECT else f"{way.chunk_cpu:.3f} ms",
        ]
        for way in results.ways
    ]
    return [["", "first byte", "added", "CPU a chunk"], *rows]


def _histories(results: GatewayResults) -> Table:
    rows = [
        [each.size, each.hooks, _millis(each.first), _millis(each.resend), f"{each.ratio:.1f}×"]
        for each in results.histories.growth
    ]
    return [["", "hooks", "CPU, first time", "CPU, each time after", "beside none"], *rows]


def _millis(amount: float) -> str:
    return f"{amount:.2f} ms"
