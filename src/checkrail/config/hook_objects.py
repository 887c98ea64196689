"""Python objects that hold hooks: what `hooks: {path: ./hooks.py:hooks}` may name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from checkrail.engine.hook import FAILURE_KINDS, FAILURE_WORDS, Hook, HookSpec, declare
from checkrail.engine.points import CONTRACTS, Lane
from checkrail.engine.registry import HookRegistry

OnErrors = str | Mapping[str, str]

EXPECTED = "a RunHooks, a Hooks, a HookRegistry, a Hook, or a list of them"


@dataclasses.dataclass(frozen=True, slots=True)
class Defaults:
    """The values for hooks that have none of their own."""

    timeout: float | None = None
    on_error: OnErrors | None = None


NO_DEFAULTS = Defaults()


class NoHooksError(Exception):
    """An object holds no hooks."""

    def __init__(self, given: Any) -> None:
        self.given = given
        super().__init__(given)


def find_specs(given: Any, defaults: Defaults) -> list[HookSpec]:
    """Return the hooks that an object holds."""
    from checkrail.styles.decorators import Hooks
    from checkrail.styles.run_hooks import RunHooks

    if isinstance(given, (list, tuple)):
        return [spec for item in given for spec in find_specs(item, defaults)]
    if isinstance(given, RunHooks):
        timeout = defaults.timeout
        specs = given.specs() if timeout is None else given.specs(timeout)
        return [apply_defaults(spec, Defaults(on_error=defaults.on_error)) for spec in specs]
    if isinstance(given, Hooks):
        given = given.registry
    if isinstance(given, HookRegistry):
        return [apply_defaults(spec, defaults) for spec in given.list()]
    if isinstance(given, Hook):
        return [apply_defaults(declare(given, ()), defaults)]
    if isinstance(given, HookSpec):
        return [apply_defaults(given, defaults)]
    raise NoHooksError(given)


def apply_defaults(spec: HookSpec, defaults: Defaults) -> HookSpec:
    """Return a hook with the defaults for what it left unset."""
    if defaults.timeout is not None and not spec.said & {"timeout", "timeout_seconds"}:
        spec = dataclasses.replace(spec, timeout=defaults.timeout)
    on_error = defaults.on_error
    if on_error is None or spec.said & FAILURE_WORDS or not _can_apply(on_error, spec):
        return spec
    said = spec.said | {"on_error"}
    return dataclasses.replace(spec, on_error=_policies_by_kind(on_error), said=said)


def _can_apply(on_error: OnErrors, spec: HookSpec) -> bool:
    """Return whether a failure policy can apply to a hook: blocking needs points that can block."""
    if "block" not in (on_error.values() if isinstance(on_error, Mapping) else (on_error,)):
        return True
    acting = (place.point for place in spec.places if place.point not in spec.observes)
    contracts = [CONTRACTS[point] for point in acting]
    lanes = {spec.lane or contract.lanes[0] for contract in contracts}
    return Lane.OBSERVE not in lanes and all(contract.block for contract in contracts)


def _policies_by_kind(on_error: OnErrors) -> dict[str, str]:
    said = on_error if isinstance(on_error, Mapping) else dict.fromkeys(FAILURE_KINDS, on_error)
    return {kind: "continue" if what == "ignore" else what for kind, what in said.items()}
