"""A run on the terminal: what is known of it, and its hooks beside its agent in time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from rich.table import Table
from rich.text import Text

from checkrail.cli.output import cell, escape_text, new_table, print_table
from checkrail.cli.records import (
    Recorded,
    finished_calls,
    parse_time,
    split_time,
    unfinished_calls,
)
from checkrail.cli.timeline import timeline

if TYPE_CHECKING:
    from rich.console import Console

    from checkrail.engine.records import HookRecord

Run = Mapping[str, Any]

SAME = {"running": "running", "success": "success", "error": "error", "pending": "queued"}
"""The phases that say no more than their status."""

STYLES = {"success": "green", "error": "red", "timeout": "red", "interrupted": "yellow"}
SHOWN_GAP = 0.001  # seconds


def status_text(run: Run) -> Text:
    """Return the status of a run, with its phase where that adds something."""
    status, phase = run["status"], run["phase"]
    more = "" if phase in (status, SAME.get(status)) else f" ({phase})"
    return cell(f"{status}{more}", STYLES.get(status, "cyan"))


def format_duration(seconds: float) -> str:
    """Write a time that passed."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"{seconds:.2f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def build_runs_table(runs: Sequence[Run], now: float) -> Table:
    """Return a table of runs, one a line."""
    table = new_table("run", "agent", "status", "asked for", "took", "why", folded={"why"})
    for run in runs:
        table.add_row(
            Text(run["run_id"], style="bold"),
            cell(run["agent_name"]),
            status_text(run),
            Text(
                f"{format_duration(now - (parse_time(run['created_at']) or now))} ago", style="dim"
            ),
            Text(_run_duration(run, now)),
            Text(_run_reason(run)),
        )
    return table


def _run_duration(run: Run, now: float) -> str:
    started = parse_time(run["started_at"])
    return (
        "" if started is None else format_duration((parse_time(run["ended_at"]) or now) - started)
    )


def _run_reason(run: Run) -> str:
    reason = run["block_reason"] or run["error"] or ""
    by = f"{run['blocked_by']}: " if run["blocked_by"] else ""
    line = " ".join(escape_text(f"{by}{reason}").split())
    return line if len(line) <= 100 else f"{line[:99]}…"


def print_run(out: Console, run: Run, records: Sequence[Recorded], now: float) -> None:
    """Print all that is known of a run."""
    out.print(f"run {run['run_id']} of {escape_text(run['agent_name'])}", style="bold")
    table = new_table("name", "value", folded={"value"}, header=False)
    for name, value in _describe_run(run, records, now):
        table.add_row(Text(f"  {name}", style="dim"), value)
    print_table(out, table)
    print_timeline(out, run, records, now)


def _describe_run(run: Run, records: Sequence[Recorded], now: float) -> Iterator[tuple[str, Text]]:
    yield "status", status_text(run)
    if run["block_reason"] or run["blocked_by"]:
        by = f"by {run['blocked_by']}: " if run["blocked_by"] else ""
        yield "blocked", cell(f"{by}{run['block_reason'] or ''}", "red")
    elif run["error"]:
        kind = f"{run['error_type']}: " if run["error_type"] else ""
        yield "error", cell(f"{kind}{run['error']}", "red")
    if run["cancel_reason"]:
        yield "cancelled", cell(run["cancel_reason"])
    yield "thread", Text(run["thread_id"])
    yield "asked for", Text(f"{run['created_at']} ({escape_text(run['origin'])})")
    if run["attempt"] > 1:
        yield "attempts", Text(str(run["attempt"]))
    yield "time", Text(_describe_time(run, records, now))
    for model, used in (run["usage"] or {}).items():
        yield "usage", cell(f"{model}: {_describe_usage(used)}")
    for delivery in run.get("deliveries", ()):
        yield "delivery", _describe_delivery(delivery)


def _describe_time(run: Run, records: Sequence[Recorded], now: float) -> str:
    ended = finished_calls(records)
    split = split_time(run, ended, now)
    calls = f"{len(ended)} {'call' if len(ended) == 1 else 'calls'}"
    told = f"agent {format_duration(split.agent)}, hooks {format_duration(split.hooks)} in {calls}"
    return told + (
        f", waited {format_duration(split.waiting)}" if split.waiting >= SHOWN_GAP else ""
    )


def _describe_usage(used: Any) -> str:
    if not isinstance(used, Mapping):
        return str(used)
    words = {"input_tokens": "in", "output_tokens": "out", "total_tokens": "in all"}
    return ", ".join(f"{used[key]} {word}" for key, word in words.items() if key in used)


def _describe_delivery(owed: Mapping[str, Any]) -> Text:
    style = {"done": "green", "dead": "red"}.get(owed["status"], "yellow")
    tries = "" if owed["attempts"] == 1 else f" after {owed['attempts']} attempts"
    why = f": {owed['last_error']}" if owed["last_error"] else ""
    return cell(f"{owed['kind']} {owed['status']}{tries}{why}", style)


def print_timeline(out: Console, run: Run, records: Sequence[Recorded], now: float) -> None:
    """Print the hooks in order, by their points, and between them the time of the agent."""
    begun, over = parse_time(run["created_at"]) or now, parse_time(run["ended_at"])
    until = begun
    for calls in _group_calls(finished_calls(records)):
        _print_gap(out, run, until, min(calls[0].began, over or calls[0].began))
        until = max(until, *(record.time for record in calls))
        after = Text(f"  +{format_duration(max(0.0, calls[0].began - begun))}", style="dim")
        out.print(Text(calls[0].point, style="bold cyan") + after)
        hooks = cast("Iterable[HookRecord]", calls)  # they have the same names
        print_table(out, timeline(hooks))
    _print_gap(out, run, until, over or now)
    for record in unfinished_calls(records):
        running = format_duration(now - record.began)
        line = f"{record.hook} at {record.point} has been running for {running}"
        out.print(escape_text(line), style="yellow")


def _group_calls(ended: Sequence[Recorded]) -> Iterator[list[Recorded]]:
    """Yield the calls that were made at one point, right after each other."""
    calls: list[Recorded] = []
    for record in ended:
        last = calls[-1] if calls else record
        if record.point != last.point or record.began - last.time >= SHOWN_GAP:
            yield calls
            calls = []
        calls.append(record)
    if calls:
        yield calls


def _print_gap(out: Console, run: Run, since: float, until: float) -> None:
    """Print for how long no hook was at work; before a run has started, it waits."""
    started = parse_time(run["started_at"]) or until
    parts = {"waiting": min(until, started) - since, "agent": until - max(since, started)}
    for whose, took in parts.items():
        if took >= SHOWN_GAP:
            out.print(f"… {whose} {format_duration(took)}", style="dim")
