"""The gateway in turns with nothing in between and with LiteLLM's proxy, before one upstream."""

import asyncio
import statistics
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from time import perf_counter

from environments import last_line
from gateway_clients import ask, stream
from gateway_histories import HistoryResults, measure_histories
from gateway_processes import gateway, litellm, litellm_python, upstream
from gateway_upstream import CHUNKS
from processes import run
from server_processes import Served, folder

DIRECT, NO_HOOKS, TEN_HOOKS = "direct", "gateway, no hooks", "gateway, 10 hooks"
LITELLM, LITELLM_CALLBACK = "LiteLLM proxy", "LiteLLM proxy, 10 hooks by callback"

ROUNDS = 9
ALONE = 32
TOGETHER, CLIENTS = 128, 16
STREAMS, READERS = 8, 4
LONE_STREAMS = 4
WARM_UP = 192


@dataclass(frozen=True)
class Way:
    """What one way to a model came to; times are in milliseconds. CPU is that of what stands there.

    `cpu` is of a request of 10 kB with one client, `crowded_cpu` with many of them. What is added
    is beside the direct way in the same round.
    """

    name: str
    rate: float  # requests a second, many clients
    p50: float
    added: float
    cpu: float
    crowded_cpu: float
    first_byte: float
    first_byte_added: float
    chunk_cpu: float
    memory_mb: float


@dataclass(frozen=True)
class GatewayResults:
    ways: list[Way]
    histories: HistoryResults
    litellm: str | None = None  # its version
    not_measured: tuple[str, ...] = ()


def measure_gateway(*, with_peers: bool) -> GatewayResults:
    """Start everything, and let all ways take turns."""
    missing: list[str] = []
    version = None
    with ExitStack() as stack:
        within = stack.enter_context(folder())
        model = stack.enter_context(upstream())
        paths = [_Path(DIRECT, model)]
        for name, hooks in ((NO_HOOKS, "none.yaml"), (TEN_HOOKS, "ten.yaml")):
            paths.append(_Path(name, stack.enter_context(gateway(within, hooks, model))))
        for name, callback in ((LITELLM, False), (LITELLM_CALLBACK, True)) if with_peers else ():
            start = partial(litellm, within, model, callback=callback)
            try:
                paths.append(_Path(name, stack.enter_context(start())))
                version = version or _version()
            except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
                missing.append(f"{name}: not measured: {last_line(error)}")
        asyncio.run(_measure(paths))
        ways = [path.way(paths[0]) for path in paths]
    return GatewayResults(ways, measure_histories(), version, tuple(missing))


def _version() -> str:
    code = "from importlib.metadata import version; print(version('litellm'))"
    return run([str(litellm_python()), "-c", code]).strip()


async def _measure(paths: list["_Path"]) -> None:
    for path in paths:
        await ask(path.served.port, WARM_UP, 4)
        await stream(path.served.port, READERS, READERS)
    for turn in range(ROUNDS):  # another one first in each round
        for path in (*paths[turn % len(paths) :], *paths[: turn % len(paths)]):
            await path.burst()


class _Path:
    """A way to the model, and what it came to in each burst."""

    def __init__(self, name: str, served: Served) -> None:
        self.name = name
        self.served = served
        self.cpu: list[float] = []
        self.crowded_cpu: list[float] = []
        self.chunk_cpu: list[float] = []
        self.p50: list[float] = []
        self.first_byte: list[float] = []
        self.rate: list[float] = []

    async def burst(self) -> None:
        """Ask alone and in a crowd, then for streams alone and for several at once."""
        port = self.served.port
        cpu = self.served.cpu_seconds
        self.p50.append(statistics.median(await ask(port, ALONE, 1)) * 1000)
        self.cpu.append((self.served.cpu_seconds - cpu) / ALONE * 1000)
        cpu, began = self.served.cpu_seconds, perf_counter()
        await ask(port, TOGETHER, CLIENTS)
        self.rate.append(TOGETHER / (perf_counter() - began))
        self.crowded_cpu.append((self.served.cpu_seconds - cpu) / TOGETHER * 1000)
        self.first_byte.append(statistics.median(await stream(port, LONE_STREAMS, 1)) * 1000)
        cpu = self.served.cpu_seconds
        await stream(port, STREAMS, READERS)
        self.chunk_cpu.append((self.served.cpu_seconds - cpu) / STREAMS / CHUNKS * 1000)

    def way(self, direct: "_Path") -> Way:
        """Give what was found, as medians of the bursts."""
        return Way(
            name=self.name,
            rate=statistics.median(self.rate),
            p50=statistics.median(self.p50),
            added=_added(self.p50, direct.p50),
            cpu=statistics.median(self.cpu),
            crowded_cpu=statistics.median(self.crowded_cpu),
            first_byte=statistics.median(self.first_byte),
            first_byte_added=_added(self.first_byte, direct.first_byte),
            chunk_cpu=statistics.median(self.chunk_cpu),
            memory_mb=self.served.rss_mb,
        )


def _added(found: list[float], direct: list[float]) -> float:
    return statistics.median(mine - bare for mine, bare in zip(found, direct, strict=True))
