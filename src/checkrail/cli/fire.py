"""`checkrail fire` tries the hooks of a file on one event."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from pathlib import Path
from typing import Any

import click

from checkrail.cli.app import BLOCKED, FAILED
from checkrail.cli.files import read, tell
from checkrail.cli.show import as_json, changes, console, timeline, verdict_line
from checkrail.engine.asks import AskHandler
from checkrail.engine.errors import CheckrailError
from checkrail.engine.points import CONTRACTS, Contract, Decision, point_named
from checkrail.engine.registry import HookRegistry
from checkrail.engine.values import plain
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
    loaded = read(file, as_data=as_data)
    logging.getLogger("checkrail").setLevel(logging.CRITICAL)  # the timeline tells it already
    try:
        contract = CONTRACTS[point_named(point)]
        fired = _value(contract, value)
        registry = _registry(loaded, approve)
        verdict = asyncio.run(_fire(registry, contract, fired, _json(context, "--context")))
    except (CheckrailError, TypeError) as error:
        raise click.UsageError(str(error)) from None
    if as_data:
        click.echo(as_json(_told(contract, verdict)))
    else:
        tell(loaded.warnings, "yellow")
        _print(contract, fired, verdict)
    sys.exit(CODES.get(verdict.decision, 0))


async def _fire(registry: HookRegistry, contract: Contract, value: Any, context: Any) -> Verdict:
    verdict = await registry.fire(contract.point, value, **context)
    await registry.aclose()
    return verdict


def _registry(loaded: Any, approve: bool | None) -> HookRegistry:  # noqa: FBT001 - None: nobody
    settings = loaded.settings
    options = {"history": settings.history, "max_retries": settings.max_retries}
    said = {name: option for name, option in options.items() if option is not None}
    registry = HookRegistry(ask=_answers(approve), **said)
    registry.swap(loaded.specs)
    return registry


def _answers(approve: bool | None) -> AskHandler | None:  # noqa: FBT001 - None: nobody answers
    from checkrail.testing import approve as yes
    from checkrail.testing import deny as no

    if approve is None:
        return None
    return yes if approve else no


def _json(text: str, option: str) -> Any:
    if text.startswith("@"):
        try:
            text = Path(text[1:]).read_text(encoding="utf-8")
        except OSError as error:
            raise click.UsageError(f"{option}: {error}") from None
    elif text == "-":
        text = sys.stdin.read()
    try:
        return json.loads(text)
    except ValueError as error:
        raise click.UsageError(f"{option} is not JSON: {error}") from None


def _value(contract: Contract, text: str | None) -> Any:
    from checkrail.actions.shapes import build, check
    from checkrail.testing import sample

    if text is None:
        return sample(contract.point)
    data = _json(text, "--value")
    if contract.value is object:
        return data
    if isinstance(data, str):
        return contract.changed(data, sample(contract.point))
    return build(contract.value, check(contract.value, data, "--value"), _blank(contract))


def _blank(contract: Contract) -> Any:
    """Give what stands for the fields that a message leaves out."""
    return contract.value(None, None, "") if contract.wire == "content" else None


def _told(contract: Contract, verdict: Verdict) -> dict[str, Any]:
    return {
        "point": str(contract.point),
        "decision": str(verdict.decision),
        "value": plain(verdict.value),
        "reason": verdict.reason,
        "status": verdict.status,
        "code": verdict.code,
        "hook": verdict.hook,
        "inject": plain(list(verdict.inject)),
        "records": [record.wire() for record in verdict.records],
    }


def _print(contract: Contract, fired: Any, verdict: Verdict) -> None:
    out = console()
    out.print(f"[bold cyan]{contract.point}[/]")
    out.print(timeline(verdict.records) if verdict.records else "  no hook had anything to say")
    out.print(verdict_line(verdict))
    before, after = plain(fired), plain(verdict.value)
    if before != after:
        out.print(f"value: {changes(before, after)}", markup=False)
    for message in verdict.inject:
        out.print(f"injected: {json.dumps(plain(message), ensure_ascii=False)}", markup=False)
