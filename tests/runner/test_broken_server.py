"""A runner whose server answers that it is broken goes on polling, for the server may be mended."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.processes import until

from .harness import Running

CONFIG = Path(__file__).parent / "project" / "checkrail.yaml"
REGISTERED = {"runner_id": "r", "beat_seconds": 5, "poll_seconds": 0.1}


class BrokenServer(ThreadingHTTPServer):
    """Answers the requests of a runner with these statuses in turn, then well."""

    daemon_threads = True

    def __init__(self, *statuses: int) -> None:
        super().__init__(("127.0.0.1", 0), _Broken)
        self.statuses = [*statuses]
        self.polls_answered = 0


class _Broken(BaseHTTPRequestHandler):
    def _answer(self, status, body=None):
        content = json.dumps(body or {}).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_POST(self):
        self.rfile.read(int(self.headers.get("content-length") or 0))
        self._answer(200, REGISTERED)

    def do_GET(self):
        if self.server.statuses:
            self._answer(self.server.statuses.pop(0), {"message": "not now"})
            return
        self.server.polls_answered += 1
        self._answer(200)

    def log_message(self, format, *args):
        pass


@pytest.mark.parametrize("statuses", [(500, 500), (410, 500), (599,)])
def test_a_poll_that_is_answered_with_an_error_of_the_server_is_repeated(statuses, tmp_path):
    with BrokenServer(*statuses) as broken:
        threading.Thread(target=broken.serve_forever, daemon=True).start()
        served = SimpleNamespace(
            url=f"http://127.0.0.1:{broken.server_port}",
            config=CONFIG,
            database=SimpleNamespace(env={"CHECKRAIL_DATA_DIR": str(tmp_path)}),
        )
        runner = Running(served, tmp_path / "runner.log").start()
        try:
            until(lambda: broken.polls_answered or not runner.running)
            assert runner.running, runner.output()
        finally:
            runner.kill()
        broken.shutdown()
