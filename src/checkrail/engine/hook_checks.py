"""What is refused, or advised against, when a hook is bound to a point."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from checkrail.engine.callables import annotated_decisions, is_async_callable, named_decisions
from checkrail.engine.errors import HookRefusedError
from checkrail.engine.hook import FAILURE_WORDS
from checkrail.engine.matchers import TOOL_POINTS
from checkrail.engine.points import CONTRACTS, Decision, Lane

if TYPE_CHECKING:
    from checkrail.engine.chain import BoundHook

REFUSING = frozenset({Decision.BLOCK, Decision.FAIL, Decision.ASK})


def check_hook(bound: BoundHook) -> None:
    """Refuse a hook that its point cannot serve as it was declared."""
    spec, contract = bound.spec, bound.contract
    if bound.lane not in contract.lanes:
        allowed = ", ".join(contract.lanes)
        _refuse(
            bound, f"{bound.point} has no {bound.lane} lane", f"Its lanes are: {allowed}", "lane"
        )
    if spec.background and bound.lane is not Lane.OBSERVE:
        remedy = "Only observers can: give it lane observe, or take background away"
        _refuse(bound, f"a {bound.lane} hook cannot run in the background", remedy, "background")
    if "block" in spec.on_error.values() and not _may_block(bound):
        problem = f"on_error: block cannot be honoured by {bound.lane} at {bound.point}"
        _refuse(bound, problem, "Say on_error: continue", "on_error")
    if "tools" in spec.match and bound.point not in TOOL_POINTS:
        remedy = f"Leave it out, or use one of {', '.join(sorted(TOOL_POINTS))}"
        _refuse(bound, f"`tools` can never match at {bound.point}", remedy, "tools")
    if spec.thread and is_async_callable(spec.fn):
        problem = "an async function cannot be moved into a thread"
        _refuse(bound, problem, "Make it a plain def", "thread")
    _check_decisions(bound)


def _may_block(bound: BoundHook) -> bool:
    """Return whether a failure may block, or is said to for the hook's other points only.

    At a finish hook `block` is known, and means: log louder. A `failure_mode` is one for all of a
    hook's points: it says nothing of those where it can only watch.
    """
    if bound.declared == "on_run_finish" or bound.point in bound.spec.observes:
        return True
    if "failure_mode" in bound.spec.said and bound.contract.lanes == (Lane.OBSERVE,):
        return True
    return bound.contract.block and bound.lane is not Lane.OBSERVE


def _check_decisions(bound: BoundHook) -> None:
    allowed = bound.contract.decisions if bound.lane is not Lane.OBSERVE else {Decision.CONTINUE}
    declared = bound.spec.decisions
    if declared is not None:
        wrong = declared - allowed
    else:
        elsewhere = {d for place in bound.spec.places for d in CONTRACTS[place.point].decisions}
        wrong = annotated_decisions(bound.spec.fn) - allowed
        if len(bound.spec.places) > 1:
            wrong -= elsewhere
    if wrong:
        names = sorted(wrong)
        problem = f"{bound.point} does not allow {', '.join(names)} in lane {bound.lane}"
        _refuse(bound, problem, f"Allowed are: {', '.join(sorted(allowed))}", *names, "lane")


def fail_open_advice(bound: BoundHook) -> tuple[str, str, str] | None:
    """Return what is risky about a Python hook that refuses but fails open, and its remedy.

    The remedy is an option, and what it should be.
    """
    spec = bound.spec
    said = spec.on_error.keys() if spec.said & FAILURE_WORDS else frozenset()
    unsaid = {"error", "timeout"} - said
    fails_open = any(bound.policy[kind] == "continue" for kind in unsaid)
    open_lane = bound.lane is not Lane.OBSERVE and fails_open
    if not open_lane or spec.mode != "enforce" or spec.target_type != "python":
        return None
    decisions = annotated_decisions(spec.fn) | frozenset(named_decisions(spec.fn))
    if not bound.contract.decisions & decisions & REFUSING:
        return None
    problem = f"it can refuse, but in lane {bound.lane} its failure or timeout lets the work go on"
    if spec.on_error and not said:  # its style has a default of its own, and a word for it
        return problem, "failure_mode", "fail_closed"
    changes = Decision.CONTINUE in decisions or bool(spec.on_error)
    return problem, *(("on_error", "block") if changes else ("lane", "gate"))


def _refuse(bound: BoundHook, problem: str, remedy: str, *keys: str) -> NoReturn:
    raise HookRefusedError(bound.spec.name, problem, remedy, *keys)
