"""What one client may do with its connections, by either parser, on real sockets."""

import contextlib
import json
import select
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import uvicorn
from tests.processes import until

from checkrail.config.server import LimitsConfig
from checkrail.connections.watch import Connections, apply_limits, peer_address

PARSERS = ("LimitedHttpTools", "LimitedH11")
LOOPS = ("uvloop", "asyncio")
GET = b"GET / HTTP/1.1\r\nhost: x\r\n"
POST = b"POST /read HTTP/1.1\r\nhost: x\r\n"
QUICK = {"header_seconds": 0.2, "body_seconds": 0.2}


@dataclass
class App:
    """Reads bodies, sends as much as it is asked to, and notes what it saw."""

    limits: LimitsConfig
    port: int = 0
    held: Any = None
    seen: list[str] = field(default_factory=list)

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            async with apply_limits(scope, self.limits):
                self.held = scope["state"]["checkrail.connections"]
                await receive()
                await send({"type": "lifespan.startup.complete"})
                await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        self.seen.append(scope["path"])
        body = b"fine"
        if scope["path"] == "/read":
            body = await self.read(receive)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        if scope["path"] == "/flood":
            body = b"x" * 8 * 1024 * 1024
            for _ in range(40):
                await send({"type": "http.response.body", "body": body, "more_body": True})
            self.seen.append("flooded")
        await send({"type": "http.response.body", "body": body})

    async def read(self, receive):
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.seen.append("gone")
                return b"gone"
            size += len(message["body"])
            if not message["more_body"]:
                return b"%d" % size

    @property
    def open(self) -> int:
        return len(self.held._open)


@contextlib.contextmanager
def serving(parser: str = PARSERS[0], loop: str = LOOPS[0], **limits: Any) -> Iterator[App]:
    app = App(LimitsConfig(**limits))
    config = uvicorn.Config(
        app,
        http=f"checkrail.connections.http:{parser}",
        loop=loop,
        log_config=None,
        timeout_keep_alive=1,  # second
    )
    with socket.create_server(("127.0.0.1", 0)) as listener:
        app.port = listener.getsockname()[1]
        running = uvicorn.Server(config)
        thread = threading.Thread(target=running.run, args=([listener],), daemon=True)
        thread.start()
        until(lambda: running.started)
        try:
            yield app
        finally:
            running.should_exit = True
            thread.join(20)


@contextlib.contextmanager
def connected(app: App) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", app.port), timeout=20) as connection:
        yield connection


def everything(connection: socket.socket) -> bytes:
    """All that the server sends until it hangs up."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


def trickled(connection: socket.socket, pieces: Iterable[bytes]) -> int:
    """Send piece after piece until the server answers; its status, 0 if there is none."""
    with contextlib.suppress(ConnectionError):
        for piece in pieces:
            if select.select([connection], [], [], 0.02)[0]:
                break
            connection.sendall(piece)
        if answer := everything(connection):
            return status(answer)
    return 0


def status(answer: bytes) -> int:
    return int(answer.split()[1])


@pytest.fixture(params=PARSERS)
def parser(request) -> str:
    return request.param


class TestHeaders:
    def test_one_that_has_no_end_is_refused(self, parser):
        with serving(parser) as app, connected(app) as one:
            one.sendall(GET + b"x-long: ")
            sent = 0
            with contextlib.suppress(ConnectionError):
                while sent < 64 * 1024 * 1024:
                    one.sendall(b"a" * 65536)
                    sent += 65536
            assert sent < 8 * 1024 * 1024
            until(lambda: not app.open)

    @pytest.mark.parametrize("loop", LOOPS)
    def test_the_answer_tells_the_limit(self, parser, loop):
        with serving(parser, loop, header_bytes=4096) as app, connected(app) as one:
            one.sendall(GET + b"x-long: " + b"a" * 8000)
            answer = everything(one)
        assert status(answer) == 431
        told = json.loads(answer.partition(b"\r\n\r\n")[2])
        assert told["error"] == "headers_too_large"
        assert "limits.header_bytes allows, which is 4096 bytes" in told["message"]
        assert app.seen == []

    @pytest.mark.parametrize(
        "head",
        [
            GET + b"x-long: " + b"a" * 8000 + b"\r\n\r\n",
            GET + b"x: y\r\n" * 1500 + b"\r\n",
            b"GET /" + b"a" * 8000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        ],
        ids=["a long one", "many", "a long path"],
    )
    def test_whole_ones_that_are_too_large_are_refused(self, head, caplog):
        with serving(header_bytes=4096) as app, connected(app) as one:
            one.sendall(head)
            assert status(everything(one)) == 431
        assert app.seen == []
        assert "ERROR" not in {record.levelname for record in caplog.records}

    def test_trailers_without_end_are_refused(self, parser):
        with serving(parser) as app, connected(app) as one:
            one.sendall(POST + b"transfer-encoding: chunked\r\n\r\n1\r\na\r\n0\r\nx-long: ")
            sent = 0
            with contextlib.suppress(ConnectionError):
                while sent < 64 * 1024 * 1024:
                    one.sendall(b"a" * 65536)
                    sent += 65536
            assert sent < 8 * 1024 * 1024

    def test_a_client_that_sends_half_of_them_is_told_and_closed(self, parser):
        with serving(parser, **QUICK) as app, connected(app) as one:
            one.sendall(GET)
            answer = everything(one)
            assert status(answer) == 408
            assert b"limits.header_seconds" in answer
            one.close()
            until(lambda: not app.open)

    def test_one_byte_after_the_other_gains_no_time(self, parser):
        with serving(parser, **QUICK) as app, connected(app) as one:
            letters = GET + b"x-slow: " + b"a" * 1000
            assert trickled(one, (bytes([letter]) for letter in letters)) == 408

    def test_empty_lines_gain_no_time(self, parser):
        with serving(parser, **QUICK) as app, connected(app) as one:
            one.sendall(GET + b"\r\n")
            answer = one.recv(65536)
            while not answer.endswith(b"0\r\n\r\n"):
                piece = one.recv(65536)
                assert piece, answer
                answer += piece
            assert status(answer) == 200
            assert trickled(one, [b"\r\n"] * 1000) in (400, 408, 0)
            until(lambda: not app.open)

    def test_a_client_that_sends_nothing_is_closed(self, parser):
        with serving(parser, **QUICK) as app, connected(app) as one:
            assert everything(one) == b""

    def test_a_connection_without_requests_is_closed_after_its_last(self, parser):
        with serving(parser) as app, connected(app) as one:
            one.sendall(GET + b"\r\n")
            assert status(everything(one)) == 200


class TestBodies:
    def test_half_of_one_is_told_and_closed(self, parser):
        with serving(parser, **QUICK) as app, connected(app) as one:
            one.sendall(POST + b"content-length: 100\r\n\r\nabc")
            answer = everything(one)
            assert status(answer) == 408
            assert b"limits.body_seconds" in answer
            until(lambda: app.seen == ["/read", "gone"])

    def test_pieces_without_end_gain_no_time(self, parser):
        with serving(parser, **QUICK) as app, connected(app) as one:
            one.sendall(POST + b"transfer-encoding: chunked\r\n\r\n")
            assert trickled(one, [b"1\r\na\r\n"] * 1000) == 408

    def test_an_answer_before_the_body_does_not_keep_the_connection(self, parser):
        with serving(parser, **QUICK) as app, connected(app) as one:
            one.sendall(POST.replace(b"/read", b"/") + b"content-length: 1000\r\n\r\nabc")
            answer = everything(one)
            assert status(answer) == 200
            assert answer.count(b"HTTP/1.1 ") == 1

    @pytest.mark.parametrize("piece", [b"1\r\na\r\n" * 20_000, b"1;" + b"a" * 100_000])
    def test_what_goes_on_after_the_answer_is_left_unread(self, parser, piece):
        with serving(parser) as app, connected(app) as one:
            one.sendall(POST.replace(b"/read", b"/") + b"transfer-encoding: chunked\r\n\r\n")
            answer = one.recv(65536)
            with contextlib.suppress(ConnectionError):
                for _ in range(20):
                    one.sendall(piece)
                answer += everything(one)
            assert answer.count(b"HTTP/1.1 ") == 1
            one.close()
            until(lambda: not app.open)

    @pytest.mark.parametrize(
        ("framing", "is_last"),
        [
            (b"content-length: 1000", False),
            (b"content-length: 9000000", True),
            (b"transfer-encoding: chunked", True),
        ],
    )
    def test_an_answer_before_the_end_of_a_large_body_says_that_it_is_the_last(
        self, parser, framing, is_last
    ):
        with serving(parser) as app, connected(app) as one:
            one.sendall(POST.replace(b"/read", b"/") + framing + b"\r\n\r\n")
            assert (b"connection: close" in one.recv(65536).lower()) is is_last

    def test_a_large_body_is_taken_to_its_end_after_the_answer(self, parser):
        with serving(parser) as app, connected(app) as one:
            one.sendall(POST.replace(b"/read", b"/") + b"content-length: 40000000\r\n\r\n")
            for _ in range(40):
                one.sendall(b"x" * 1_000_000)
            assert status(everything(one)) == 200
            one.close()
            until(lambda: not app.open)

    def test_large_ones_pass(self, parser):
        with serving(parser, header_bytes=1024) as app, connected(app) as one:
            size = 4 * 1024 * 1024
            one.sendall(POST + b"connection: close\r\ncontent-length: %d\r\n\r\n" % size)
            one.sendall(b"a" * size)
            assert everything(one).endswith(b"%d" % size + b"\r\n0\r\n\r\n")

    def test_many_small_pieces_pass(self, parser):
        with serving(parser, header_bytes=1024) as app, connected(app) as one:
            one.sendall(POST + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n")
            one.sendall(b"1\r\na\r\n" * 20_000 + b"0\r\n\r\n")
            assert everything(one).endswith(b"5\r\n20000\r\n0\r\n\r\n")


class TestRequestsInARow:
    def test_some_are_answered_in_turn(self, parser):
        with serving(parser) as app, connected(app) as one:
            one.sendall((GET + b"\r\n") * 20 + GET + b"connection: close\r\n\r\n")
            assert everything(one).count(b"HTTP/1.1 200 OK") == 21

    def test_as_many_as_fit_into_memory_are_not(self):
        with serving() as app, connected(app) as one:
            with contextlib.suppress(ConnectionError):
                one.sendall((GET + b"\r\n") * 5000)
                everything(one)
            until(lambda: not app.open)
            assert len(app.seen) < 1000

    def test_half_of_one_behind_another_that_is_answered(self, parser):
        with serving(parser, **QUICK) as app, connected(app) as one:
            one.sendall(GET + b"\r\n" + GET)
            answer = everything(one)
            assert answer.count(b"HTTP/1.1 ") == answer.count(b"HTTP/1.1 200") + answer.count(
                b"HTTP/1.1 408"
            )


class TestAddresses:
    def test_one_has_so_many_connections(self, parser):
        with serving(parser, connections_per_address=3) as app, contextlib.ExitStack() as stack:
            some = [stack.enter_context(connected(app)) for _ in range(3)]
            until(lambda: app.open == 3)
            with connected(app) as one:
                answer = everything(one)
            assert status(answer) == 429
            assert b"limits.connections_per_address" in answer
            some.pop().close()
            until(lambda: app.open == 2)
            with connected(app) as one:
                one.sendall(GET + b"connection: close\r\n\r\n")
                assert status(everything(one)) == 200

    def test_who_goes_on_is_cut(self):
        with serving(connections_per_address=1) as app, contextlib.ExitStack() as stack:
            for _ in range(200):
                with contextlib.suppress(ConnectionError):
                    stack.enter_context(connected(app))
            until(lambda: app.open <= 66)

    def test_none_is_as_many_as_come(self):
        with serving(connections_per_address=0) as app, contextlib.ExitStack() as stack:
            some = [stack.enter_context(connected(app)) for _ in range(50)]
            until(lambda: app.open == 50)
            some[-1].sendall(GET + b"connection: close\r\n\r\n")
            assert status(everything(some[-1])) == 200

    @pytest.mark.parametrize(
        ("peer", "address"),
        [
            (("10.1.2.3", 5000), "10.1.2.3"),
            (("2001:db8:1:2:aaaa::1", 5000, 0, 0), "2001:db8:1:2::/64"),
            (("2001:db8:1:2:bbbb:1:2:3", 5000, 0, 0), "2001:db8:1:2::/64"),
            (("fe80::1%eth0", 5000, 0, 2), "fe80::/64"),
            (("::ffff:10.1.2.3", 5000, 0, 0), "10.1.2.3"),
            (("::1", 5000, 0, 0), "::/64"),
            ("", ""),
            (None, ""),
        ],
    )
    def test_of_ipv6_the_network_counts(self, peer, address):
        assert peer_address(peer) == address


class TestReaders:
    @pytest.mark.parametrize("loop", LOOPS)
    def test_one_that_does_not_read_is_cut(self, parser, loop):
        with serving(parser, loop, write_seconds=0.2) as app, connected(app) as one:
            one.sendall(b"GET /flood HTTP/1.1\r\nhost: x\r\n\r\n")
            until(lambda: app.seen == ["/flood", "flooded"])
            until(lambda: not app.open)

    def test_one_that_reads_slowly_is_not(self):
        with serving(write_seconds=0.5) as app, connected(app) as one:
            one.sendall(b"GET /flood HTTP/1.1\r\nhost: x\r\n\r\n")
            until_then = time.monotonic() + 1.0
            while time.monotonic() < until_then:
                assert len(one.recv(4 * 1024 * 1024)) > 0
                time.sleep(0.02)
            assert app.open == 1


def test_limits_of_nothing_are_none(parser):
    nothing = dict.fromkeys(("header_bytes", "header_seconds", "body_seconds", "write_seconds"), 0)
    with serving(parser, **nothing) as app, connected(app) as one:
        one.sendall(GET + b"x-long: " + b"a" * 10_000)
        time.sleep(0.3)
        one.sendall(b"\r\nconnection: close\r\n\r\n")
        assert status(everything(one)) == 200
    assert isinstance(app.held, Connections)
