"""What the tests of the formats share: a server that gives what they wrote to real SDKs."""

import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Endpoint:
    """A server that answers every request with the same bytes."""

    def __init__(self) -> None:
        self.status = 200
        self.body = b""
        self.is_stream = False
        self.url = ""

    def gives(self, body: bytes, *, status: int = 200, stream: bool = False) -> str:
        self.body, self.status, self.is_stream = body, status, stream
        return self.url


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    served = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(served.status)
            kind = "text/event-stream" if served.is_stream else "application/json"
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(served.body)))
            self.end_headers()
            self.wfile.write(served.body)

        def log_message(self, *_args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    served.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield served
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [*os.environ]:
        if name.upper().startswith(("OPENAI_", "ANTHROPIC_")) or name.upper().endswith("_PROXY"):
            monkeypatch.delenv(name)
