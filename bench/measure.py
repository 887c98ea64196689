"""What every measurement here shares: CPU time, short alternating rounds, medians.

Standard library only, so that a peer's own environment can run it.
"""

import asyncio
import gc
import json
import statistics
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from itertools import chain
from time import process_time_ns

Run = Callable[[int], Awaitable[None]]
"""Does its work as many times as it is told, in a loop of its own."""
Hook = Callable[[object], Awaitable[object]]

HOOK_COUNTS = (1, 5, 20)
BARE = "bare loop"
ROUNDS = 101
ROUND_NS = 1_000_000


@dataclass(frozen=True)
class Timing:
    """The median cost of one dispatch, and its ratio to the baseline beside it."""

    name: str
    hooks: int
    dispatch_ns: float
    ratio: float

    @property
    def hook_ns(self) -> float:
        return self.dispatch_ns / max(self.hooks, 1)


@dataclass(frozen=True)
class Measured:
    """What one process found out, by section, and the version of what it timed."""

    version: str | None
    sections: dict[str, list[Timing]]

    def print(self) -> None:
        print(json.dumps(asdict(self)))


def compare(runs: Mapping[str, Run], *, hooks: int) -> list[Timing]:
    """Time the runs in alternation; the first one is what the others are held against.

    A ratio is the median of the ratios within each round, so that a machine that
    changes its speed between rounds does not change the ratio.
    """
    samples = asyncio.run(_sample({"": _empty_loop, **runs}))
    loop = samples.pop("")
    net = {
        name: [cost - idle for cost, idle in zip(costs, loop, strict=True)]
        for name, costs in samples.items()
    }
    baseline = next(iter(net.values()))
    return [
        Timing(name, hooks, statistics.median(costs), _median_ratio(costs, baseline))
        for name, costs in net.items()
    ]


def make_hooks(count: int) -> list[Hook]:
    """Hooks that return at once, each a function of its own as real ones are."""
    return [_make_hook() for _ in range(count)]


def bare_loop(hooks: Sequence[Hook], value: object) -> Run:
    """The loop that people write themselves, where the hooks are to be called."""

    async def run(times: int) -> None:
        for _ in range(times):
            for fn in hooks:
                await fn(value)

    return run


def print_peer(package: str, build: Callable[[int], Mapping[str, Run]]) -> None:
    """Measure a peer with the bare loop beside it, and print what was found."""
    timings = chain.from_iterable(
        compare({BARE: bare_loop(make_hooks(n), object()), **build(n)}, hooks=n)
        for n in HOOK_COUNTS
    )
    Measured(version(package), {"returning": list(timings)}).print()


def _make_hook() -> Hook:
    async def hook(value: object) -> None:
        return None

    return hook


async def _empty_loop(times: int) -> None:
    """The cost of repeating, which is taken off every other cost."""
    for _ in range(times):
        pass


async def _sample(runs: Mapping[str, Run]) -> dict[str, list[float]]:
    times = {name: await _calibrate(run) for name, run in runs.items()}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    with _collector_held():
        for turn in range(ROUNDS):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                spent = await _spend(runs[name], times[name])
                samples[name].append(spent / times[name])
                gc.collect()
    return samples


async def _calibrate(run: Run) -> int:
    """How many times fill a round. It warms the code up as well."""
    times = 1
    while await _spend(run, times) < ROUND_NS:
        times *= 2
    return times


async def _spend(run: Run, times: int) -> int:
    started = process_time_ns()
    await run(times)
    return process_time_ns() - started


@contextmanager
def _collector_held() -> Iterator[None]:
    """Collect between rounds only, and only what the rounds themselves left behind."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


def _median_ratio(costs: Sequence[float], baseline: Sequence[float]) -> float:
    return statistics.median(cost / base for cost, base in zip(costs, baseline, strict=True))
