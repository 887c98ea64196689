"""Every command that listens holds its clients to limits, WebSockets included."""

import contextlib
import json
import socket
import subprocess
import sys
from uuid import uuid4

import pytest
from tests.processes import environment, until
from tests.server.harness import free_port
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

LIMITS = (
    "limits: { header_bytes: 4096, header_seconds: 0.5, body_seconds: 0.5, "
    "connections_per_address: 8 }\n"
)
PROJECT = f"agents: {{ cat: {{ type: procedural, command: [cat] }} }}\n{LIMITS}"


@pytest.fixture
def config(tmp_path):
    file = tmp_path / "checkrail.yaml"
    file.write_text(PROJECT)
    return file


def answered(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(data)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def check_limits(port: int) -> None:
    large = answered(port, b"GET /ok HTTP/1.1\r\nx-long: " + b"a" * 8000)
    assert large.startswith(b"HTTP/1.1 431 ")
    assert b"limits.header_bytes allows, which is 4096 bytes" in large
    half = answered(port, b"GET /ok HTTP/1.1\r\nhost: 127.0.0.1\r\n")
    assert half.startswith(b"HTTP/1.1 408 ")
    for path in (b"/runs", b"/runs/wait", b"/threads", b"/v1/messages"):
        head = b"POST %b HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n" % path
        short = answered(port, head + b'content-length: 100\r\n\r\n{"a"')
        assert short.split()[1] in (b"408", b"404")


@pytest.mark.parametrize("command", ["serve", "dev"])
def test_a_server_has_them(serve, new_database, config, command):
    served = serve(new_database("sqlite"), config=config, command=command).start()
    check_limits(served.port)
    assert "ERROR" not in served.output().upper()


def test_a_gateway_has_them(tmp_path):
    (tmp_path / "hooks.yaml").write_text(f"hooks: {{}}\n{LIMITS}")
    port = free_port()
    words = [sys.executable, "-m", "checkrail", "gateway", "--port", str(port)]
    with subprocess.Popen(
        words, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as process:
        try:
            assert b"gateway" in process.stdout.readline()
            check_limits(port)
        finally:
            process.terminate()


class TestWebSockets:
    @pytest.fixture
    def served(self, serve, new_database, config):
        return serve(new_database("sqlite"), config=config).start()

    def url(self, served) -> str:
        return f"ws://127.0.0.1:{served.port}/threads/{uuid4()}/stream/events"

    def test_they_count_for_their_address(self, serve, new_database, config):
        config.write_text(PROJECT.replace("header_seconds: 0.5", "header_seconds: 60"))
        served = serve(new_database("sqlite"), config=config).start()
        with contextlib.ExitStack() as stack:
            for _ in range(8):
                stack.enter_context(connect(self.url(served)))
            assert answered(served.port, b"").startswith(b"HTTP/1.1 429")
        until(lambda: answered(served.port, GET).startswith(b"HTTP/1.1 200"))

    def test_one_has_to_say_what_it_is_for(self, served):
        with connect(self.url(served)) as one:
            told = json.loads(one.recv(timeout=20))
            assert "limits.header_seconds" in told["message"]
            with pytest.raises(ConnectionClosed):
                one.recv(timeout=20)
        assert '"error"' not in served.output()

    @pytest.mark.parametrize("first", [b"\x00\x01", "", "[]", '"' + "[" * 1000])
    def test_a_first_message_that_is_none_is_refused(self, served, first):
        with connect(self.url(served)) as one:
            one.send(first)
            assert json.loads(one.recv(timeout=20))["type"] == "error"
        assert '"error"' not in served.output()

    def test_a_message_of_many_fragments_is_refused(self, served):
        with connect(self.url(served)) as one:
            with contextlib.suppress(ConnectionClosed):  # the server may hang up in the middle
                one.send("a" for _ in range(5000))
            with pytest.raises(ConnectionClosed):
                one.recv(timeout=20)
        assert '"error"' not in served.output()


GET = b"GET /ok HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"


def refused(url: str, key: str = "") -> int:
    """The status with which a handshake is refused."""
    with pytest.raises(InvalidStatus) as error, connect(url, additional_headers={"x-api-key": key}):
        pass
    return error.value.response.status_code


def test_a_websocket_that_is_refused_is_no_error(serve, new_database, config):
    config.write_text(f"{PROJECT}auth: {{ keys: true }}\n")
    served = serve(new_database("sqlite"), config=config).start()
    url = f"ws://127.0.0.1:{served.port}/threads/{uuid4()}/stream/events"
    assert refused(url) == refused(url, "crk_wrong") == refused(f"{url}/nothing") == 401
    key = served.run("keys", "create", "me", "--role", "runner").splitlines()[0]
    assert refused(url, key) == 403
    assert answered(served.port, GET).startswith(b"HTTP/1.1 200")
    output = served.output()
    assert "error" not in output.lower(), output
