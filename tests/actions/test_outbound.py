import asyncio
import gzip
import logging
import sys
import tracemalloc
import zlib

import pytest

from checkrail.actions.outbound import Outbound, OutboundRefused, OutboundUnreachable
from checkrail.engine.errors import UnreachableError
from checkrail.extras import MissingExtraError

pytestmark = pytest.mark.usefixtures("no_descriptor_left")


def answer(content=b"ok", *fields, status="200 OK"):
    head = "\r\n".join([f"HTTP/1.1 {status}", f"content-length: {len(content)}", *fields])
    return head.encode() + b"\r\n\r\n" + content


class Server:
    """Answers every request with the same bytes, and remembers what it was asked."""

    def __init__(self, says):
        self.says = says
        self.asked = []
        self.writers = []

    async def serve(self, reader, writer):
        self.writers.append(writer)
        try:
            while await self.answered(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def answered(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        content = await reader.readexactly(int(headers.get("Content-Length", 0)))
        self.asked.append((first, headers, content))
        if callable(self.says):
            return await self.says(writer)
        writer.write(self.says)
        await writer.drain()
        return True

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.server.close()
        for writer in self.writers:
            writer.close()
        await self.server.wait_closed()
        await asyncio.sleep(0)


@pytest.fixture
async def outbound():
    client = Outbound(dev=True, max_response_bytes=1000)
    yield client
    await client.aclose()


async def test_a_request_arrives_as_it_was_sent(outbound):
    async with Server(answer(b"thanks", "X-Seen: 1", "x-seen: 2", status="202 OK")) as server:
        url = f"http://localhost:{server.port}/hook/é?x=1#part"
        got = await outbound.send(
            "POST", url, headers={"Authorization": " Bearer 1 "}, content=b"hello"
        )
    assert (got.status, got.content, got.cut) == (202, b"thanks", False)
    assert got.headers["x-seen"] == "1, 2"
    first, headers, content = server.asked[0]
    assert first == "POST /hook/%C3%A9?x=1 HTTP/1.1"
    assert content == b"hello"
    assert headers == {
        "host": f"localhost:{server.port}",
        "accept-encoding": "identity",
        "user-agent": "checkrail",
        "authorization": "Bearer 1",
        "Content-Length": "5",
    }


async def test_connections_are_kept_and_closed(outbound):
    async with Server(answer()) as server:
        for _ in range(3):
            await outbound.send("GET", f"http://127.0.0.1:{server.port}/")
        assert len(server.writers) == 1
        await outbound.aclose()
        await outbound.send("GET", f"http://127.0.0.1:{server.port}/")
        assert len(server.writers) == 2


async def test_many_requests_at_once_get_an_answer_each(outbound):
    async with Server(answer()) as server:
        url = f"http://127.0.0.1:{server.port}/"
        got = await asyncio.gather(*(outbound.send("GET", url) for _ in range(50)))
    assert [one.content for one in got] == [b"ok"] * 50


async def test_a_redirect_is_an_answer(outbound):
    async with Server(b"") as server:
        there = f"http://127.0.0.1:{server.port}/other"
        server.says = answer(b"", f"location: {there}", status="307 Temporary Redirect")
        got = await outbound.send("POST", f"http://127.0.0.1:{server.port}/", content=b"x")
    assert (got.status, got.headers["location"]) == (307, there)
    assert len(server.asked) == 1


async def test_cookies_are_not_kept(outbound):
    async with Server(answer(b"", "set-cookie: a=1")) as server:
        for _ in range(2):
            await outbound.send("GET", f"http://127.0.0.1:{server.port}/")
    assert all("cookie" not in headers for _, headers, _ in server.asked)


async def test_proxies_of_the_environment_are_not_used(outbound, monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    async with Server(answer()) as server:
        assert (await outbound.send("GET", f"http://127.0.0.1:{server.port}/")).status == 200


@pytest.mark.parametrize("size", [1000, 1001, 5_000_000])
async def test_a_body_is_cut_off_at_its_limit(outbound, size):
    async with Server(answer(b"x" * size)) as server:
        got = await outbound.send("GET", f"http://127.0.0.1:{server.port}/")
        assert got.content == b"x" * 1000
        assert got.cut is (size > 1000)
        again = await outbound.send("GET", f"http://127.0.0.1:{server.port}/")
        assert again == got


async def test_a_body_without_an_end_is_cut_off(outbound):
    async def endless(writer):
        writer.write(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        while not writer.is_closing():
            writer.write(b"5\r\nhello\r\n")
            await writer.drain()

    async with Server(endless) as server:
        got = await outbound.send("GET", f"http://127.0.0.1:{server.port}/", timeout=60)
    assert got.content == b"hello" * 200
    assert got.cut


async def test_a_body_that_drips_takes_no_longer_than_all_may_take(outbound):
    async def drip(writer):
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n")
        while not writer.is_closing():
            writer.write(b".")
            await asyncio.sleep(0.01)

    async with Server(drip) as server:
        url = f"http://127.0.0.1:{server.port}/s3cret"
        with pytest.raises(OutboundUnreachable, match=r"took longer than 0\.3 s") as caught:
            await outbound.send("GET", url, timeout=0.3)
    assert caught.value.kind == "timeout"
    assert isinstance(caught.value, UnreachableError)
    assert "s3cret" not in str(caught.value)


async def test_a_server_that_never_answers_is_given_up():
    async def silence(writer):
        return True

    client = Outbound(dev=True, timeout=0.2)
    async with Server(silence) as server:
        with pytest.raises(OutboundUnreachable) as caught:
            await client.send("GET", f"http://127.0.0.1:{server.port}/")
    assert caught.value.kind == "timeout"
    await client.aclose()


@pytest.mark.parametrize("encoding", ["gzip", "X-GZIP", "deflate"])
async def test_a_compressed_body_is_taken_apart(outbound, encoding):
    packed = zlib.compress(b"hello" * 9) if encoding == "deflate" else gzip.compress(b"hello" * 9)
    async with Server(answer(packed, f"content-encoding: {encoding}")) as server:
        got = await outbound.send("GET", f"http://127.0.0.1:{server.port}/")
    assert got.content == b"hello" * 9


async def test_a_bomb_does_not_grow_beyond_the_limit(outbound):
    async with Server(
        answer(gzip.compress(bytes(100_000_000)), "content-encoding: gzip")
    ) as server:
        outbound._limit = 200_000
        tracemalloc.start()
        try:
            got = await outbound.send("GET", f"http://127.0.0.1:{server.port}/")
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
    assert (len(got.content), got.cut) == (200_000, True)
    assert peak < 5_000_000


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "zstd", "unheard-of"])
async def test_other_encodings_are_left_as_they_are(outbound, encoding):
    packed = gzip.compress(gzip.compress(b"hello"))
    async with Server(answer(packed, f"content-encoding: {encoding}")) as server:
        got = await outbound.send("GET", f"http://127.0.0.1:{server.port}/")
    assert got.content == packed


@pytest.mark.parametrize(
    ("says", "why"),
    [
        (b"", "ended early"),
        (b"no HTTP, but s3cret\r\n\r\n", "no HTTP"),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhel", "ended early"),
        (b"HTTP/1.1 200 OK\r\nx: " + b"x" * 200_000, "ended early"),
        (answer(b"s3cret", "content-encoding: gzip"), "not compressed as its headers say"),
    ],
)
async def test_a_broken_answer_is_none(outbound, says, why):
    async def broken(writer):
        writer.write(says)

    async with Server(broken) as server:
        with pytest.raises(OutboundUnreachable, match=why) as caught:
            await outbound.send("GET", f"http://127.0.0.1:{server.port}/s3cret")
    assert caught.value.kind == "unreachable"
    assert "s3cret" not in str(caught.value)


async def test_where_nobody_listens_nobody_is_reached(outbound):
    async with Server(answer()) as server:
        pass
    with pytest.raises(OutboundUnreachable, match="gave no answer: Connection refused"):
        await outbound.send("GET", f"http://127.0.0.1:{server.port}/")


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "other"},
        {"Content-Length": "1"},
        {"transfer-encoding": "chunked"},
        {"a b": "1"},
        {"x": "s3cret\r\ny: z"},
        {"x": "s3cret\0"},
        {"x": "s3cret é"},
    ],
)
async def test_headers_that_change_the_message_are_refused_by_name(outbound, headers):
    with pytest.raises(OutboundRefused, match=next(iter(headers)).lower()) as caught:
        await outbound.send("POST", "http://127.0.0.1:9/", headers=headers)
    assert "s3cret" not in str(caught.value)


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "post", "GET / HTTP/1.1\r\n"])
async def test_methods_are_those_that_carry_messages(outbound, method):
    with pytest.raises(OutboundRefused, match="is no method"):
        await outbound.send(method, "http://127.0.0.1:9/")


async def test_a_request_that_is_cancelled_leaves_nothing_behind(outbound):
    asked = asyncio.Event()

    async def silence(writer):
        asked.set()
        return True

    async with Server(silence) as server:
        sending = asyncio.create_task(outbound.send("GET", f"http://127.0.0.1:{server.port}/"))
        await asked.wait()
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending
        server.says = answer()
        assert (await outbound.send("GET", f"http://127.0.0.1:{server.port}/")).status == 200


async def test_no_log_has_what_may_be_secret(outbound, caplog):
    caplog.set_level(logging.DEBUG)
    async with Server(answer()) as server:
        url = f"http://127.0.0.1:{server.port}/s3cret?s3cret"
        got = await outbound.send(
            "POST", url, headers={"x": "s3cret"}, content=b"s3cret", sign_with="s3cret"
        )
    assert caplog.messages
    assert "s3cret" not in caplog.text + repr(outbound) + repr(got)


async def test_without_its_package_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "httpcore2", None)
    with pytest.raises(MissingExtraError, match=r'needs httpx2: pip install "checkrail\[server\]"'):
        await Outbound(dev=True).send("GET", "http://127.0.0.1:9/")
