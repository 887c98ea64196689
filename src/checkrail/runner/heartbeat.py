"""Heartbeats: a thread that says that a runner is alive, whatever its event loop does."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from checkrail.runner.api import RequestRefused, ServerUnavailable, parse_answer, request_headers
from checkrail.runs import jsons

log = logging.getLogger("checkrail.runner")

Holding = Mapping[str, tuple[str, int]]
"""Runs by their ids: under which runner's id each is held, and in which attempt."""


class HeartbeatResult:
    """What a heartbeat has learned of the runs that one runner's id holds."""

    def __init__(self, runner_id: str, began: float, runs: Mapping[str, Any]) -> None:
        self.runner_id = runner_id
        self.began = began  # by the monotonic clock
        self.runs = runs

    def cancel_action(self, run_id: str, attempt: int) -> str | None:
        """Return how a run is to be cancelled: `lost`, as somebody requested, or not at all."""
        found = self.runs.get(run_id)
        if found is None or found["attempt"] != attempt:
            return "lost"
        return found["cancel"]  # type: ignore[no-any-return]


class Heartbeat:
    """Beats for the runs that are `holding`, and hands on what it learned."""

    def __init__(
        self,
        options: Mapping[str, Any],
        every: float,
        holding: Callable[[], Holding],
        told: Callable[[HeartbeatResult], object],
    ) -> None:
        self._options = options
        self._every = every
        self._holding = holding
        self._told = told
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._beat_loop, name="checkrail-beat", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Beat no more."""
        self._stop.set()

    def _beat_loop(self) -> None:
        import httpx2

        patience = httpx2.Timeout(max(1.0, self._every))
        with httpx2.Client(**{**self._options, "timeout": patience}) as client:
            while not self._stop.wait(self._every):
                try:
                    self._beat(client)
                except ServerUnavailable as error:
                    log.debug("a heartbeat was not heard: %s", error)
                except Exception:
                    log.exception("a heartbeat failed; the next one is due in %s s", self._every)

    def _beat(self, client: Any) -> None:
        """Beat once for each id; any run of it will do, but one that is lost says nothing."""
        holding = dict(self._holding())
        heard: set[str] = set()
        for run_id, (runner_id, attempt) in holding.items():
            if runner_id not in heard and self._beat_once(client, runner_id, run_id, attempt):
                heard.add(runner_id)

    def _beat_once(self, client: Any, runner_id: str, run_id: str, attempt: int) -> bool:
        began = time.monotonic()
        try:
            answer = self._send_beat(client, runner_id, run_id, attempt)
        except RequestRefused as refused:
            if refused.is_runner_gone or refused.error == "not_found":
                self._told(HeartbeatResult(runner_id, began, {}))
                return True
            if not refused.is_lease_lost:
                log.warning("a heartbeat was refused: %s", refused)
            return False
        self._told(HeartbeatResult(runner_id, began, answer["runs"]))
        return True

    def _send_beat(self, client: Any, runner_id: str, run_id: str, attempt: int) -> Any:
        import httpx2

        path = f"/runner/runs/{run_id}/heartbeat"
        content = jsons.dumps({"attempt": attempt})
        try:
            answer = client.post(path, content=content, headers=request_headers(runner_id))
        except httpx2.TransportError as error:
            raise ServerUnavailable(type(error).__name__) from None
        return parse_answer(answer)
