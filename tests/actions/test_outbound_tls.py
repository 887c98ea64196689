import asyncio
import datetime as dt
import ssl
from contextlib import asynccontextmanager

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from checkrail.actions.outbound import Outbound, OutboundRefused, OutboundUnreachable

pytestmark = pytest.mark.usefixtures("no_descriptor_left")

NAME = "hooks.example"


def pem(thing):
    if isinstance(thing, x509.Certificate):
        return thing.public_bytes(serialization.Encoding.PEM)
    kind = serialization.PrivateFormat.PKCS8
    return thing.private_bytes(serialization.Encoding.PEM, kind, serialization.NoEncryption())


class Authority:
    """Signs certificates that nobody else trusts."""

    def __init__(self):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self.signed(self.key, "A throwaway authority", ca=True)

    def signed(self, key, name, *, ca=False):
        now = dt.datetime.now(dt.UTC)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = x509.CertificateBuilder(
            issuer_name=subject if ca else self.certificate.subject,
            subject_name=subject,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - dt.timedelta(days=1),
            not_valid_after=now + dt.timedelta(days=1),
        )
        made = made.add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        if not ca:
            names = x509.SubjectAlternativeName([x509.DNSName(name)])
            made = made.add_extension(names, critical=False)
        return made.sign(self.key, hashes.SHA256())

    def serving(self, name, folder):
        key = ec.generate_private_key(ec.SECP256R1())
        path = folder / f"{name}.pem"
        path.write_bytes(pem(key) + pem(self.signed(key, name)))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def trusting(self):
        return ssl.create_default_context(cadata=pem(self.certificate).decode())


@pytest.fixture(scope="module")
def authority():
    return Authority()


@asynccontextmanager
async def listening(context):
    """A server that notes the name that TLS asked for, and the Host header."""
    came = []
    writers = []

    async def serve(reader, writer):
        writers.append(writer)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            came.append(head.split("host: ")[1].split("\r\n")[0])
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        except (ConnectionError, asyncio.IncompleteReadError):
            writer.close()

    if context is not None:
        context.sni_callback = lambda _, name, __: came.append(name)
    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    yield server.sockets[0].getsockname()[1], came
    server.close()
    for writer in writers:
        writer.transport.abort()
    await server.wait_closed()
    await asyncio.sleep(0)


@asynccontextmanager
async def calling(trusted, allow=(NAME,)):
    async def resolver(host, port):
        return ["127.0.0.1"]

    client = Outbound(allow, resolver=resolver, tls=trusted)
    yield client
    await client.aclose()
    await asyncio.sleep(0)


async def test_tls_and_host_header_have_the_name_though_the_address_is_pinned(authority, tmp_path):
    context = authority.serving(NAME, tmp_path)
    async with listening(context) as (port, came), calling(authority.trusting()) as client:
        got = await client.send("GET", f"https://{NAME.upper()}.:{port}/")
        assert (got.status, got.content) == (200, b"ok")
    assert came == [NAME, f"{NAME}:{port}"]


async def test_a_certificate_for_another_name_is_not_accepted(authority, tmp_path):
    context = authority.serving("other.example", tmp_path)
    async with listening(context) as (port, came), calling(authority.trusting()) as client:
        with pytest.raises(OutboundUnreachable, match=r"not trusted .*Hostname mismatch") as caught:
            await client.send("GET", f"https://{NAME}:{port}/s3cret")
    assert caught.value.kind == "unreachable"
    assert "s3cret" not in str(caught.value)
    assert came == [NAME]


async def test_a_certificate_of_an_unknown_authority_is_not_accepted(authority, tmp_path):
    context = authority.serving(NAME, tmp_path)
    async with listening(context) as (port, came), calling(None) as client:
        with pytest.raises(OutboundUnreachable, match="certificate is not trusted"):
            await client.send("GET", f"https://{NAME}:{port}/")
    assert came == [NAME]


async def test_a_server_that_does_not_speak_tls_is_not_reached(authority):
    async def shout(reader, writer):
        writer.write(b"220 mail.example ready\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(shout, "127.0.0.1", 0)
    async with server, calling(authority.trusting()) as client:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(OutboundUnreachable, match="TLS failed"):
            await client.send("GET", f"https://{NAME}:{port}/")


@pytest.mark.parametrize("how", ["late", "cancelled"])
async def test_a_handshake_that_does_not_end_leaves_no_connection_behind(authority, how):
    greeted = asyncio.Event()

    async def silent(reader, writer):
        await reader.read(1)
        greeted.set()
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server, calling(authority.trusting()) as client:
        port = server.sockets[0].getsockname()[1]
        limit = 0.3 if how == "late" else 60
        sending = asyncio.create_task(client.send("GET", f"https://{NAME}:{port}/", timeout=limit))
        await greeted.wait()
        if how == "cancelled":
            sending.cancel()
        with pytest.raises((OutboundUnreachable, asyncio.CancelledError)) as caught:
            await sending
        assert getattr(caught.value, "kind", "") == ("timeout" if how == "late" else "")


async def test_a_trusted_certificate_does_not_open_an_inner_address(authority, tmp_path):
    context = authority.serving(NAME, tmp_path)
    async with listening(context) as (port, came), calling(authority.trusting(), ()) as client:
        with pytest.raises(OutboundRefused, match="this machine itself"):
            await client.send("GET", f"https://{NAME}:{port}/")
    assert came == []
