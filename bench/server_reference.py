"""The server beside LangGraph's own: clients that stream, each run on a thread of its own."""

import asyncio
import json
import os
import shutil
import signal
import statistics
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from time import perf_counter

from environments import ENVS, last_line, python_with
from processes import run
from server_clients import THREAD, stream_runs
from server_processes import PROJECT, Place, Served, free_port, server, until_open

LANGGRAPH = "LangGraph's own, in memory"
CLIENTS = 64
ROUNDS = 9
BURST = 3 * CLIENTS
WARM_UP = 2 * CLIENTS
REQUIREMENTS = ("langgraph-api==0.16.*", "langgraph-cli[inmem]>=0.4.40")
GRAPH_PACKAGES = ("langgraph", "langgraph-checkpoint", "langchain-core")
"""What runs the graph is the same in both environments."""
JOBS = 10  # runs at once, its own default
_PATIENCE = 240.0


@dataclass(frozen=True)
class Streams:
    """What streaming clients saw of one server, and what it used; times are in milliseconds.

    A ratio is of the CPU in one round to that of LangGraph's own server in the same round.
    """

    name: str
    rate: float  # runs a second
    p50: float
    p99: float
    cpu: float
    ratio: float
    lowest_ratio: float
    highest_ratio: float
    memory_mb: float


@dataclass(frozen=True)
class ReferenceResults:
    servers: list[Streams]
    langgraph: str | None = None  # the version of langgraph-api
    not_measured: tuple[str, ...] = ()


def measure_beside_reference(places: list[Place], within: Path) -> ReferenceResults:
    """Let LangGraph's own server and ours on each database take turns.

    LangGraph's is started anew for each round: a run costs it more with every run that it has
    kept, and what is compared is a run on a server without a past.
    """
    reference = _Way(LANGGRAPH)
    ours = [_Way(place.name) for place in places]
    try:
        found = _version()
        with ExitStack() as stack:
            served = [stack.enter_context(server(place)) for place in places]
            for turn in range(ROUNDS):
                with langgraph_server(within / f"langgraph_{turn}") as its:
                    ways = [(reference, its), *zip(ours, served, strict=True)]
                    asyncio.run(_measure_round(turn, ways))
    except (OSError, RuntimeError, subprocess.CalledProcessError) as error:
        return ReferenceResults([], None, (f"{LANGGRAPH}: not measured: {last_line(error)}",))
    return ReferenceResults([way.streams(reference) for way in (reference, *ours)], found)


@contextmanager
def langgraph_server(project: Path) -> Iterator[Served]:
    """Run LangGraph's server for development: it needs no licence, and keeps all in memory."""
    python = langgraph_python()
    shutil.copytree(PROJECT, project)
    config = {"dependencies": ["."], "graphs": {"one": "./graphs.py:one"}}
    (project / "langgraph.json").write_text(json.dumps(config))
    port = free_port()
    options = ("--no-browser", "--no-reload", "--n-jobs-per-worker", str(JOBS))
    command = [str(python.with_name("langgraph")), "dev", *options, "--port", str(port)]
    quiet = {"LANGSMITH_TRACING": "false", "LANGGRAPH_CLI_NO_ANALYTICS": "1"}
    with (project / "process.log").open("w") as log:
        process = subprocess.Popen(
            command,
            cwd=project,
            env=os.environ | quiet,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        until_open(process, port, project / "process.log", _PATIENCE)
        yield Served(port, process.pid)
    finally:
        with suppress(ProcessLookupError):  # it may not have started
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(60)


def langgraph_python() -> Path:
    """Return the Python of an environment that has LangGraph's own server."""
    same = [f"{package}=={version(package)}" for package in GRAPH_PACKAGES]
    return python_with(*REQUIREMENTS, *same, env=ENVS / "langgraph_server")


def _version() -> str:
    code = "from importlib.metadata import version; print(version('langgraph-api'))"
    return run([str(langgraph_python()), "-c", code]).strip()


async def _measure_round(turn: int, ways: list[tuple["_Way", Served]]) -> None:
    for _, served in ways:
        await stream_runs(served.port, THREAD, WARM_UP, CLIENTS)
    first = turn % len(ways)  # another one in each round
    for way, served in (*ways[first:], *ways[:first]):
        await way.burst(served)


class _Way:
    """What streaming from one kind of server came to in each round."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cpu: list[float] = []
        self.seconds: list[float] = []
        self.clock = 0.0
        self.memory_mb = 0.0

    async def burst(self, served: Served) -> None:
        cpu, began = served.family_cpu_seconds, perf_counter()
        self.seconds += await stream_runs(served.port, THREAD, BURST, CLIENTS)
        self.clock += perf_counter() - began
        self.cpu.append((served.family_cpu_seconds - cpu) / BURST * 1000)
        self.memory_mb = served.family_rss_mb

    def streams(self, reference: "_Way") -> Streams:
        """Return what was found; a ratio is of one round."""
        ratios = [mine / its for mine, its in zip(self.cpu, reference.cpu, strict=True)]
        cuts = statistics.quantiles(self.seconds, n=100, method="inclusive")
        return Streams(
            name=self.name,
            rate=len(self.seconds) / self.clock,
            p50=cuts[49] * 1000,
            p99=cuts[98] * 1000,
            cpu=statistics.median(self.cpu),
            ratio=statistics.median(ratios),
            lowest_ratio=min(ratios),
            highest_ratio=max(ratios),
            memory_mb=self.memory_mb,
        )
