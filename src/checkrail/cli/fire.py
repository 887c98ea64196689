"""`checkrail fire` tries the hooks of a file on one event."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import sys
from pathlib import Path
from typing import Any

import click

from checkrail.cli.app import BLOCKED, FAILED
from checkrail.cli.files import print_problems, read_config
from checkrail.cli.logs import show_hook_logs
from checkrail.cli.output import console, escape_text, hide_secrets, print_table, to_json_text
from checkrail.cli.timeline import describe_changes, timeline, verdict_line
from checkrail.engine.asks import AskHandler
from checkrail.engine.errors import CheckrailError, suggestion
from checkrail.engine.event import Context
from checkrail.engine.points import CONTRACTS, Contract, Decision, HookPoint, find_point
from checkrail.engine.records import HookRecord
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import User, plain
from checkrail.engine.verdict import Verdict

CODES = {Decision.BLOCK: BLOCKED, Decision.FAIL: FAILED}


@click.command(
    epilog="""Example: checkrail fire checkrail.yaml before_tool_call
    --value '{"name": "transfer", "args": {"amount": 5000}}'""",
)
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("point")
@click.option(
    "--value",
    metavar="JSON",
    help="The value at the point; @FILE reads a file, - standard input. A sample unless given.",
)
@click.option(
    "--context",
    metavar="JSON",
    default="{}",
    help='Ids and more: \'{"user": "ann", "agent_name": "support"}\'.',
)
@click.option("--approve/--deny", default=None, help="How a person would answer what is asked.")
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
def command(
    file: Path,
    point: str,
    value: str | None,
    context: str,
    *,
    approve: bool | None,
    as_data: bool,
) -> None:
    """Run the hooks of FILE on one event at POINT; show the verdict and the timeline.

    Leaves with 3 if the hooks block and with 4 if they fail.
    """
    loaded = read_config(file, as_data=as_data)
    records: list[HookRecord] = []
    try:
        contract = CONTRACTS[find_point(point)]
        fired = _read_value(contract, value)
        registry = _build_registry(loaded, approve, records)
        with contextlib.redirect_stdout(sys.stderr), show_hook_logs(logging.INFO):
            verdict = asyncio.run(_fire_point(registry, contract, fired, _parse_context(context)))
    except (CheckrailError, TypeError) as error:
        raise click.UsageError(str(error)) from None
    if as_data:
        told = _verdict_to_json(contract, verdict, records)
        told["warnings"] = list(map(dataclasses.asdict, loaded.warnings))
        click.echo(to_json_text(hide_secrets(told, loaded.scrub)))
    else:
        print_problems(loaded.warnings, "yellow", "warning: ")
        _print_result(_FireResult(contract, fired, verdict, records, loaded), registry)
    sys.exit(CODES.get(verdict.decision, 0))


async def _fire_point(
    registry: HookRegistry, contract: Contract, value: Any, context: Any
) -> Verdict:
    verdict = await registry.fire(contract.point, value, **context)
    await registry.aclose()
    return verdict


def _build_registry(
    loaded: Any,
    approve: bool | None,  # noqa: FBT001 - None: nobody answers
    records: list[HookRecord],
) -> HookRegistry:
    settings = loaded.settings
    options = {"history": settings.history, "max_retries": settings.max_retries}
    said = {name: option for name, option in options.items() if option is not None}
    registry = HookRegistry(records.append, ask=_ask_handler(approve), **said)
    registry.swap(loaded.specs)
    return registry


def _ask_handler(approve: bool | None) -> AskHandler | None:  # noqa: FBT001 - None: nobody answers
    from checkrail.testing import approve as yes
    from checkrail.testing import deny as no

    if approve is None:
        return None
    return yes if approve else no


def _parse_context(text: str) -> dict[str, Any]:
    data = _read_json(text, "--context")
    if not isinstance(data, dict):
        example = '{"user": "ann", "agent_name": "support"}'
        raise click.UsageError(f"--context is a JSON object, such as {example}")
    known = [item.name for item in dataclasses.fields(Context)]
    for name in data:
        if name not in known:
            hint = suggestion(name, known)
            told = f"--context: an event has no field {name!r}{hint}. It has: {', '.join(known)}"
            raise click.UsageError(told)
    if isinstance(data.get("user"), dict):
        data["user"] = _parse_user(data["user"])
    return data


def _parse_user(given: dict[str, Any]) -> User:
    known = [item.name for item in dataclasses.fields(User)]
    strange = [name for name in given if name not in known]
    if strange or "identity" not in given:
        found = f"has {strange[0]!r}" if strange else "has no 'identity'"
        told = f"--context: a user {found}. It is a name, or an object with: {', '.join(known)}"
        raise click.UsageError(told)
    return User(**given)


def _read_json(text: str, option: str) -> Any:
    try:
        if text.startswith("@"):
            text = Path(text[1:]).read_text(encoding="utf-8")
        elif text == "-":
            text = sys.stdin.read()
    except OSError as error:
        told = f"{option}: {error.filename} cannot be read: {error.strerror}"
        raise click.UsageError(told) from None
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{option} is not text in UTF-8: {error}") from None
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise click.UsageError(f"{option} is not JSON: {error}") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def _read_value(contract: Contract, text: str | None) -> Any:
    from checkrail.actions.value_models import build_value, check_data, has_text
    from checkrail.testing import sample

    if text is None:
        return sample(contract.point)
    data = _read_json(text, "--value")
    if contract.value is object or (data is None and contract.point is HookPoint.QUERY_END):
        return data
    if isinstance(data, str) and has_text(contract.value):
        return contract.read_change(data, sample(contract.point))
    try:
        return build_value(
            contract.value, check_data(contract.value, data, "--value"), _blank_value(contract)
        )
    except CheckrailError as error:
        names = ", ".join(item.name for item in dataclasses.fields(contract.value))
        raise click.UsageError(f"{error}. A {contract.value.__name__} has: {names}") from None


def _blank_value(contract: Contract) -> Any:
    """Return a value with defaults for the fields that a message or a session leaves out."""
    if contract.wire == "session":
        return contract.value("session-1")
    return contract.value(None, None, "") if contract.wire == "content" else None


def _verdict_to_json(
    contract: Contract, verdict: Verdict, records: list[HookRecord]
) -> dict[str, Any]:
    return {
        "point": str(contract.point),
        "decision": str(verdict.decision),
        "value": plain(verdict.value),
        "reason": verdict.reason,
        "status": verdict.status,
        "code": verdict.code,
        "retry_after": verdict.retry_after,
        "hook": verdict.hook,
        "inject": plain(list(verdict.inject)),
        "records": [record.wire() for record in records],
    }


@dataclasses.dataclass(frozen=True)
class _FireResult:
    contract: Contract
    fired: Any
    verdict: Verdict
    records: list[HookRecord]
    loaded: Any


def _print_result(it: _FireResult, registry: HookRegistry) -> None:
    out, verdict, hide = console(), it.verdict, it.loaded.scrub
    out.print(it.contract.point, style="bold cyan")
    if it.records:
        print_table(out, timeline(it.records, hide))
    else:
        out.print(_explain_silence(it.contract, registry))
    out.print(verdict_line(verdict, hide))
    before, after = plain(it.fired), plain(verdict.value)
    if verdict.decision in (Decision.REPLACE, Decision.STOP) or (
        before != after and any(record.redacted and not record.shadow for record in it.records)
    ):  # of what was redacted, the earlier form is shown to nobody
        text = json.dumps(after, ensure_ascii=False)
        out.print(f"value: {escape_text(hide(text))}")
    elif before != after:
        out.print(f"value: {escape_text(hide(describe_changes(before, after)))}")
    for message in verdict.inject:
        text = json.dumps(plain(message), ensure_ascii=False)
        out.print(f"injected: {escape_text(hide(text))}")


def _explain_silence(contract: Contract, registry: HookRegistry) -> str:
    if registry.has(contract.point):
        return "  no hook here is for this event"
    others = ", ".join(point for point in HookPoint if registry.has(point)) or "no point"
    return f"  no hook stands here; there are hooks at {others}"
