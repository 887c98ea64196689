import asyncio
from contextlib import asynccontextmanager
from ipaddress import ip_address

import httpx2
import pytest

from checkrail.actions.allowlist import AllowList
from checkrail.actions.destinations import parse_destination
from checkrail.actions.outbound import Outbound, OutboundRefused, OutboundUnreachable
from checkrail.actions.pinned_connections import PinnedBackend, resolve_host


class Names:
    """A DNS server that changes its mind: each answer is given once, the last one for ever."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = []

    async def __call__(self, host, port):
        self.asked.append((host, port))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@asynccontextmanager
async def listening(host="127.0.0.1", port=0, *, keep=False):
    """Answers each request; gives its port and the Host header of whoever came."""
    came = []

    async def serve(reader, writer):
        came.append("")
        try:
            while not reader.at_eof():
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                came[-1] = head.split("host: ")[1].split("\r\n")[0]
                end = b"\r\n" if keep else b"connection: close\r\n\r\n"
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n" + end)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, host, port)
    yield server.sockets[0].getsockname()[1], came
    server.close()
    await server.wait_closed()


@pytest.fixture
async def client():
    made = []

    def make(allow, names, **options):
        made.append(Outbound(allow, resolver=names, **options))
        return made[-1]

    yield make
    for one in made:
        await one.aclose()
    await asyncio.sleep(0)


async def test_a_name_is_resolved_once_and_that_address_is_called(client):
    names = Names(["127.0.0.1"], ["127.0.0.2"])
    async with listening() as (port, came), listening("127.0.0.2", port) as (_, inner):
        outbound = client(["127.0.0.1"], names)
        got = await outbound.send("GET", f"http://hooks.example:{port}/")
        assert got.status == 200
        assert (came, inner) == ([f"hooks.example:{port}"], [])
        assert names.asked == [("hooks.example", port)]


async def test_a_name_that_moves_to_an_inner_address_is_refused(client):
    names = Names(["127.0.0.1"], ["127.0.0.2"])
    async with listening() as (port, _), listening("127.0.0.2", port) as (_, inner):
        outbound = client(["127.0.0.1"], names)
        await outbound.send("GET", f"http://hooks.example:{port}/")
        with pytest.raises(OutboundRefused, match=r"127\.0\.0\.2 is this machine itself"):
            await outbound.send("GET", f"http://hooks.example:{port}/")
        assert inner == []


async def test_a_connection_that_is_kept_stays_where_it_was_checked(client):
    names = Names(["127.0.0.1"], ["127.0.0.2"])
    async with listening(keep=True) as (port, came), listening("127.0.0.2", port) as (_, inner):
        outbound = client(["127.0.0.1"], names)
        for _ in range(3):
            await outbound.send("GET", f"http://hooks.example:{port}/")
        assert (len(came), inner, len(names.asked)) == (1, [], 1)
        await outbound.aclose()


@pytest.mark.parametrize("turn", [1, -1])
async def test_one_inner_address_among_others_is_enough_to_refuse(client, turn):
    names = Names(["127.0.0.1", "127.0.0.2"][::turn])
    async with listening() as (port, came):
        with pytest.raises(OutboundRefused, match=r"127\.0\.0\.2"):
            await client(["127.0.0.1"], names).send("GET", f"http://hooks.example:{port}/")
        assert came == []


async def test_first_public_then_private():
    pinned = PinnedBackend("https", AllowList(), Names(["93.184.216.34"], ["10.0.0.1"]))
    where = parse_destination("https://hooks.example/")
    assert await pinned.resolve_permitted(where) == [ip_address("93.184.216.34")]
    with pytest.raises(OutboundRefused, match=r"10\.0\.0\.1 is a private network"):
        await pinned.resolve_permitted(where)


@pytest.mark.parametrize(
    "address",
    ["::ffff:127.0.0.1", "fe80::1%eth0", "64:ff9b::7f00:1", "169.254.169.254", "0.0.0.0"],
)
async def test_whatever_a_public_name_resolves_to_is_checked(client, address):
    with pytest.raises(OutboundRefused):
        await client([], Names([address])).send("GET", "https://hooks.example/")


@pytest.mark.parametrize(
    "address",
    [
        *("169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "168.63.129.16"),
        *("fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "100.100.100.200"),
        *("fe80::1", "0.0.0.0", "224.0.0.1"),
    ],
)
async def test_a_listed_name_leads_to_inner_services_only(client, address):
    outbound = client(["hooks.internal"], Names([address]))
    with pytest.raises(OutboundRefused, match="listed name is not enough"):
        await outbound.send("GET", "http://hooks.internal/")


@pytest.mark.parametrize("listed", ["100.100.100.200", "100.64.0.0/10"])
async def test_metadata_may_be_reached_where_its_own_address_or_network_is_listed(listed):
    pinned = PinnedBackend(
        "http", AllowList(["hooks.internal", listed]), Names(["100.100.100.200"])
    )
    assert await pinned.resolve_permitted(parse_destination("http://hooks.internal/"))


async def test_a_client_of_another_package_goes_where_it_was_checked(client):
    async with listening() as (port, came):
        names = Names(["127.0.0.1"], ["169.254.169.254"])
        guard = client(["hooks.internal"], names)
        async with httpx2.AsyncClient(transport=guard.build_transport()) as http:
            answer = await http.get(f"http://hooks.internal:{port}/")
            assert answer.status_code == 200
            assert came == [f"hooks.internal:{port}"]
            with pytest.raises(OutboundRefused, match=r"169\.254\.169\.254 is link-local"):
                await http.get(f"http://hooks.internal:{port}/")
            with pytest.raises(OutboundRefused, match="is not https"):
                await http.get(f"http://elsewhere.example:{port}/")


async def test_a_listed_name_may_be_private_and_plain():
    pinned = PinnedBackend("http", AllowList(["*.corp.example"]), Names(["10.0.0.1", "fd00::1"]))
    found = await pinned.resolve_permitted(parse_destination("http://hooks.corp.example/"))
    assert [str(address) for address in found] == ["10.0.0.1", "fd00::1"]


async def test_a_plain_request_to_an_unlisted_public_address_is_refused_after_all(client):
    outbound = client(["10.0.0.0/8"], Names(["93.184.216.34"]))
    outbound.check("http://hooks.example/")
    with pytest.raises(OutboundRefused, match="is not https"):
        await outbound.send("GET", "http://hooks.example/")


async def test_the_next_address_is_tried_where_one_does_not_answer(client):
    async with listening() as (port, came):
        outbound = client(["127.0.0.0/8", "*.example"], Names(["127.0.0.3", "127.0.0.1"]))
        await outbound.send("GET", f"http://hooks.example:{port}/")
        assert len(came) == 1


@pytest.mark.parametrize("answers", [[], ["no address"]])
async def test_a_name_without_an_address_cannot_be_reached(client, answers):
    with pytest.raises(OutboundUnreachable, match="its name has no address") as caught:
        await client([], Names(answers)).send("GET", "https://hooks.example/s3cret")
    assert caught.value.kind == "unreachable"
    assert "s3cret" not in str(caught.value)


async def test_a_resolver_that_fails_or_hangs_is_a_failure_of_the_request(client):
    async def fails(host, port):
        raise OSError("no DNS here")

    async def hangs(host, port):
        await asyncio.Event().wait()

    with pytest.raises(OutboundUnreachable, match="has no address"):
        await client([], fails).send("GET", "https://hooks.example/")
    with pytest.raises(OutboundUnreachable) as caught:
        await client([], hangs).send("GET", "https://hooks.example/", timeout=0.05)
    assert caught.value.kind == "timeout"


async def test_the_system_resolves_without_doubles():
    found = await resolve_host("localhost", 443)
    assert set(found) <= {"127.0.0.1", "::1"}
    assert len(found) == len(set(found))
