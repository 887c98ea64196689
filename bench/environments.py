"""The peers, each measured in an environment of its own under `bench/.envs/`."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from measure import Timing
from processes import BENCH, measured_by, run

ENVS = BENCH / ".envs"
OWN_UV = BENCH.parent / ".tools" / "bin" / "uv"


@dataclass(frozen=True)
class Peer:
    """A package, and the module under `bench/peers/` that measures it."""

    package: str
    at_least: str
    module: str


@dataclass(frozen=True)
class PeerResult:
    """What a peer reached, or why nobody knows."""

    package: str
    version: str | None = None
    timings: tuple[Timing, ...] = ()
    not_measured: str | None = None


PEERS = (
    Peer("pluggy", "1.7", "pluggy_hookspec"),
    Peer("blinker", "1.9", "blinker_signal"),
    Peer("pydantic-ai-slim", "2.66", "pydantic_ai_hooks"),
    Peer("agent-hooks-sdk", "0.1.0b3", "agent_hooks_emitter"),
)
LOOP_PEERS = (
    Peer("pydantic-ai-slim", "2.66", "pydantic_ai_loop"),
    Peer("openai-agents", "0.24", "openai_agents_loop"),
    Peer("langchain", "1.4", "langchain_loop"),
)


def measure_peer(peer: Peer) -> PeerResult:
    try:
        python = python_with(f"{peer.package}>={peer.at_least}", env=ENVS / peer.module)
        found = measured_by(python, f"peers.{peer.module}")
    except (OSError, subprocess.CalledProcessError, json.JSONDecodeError) as error:
        return PeerResult(peer.package, not_measured=last_line(error))
    return PeerResult(peer.package, found.version, tuple(chain(*found.sections.values())))


def python_with(*requirements: str, env: Path) -> Path:
    """The Python of a cached environment; to renew it, delete its folder."""
    python = env / "bin" / "python"
    installed = env / "requirement.txt"
    wanted = f"{' '.join(requirements)} on {sys.version}"
    if not installed.exists() or installed.read_text() != wanted:
        uv = _find_uv()
        run([uv, "venv", "--quiet", "--clear", "--python", sys.executable, str(env)])
        run([uv, "pip", "install", "--quiet", "--python", str(python), *requirements])
        installed.write_text(wanted)
    return python


def _find_uv() -> str:
    """The project's own uv is there only if the one on the PATH does not serve."""
    found = shutil.which(OWN_UV) or shutil.which("uv")
    if found is None:
        raise FileNotFoundError("uv is neither in .tools/bin nor on the PATH")
    return found


def last_line(error: Exception) -> str:
    """Say in one line why something could not be measured."""
    said = getattr(error, "stderr", None) or str(error)
    return said.strip().splitlines()[-1].strip()
