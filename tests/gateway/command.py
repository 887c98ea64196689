"""The real `checkrail gateway`, in a process of its own."""

import contextlib
import json
import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .provider import Provider

COMMAND = Path(sys.executable).parent / "checkrail"

OBSERVERS = """
hooks:
  before_llm_call: [{name: asked, builtin: log_request, config: {verbose: true}}]
  after_llm_call: [{name: answered, builtin: log_response}]
"""
TOOL_RULE = """
hooks:
  before_tool_call: [{name: no_more, tools: [delete_everything], block: never}]
"""
ANSWER_RULE = """
hooks:
  after_llm_call: [{name: careful, when: 'message.content == "never said"', block: never}]
"""
HOOKS = {
    "no hooks": "hooks: {}\n",
    "observers": OBSERVERS,
    "a rule on tools": TOOL_RULE,
    "a rule on answers": ANSWER_RULE,
}
"""Hooks that let everything pass, by how much of a stream they hold."""


@dataclass(frozen=True)
class Running:
    """A gateway that runs."""

    url: str
    process: subprocess.Popen[str]
    _log: Path

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def log(self) -> str:
        """All that it has written so far."""
        return self._log.read_text()

    @property
    def memory_mb(self) -> float:
        """What it has in memory now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextlib.contextmanager
def gateway_process(
    folder: Path,
    hooks: str,
    upstreams: dict[str, Any],
    *arguments: str,
    port: int | None = None,
    open_files: int | None = None,
    **settings: Any,
) -> Iterator[Running]:
    """Start the command with some hooks in front of some upstreams, and stop it at the end.

    Without a `port`, it gets a free one. `open_files` is how many it may have open, unless it
    raises that itself.
    """
    section = {"upstreams": upstreams, **settings}
    (folder / "hooks.yaml").write_text(f"{hooks}\ngateway: {json.dumps(section)}\n")
    at = str(port or _find_free_port())
    log = folder / "gateway.log"
    with log.open("w") as written:
        process = subprocess.Popen(
            [*_limit_open_files(open_files), COMMAND, "gateway", "--port", at, *arguments],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=written,
            text=True,
        )
    with process:
        try:
            said = process.stdout.readline()
            address = re.search(r"http://\S+", said)
            assert address, said + log.read_text()
            yield Running(address[0], process, log)
        finally:
            process.terminate()
            process.communicate(timeout=30)


def _find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        port: int = found.getsockname()[1]
        return port


def _limit_open_files(most: int | None) -> list[str]:
    """Return what stands before a command for which that limit is to hold, and for no other."""
    return [] if most is None else ["sh", "-c", f'ulimit -Sn {most} && exec "$0" "$@"']


def here(provider: Provider, **more: Any) -> dict[str, Any]:
    """Say that a provider takes all three APIs."""
    formats = ["chat", "messages", "responses", "gemini"]
    return {"url": provider.url, "format": formats, "retries": 0, **more}
