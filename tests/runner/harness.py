"""Starts the real runner as a process, beside a server, and stops it in every way."""

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx
from tests.processes import PATIENCE, environment, until
from tests.server.harness import Database, Served, zygote
from tests.server.zygote import Forked


@dataclass
class Running:
    """One runner process: `python -m checkrail runner`."""

    server: Served
    log: Path
    args: tuple[str, ...] = ("--tag", "elsewhere")
    env: Mapping[str, str] = field(default_factory=dict)
    process: Forked | None = None

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def database(self) -> Database:
        return self.server.database

    def begin(self) -> Self:
        """Start it, and do not wait."""
        config = self.server.config
        words = ("runner", "--server", self.server.url, *self.args, "--config", str(config))
        env = environment(**{**self.server.database.env, **self.env})
        with self.log.open("ab") as log:
            self.process = zygote().start(words, config.parent, env, log.fileno())
        return self

    def start(self) -> Self:
        """Start it, and wait until the server knows it."""
        before = self.output().count("registered as")
        self.begin()
        self.await_registered(before + 1)
        return self

    def await_registered(self, times: int = 1) -> None:
        def ready() -> bool:
            if not self.running:
                raise RuntimeError(f"the runner ended by itself:\n{self.output()}")
            return self.output().count("registered as") >= times

        until(ready, what="the runner's registration")

    def ask_to_end(self) -> None:
        """Ask it to end, as an operator does."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)

    def stop(self) -> int:
        """Ask it to end, and wait; its exit code."""
        self.ask_to_end()
        return self.process.wait(PATIENCE)

    def kill(self) -> None:
        """End it between two instructions."""
        if self.running:
            os.killpg(self.pid, signal.SIGKILL)
            self.process.wait(PATIENCE)

    def freeze(self) -> None:
        os.killpg(self.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        if self.running:
            os.killpg(self.pid, signal.SIGCONT)

    def output(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""


class Asking:
    """Asks a server for runs, and waits for what becomes of them."""

    def __init__(self, server: Served) -> None:
        self.client = httpx.Client(base_url=server.url, timeout=PATIENCE, trust_env=False)

    def run(self, agent: str, given: Any = None, **more: Any) -> str:
        """Ask for a run; its id."""
        body = {"assistant_id": agent, "input": given or {}, "on_completion": "keep", **more}
        return str(self.answered(self.client.post("/runs", json=body))["run_id"])

    def wait(self, agent: str, given: Any = None, **more: Any) -> dict[str, Any]:
        """Ask for a run, and give it when it has ended."""
        return self.ended(self.run(agent, given, **more))

    def get(self, run_id: str) -> dict[str, Any]:
        return dict(self.answered(self.client.get(f"/runs/{run_id}")))

    def ended(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = {}

        def over() -> bool:
            found.update(self.get(run_id))
            return found["ended_at"] is not None

        until(over, what=f"the end of run {run_id}, which is {found}")
        return found

    def cancel(self, run_id: str, action: str = "interrupt") -> None:
        self.answered(self.client.post(f"/runs/{run_id}/cancel", params={"action": action}))

    def records(self, run_id: str) -> list[dict[str, Any]]:
        return list(self.answered(self.client.get(f"/runs/{run_id}/hooks")))

    @staticmethod
    def answered(answer: httpx.Response) -> Any:
        assert answer.is_success, f"{answer.status_code}: {answer.text}"
        return answer.json() if answer.content else None
