import asyncio
import base64
import json
import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from checkrail.actions.outbound import Outbound, OutboundRefused
from checkrail.actions.signatures import parse_secret, signature_headers

SECRET = "whsec_" + base64.b64encode(b"a key of twenty-four byt").decode()


@pytest.fixture
async def received():
    """Sends through a real connection, and gives what arrived: headers and content."""
    came = asyncio.Queue()

    async def serve(reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        headers = dict(line.split(": ", 1) for line in head.strip().split("\r\n")[1:])
        came.put_nowait((headers, await reader.readexactly(int(headers["Content-Length"]))))
        writer.write(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")
        writer.close()

    async def send(content, **options):
        port = server.sockets[0].getsockname()[1]
        await client.send("POST", f"http://127.0.0.1:{port}/", content=content, **options)
        return await came.get()

    client = Outbound(dev=True)
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield send
    await client.aclose()


async def test_what_was_signed_is_verified_by_who_got_it(received):
    content = json.dumps({"type": "run.finished", "name": "Zoë"}).encode()
    headers, body = await received(content, sign_with=SECRET, message_id="delivery-1")
    assert headers["webhook-id"] == "delivery-1"
    assert Webhook(SECRET).verify(body, headers) == {"type": "run.finished", "name": "Zoë"}
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body + b" ", headers)
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()).verify(body, headers)


async def test_a_message_without_an_id_is_given_one_of_its_own(received):
    ids = {(await received(b"{}", sign_with=SECRET))[0]["webhook-id"] for _ in range(2)}
    assert len(ids) == 2


async def test_without_a_secret_nothing_is_signed(received):
    headers, _ = await received(b"{}", message_id="delivery-1")
    assert not [name for name in headers if name.startswith("webhook-")]


async def test_a_caller_cannot_bring_another_signature(received):
    forged = {"Webhook-Signature": "v1,forged", "WEBHOOK-ID": "forged"}
    headers, body = await received(b"{}", headers=forged, sign_with=SECRET)
    assert "forged" not in str(headers)
    Webhook(SECRET).verify(body, headers)


async def test_an_id_that_would_break_the_headers_is_refused(received):
    with pytest.raises(OutboundRefused, match="webhook-id"):
        await received(b"{}", sign_with=SECRET, message_id="1\r\nx: y")


@given(st.binary(min_size=1), st.binary(), st.integers(0, 2**33))
def test_any_content_is_signed_as_the_standard_says(raw, content, seconds):
    secret = "whsec_" + base64.b64encode(raw).decode()
    headers = signature_headers(secret, "m1", content, seconds)
    again = signature_headers(secret.rstrip("="), "m1", content, seconds)
    assert headers == again
    assert headers["webhook-timestamp"] == str(seconds)
    assert headers != signature_headers(secret, "m2", content, seconds) | {"webhook-id": "m1"}
    assert (
        headers["webhook-signature"]
        != signature_headers(secret, "m1", content + b"x", seconds)["webhook-signature"]
    )


def test_the_signature_of_a_known_message_is_known():
    headers = signature_headers(
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "msg_p5jXN8AQM9LWM0D4loKWxJek",
        b'{"test": 2432232314}',
        1614265330,
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


@pytest.mark.parametrize(
    ("secret", "expected"),
    [
        ("plain words", b"plain words"),
        ("whsec_AQID", b"\1\2\3"),
        ("whsec_AQ", b"\1"),
        ("é", b"\xc3\xa9"),
    ],
)
def test_a_secret_is_base64_after_its_prefix_and_itself_without(secret, expected):
    assert parse_secret(secret) == expected


@pytest.mark.parametrize("secret", ["", "whsec_", "whsec_not base64!", "whsec_A", "whsec_=="])
def test_a_secret_that_is_none_is_refused_and_not_shown(secret):
    with pytest.raises(OutboundRefused, match="the signing secret") as caught:
        parse_secret(secret)
    assert "not base64!" not in str(caught.value)
