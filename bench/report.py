"""The results as text for a terminal, Markdown for the docs, or JSON."""

import json
import os
import platform
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from bars import Bar
from environments import PeerResult
from gateway import GatewayResults
from gateway_report import gateway_legend, gateway_notes, gateway_tables
from measure import BARE, HOOK_COUNTS, Timing
from scripted_run import ITEMS, ITERATIONS, MODEL_SECONDS, TOOL_SECONDS
from server import ServerResults
from server_report import server_legend, server_notes, server_tables

Table = list[list[str]]


@dataclass(frozen=True)
class Results:
    returning: list[Timing]
    suspending: list[Timing]
    empty: list[Timing]
    loops: list[Timing]
    hooked_cpu: list[Timing]
    hooked_wall: list[Timing]
    peers: list[PeerResult]
    loop_peers: list[PeerResult]
    server: ServerResults | None
    gateway: GatewayResults | None
    startup_ms: dict[str, float | None]
    bars: list[Bar]


def as_text(results: Results) -> str:
    return _render(results, "{}", _text_table)


def as_markdown(results: Results) -> str:
    return _render(results, "### {}", _markdown_table)


def as_json(results: Results) -> str:
    bars = [asdict(bar) | {"held": bar.held} for bar in results.bars]
    return json.dumps(asdict(results) | {"machine": machine(), "bars": bars}, indent=2)


def machine() -> str:
    """The processor, its cores and the Python, and nothing that names the machine."""
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{_cpu_model()}, {os.cpu_count()} cores, {platform.system()}, {python}"


def _render(results: Results, heading: str, table: Callable[[Table], str]) -> str:
    sections = {
        "Hooks that return at once": _by_hook_count(
            [*results.returning, *_peer_timings(results.peers)]
        ),
        "Hooks that suspend": _by_hook_count(results.suspending),
        "No hook at the point": _empty_table(results.empty),
        "A run of an agent": _loops_table([*results.loops, *_peer_timings(results.loop_peers)]),
        "What hooks add to a run": _added_table(results.hooked_cpu, results.hooked_wall),
        **(server_tables(results.server) if results.server else {}),
        **(gateway_tables(results.gateway) if results.gateway else {}),
        "Starting up": _startup_table(results.startup_ms),
        "Bars": _bars_table(results.bars),
    }
    parts = [f"{heading.format(title)}\n\n{table(t)}" for title, t in sections.items()]
    peers = [*results.peers, *results.loop_peers]
    notes = [machine() + ".", _legend(), _loop_legend(), server_legend(), *_peer_notes(peers)]
    if results.server:
        notes += server_notes(results.server)
    if results.gateway:
        notes += [gateway_legend(), *gateway_notes(results.gateway)]
    return "\n\n".join([*parts, "\n".join(notes)])


def _legend() -> str:
    return (
        "CPU time, medians of alternating rounds: "
        "µs a dispatch, µs a hook, and the ratio to the bare loop beside it."
    )


def _loop_legend() -> str:
    return (
        f"A run of an agent: {ITERATIONS} iterations with {len(ITEMS)} tool calls at a time, "
        f"then the answer. An iteration is 1/{ITERATIONS} of its cost, "
        "and the ratio is to the same run in a bare loop beside it."
    )


def _by_hook_count(timings: Iterable[Timing]) -> Table:
    found = {(t.name, t.hooks): t for t in timings}
    names = dict.fromkeys(name for name, _ in found)
    head = ["", *(f"{n} hook{'s' * (n > 1)}" for n in HOOK_COUNTS)]
    return [
        head,
        *([name, *(_cell(found[name, n]) for n in HOOK_COUNTS)] for name in names),
    ]


def _cell(timing: Timing) -> str:
    dispatch, hook = timing.dispatch_ns / 1000, timing.hook_ns / 1000
    return f"{dispatch:.2f} · {hook:.2f} · {timing.ratio:.1f}×"


def _empty_table(timings: Iterable[Timing]) -> Table:
    rows = [[t.name, f"{t.dispatch_ns:.0f} ns", f"{t.ratio:.2f}×"] for t in timings]
    return [["", "cost", "ratio"], *rows]


def _loops_table(timings: Iterable[Timing]) -> Table:
    rows = [
        [t.name, _micros(t.dispatch_ns), _micros(t.dispatch_ns / ITERATIONS), f"{t.ratio:.1f}×"]
        for t in timings
    ]
    return [["", "CPU a run", "an iteration", "ratio"], *rows]


def _added_table(cpu: Sequence[Timing], wall: Sequence[Timing]) -> Table:
    waits = f"model {MODEL_SECONDS * 1000:g} ms, tools {TOOL_SECONDS * 1000:g} ms"
    rows = [
        [name, _millis(without), _millis(hooked), f"{(hooked.ratio - 1) * 100:.1f} %"]
        for name, (without, hooked) in {
            "CPU, nothing waits": cpu,
            f"wall clock, {waits}": wall,
        }.items()
    ]
    return [["", "no hooks", f"{cpu[0].hooks} at every point", "added"], *rows]


def _micros(nanoseconds: float) -> str:
    return f"{nanoseconds / 1000:.0f} µs"


def _millis(timing: Timing) -> str:
    return f"{timing.dispatch_ns / 1e6:.2f} ms"


def _startup_table(startup_ms: dict[str, float | None]) -> Table:
    rows = [[name, _amount(ms, " ms")] for name, ms in startup_ms.items()]
    return [["", "median"], *rows]


def _bars_table(bars: Iterable[Bar]) -> Table:
    rows = [
        [
            bar.what,
            f"≤ {bar.limit:g}{bar.unit}",
            _amount(bar.found, bar.unit),
            "PASS" if bar.held else "FAIL",
        ]
        for bar in bars
    ]
    return [["", "bar", "found", ""], *rows]


def _amount(amount: float | None, unit: str) -> str:
    return "not measured" if amount is None else f"{amount:.2f}{unit}"


def _peer_timings(peers: Iterable[PeerResult]) -> list[Timing]:
    """The peers' rows; their bare loops served for the ratios only."""
    return [t for peer in peers for t in peer.timings if t.name != BARE]


def _peer_notes(peers: Iterable[PeerResult]) -> list[str]:
    measured = [*dict.fromkeys(f"{p.package} {p.version}" for p in peers if p.version)]
    missing = [f"{p.package}: not measured: {p.not_measured}" for p in peers if p.not_measured]
    if measured:
        measured = [f"Each in a process of its own: {', '.join(measured)}."]
    return measured + missing


def _text_table(table: Table) -> str:
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return "\n".join(_text_row(row, widths) for row in table)


def _text_row(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(row, widths, strict=True)
    cells = [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
    return "  " + "   ".join(cells).rstrip()


def _markdown_table(table: Table) -> str:
    head, *rows = table
    rule = ["---", *("---:" for _ in head[1:])]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, rule, *rows])


def _cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.partition(":")[2] for line in lines if line.startswith("model name")]
    return models[0].strip() if models else platform.machine()
