"""What Checkrail has promised, and whether it holds."""

from collections.abc import Sequence
from dataclasses import dataclass

import startup
from measure import Timing
from scripted_run import ITERATIONS


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
        _ratio("no hook: registry.fire", 3.5, empty, "registry.fire", 0),
        _ratio("no hook: scope.fire", 3.5, empty, "scope.fire", 0),
        _ratio("5 hooks, full service", 5, returning, full, 5),
        _ratio("20 hooks, full service", 4, returning, full, 20),
        _ratio("5 hooks, every record to a sink", 11, returning, sink, 5),
        _ratio("5 hooks that suspend", 1.6, suspending, full, 5),
        Bar("import checkrail", 100, " ms", startup_ms[startup.IMPORT]),
        Bar("checkrail --help", 150, " ms", startup_ms[startup.HELP]),
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


def _ratio(what: str, limit: float, timings: Sequence[Timing], name: str, hooks: int) -> Bar:
    found = next(t.ratio for t in timings if (t.name, t.hooks) == (name, hooks))
    return Bar(what, limit, "×", found)
