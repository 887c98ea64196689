"""Signatures on what is sent to us, held against the library of Standard Webhooks."""

import base64
import secrets
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook

from checkrail.actions.signatures import SignatureRefused, signature_headers, verify_signature

NOW = 1_800_000_000
SECRET = "whsec_" + base64.b64encode(b"a key of twenty-four byt").decode()
OTHER = "whsec_" + base64.b64encode(b"one of some other people").decode()
CONTENT = b'{"user_id": "ann", "content": "hello"}'


def signed(content=CONTENT, message_id="m1", seconds=NOW, secret=SECRET, **changed):
    """Headers that the library signed, some of them changed."""
    at = datetime.fromtimestamp(seconds, UTC)
    signature = Webhook(secret).sign(message_id, at, content.decode())
    headers = {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": signature,
    }
    changed = {name.replace("_", "-"): value for name, value in changed.items()}
    return {k: v for k, v in (headers | changed).items() if v is not None}


def check(headers, content=CONTENT, known=(SECRET,), now=NOW):
    return verify_signature(known, headers, content, now)


@given(
    raw=st.binary(min_size=24, max_size=64),
    content=st.text().map(lambda text: text.encode("utf-8", "replace")),
    message_id=st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True),
    away=st.integers(-300, 300),
)
def test_what_the_library_signed_is_accepted(raw, content, message_id, away):
    secret = "whsec_" + base64.b64encode(raw).decode()
    headers = signed(content, message_id, NOW - away, secret)
    assert check(headers, content, [OTHER, secret]) == message_id


@given(st.binary(), st.integers(0, 10**12 - 1))
def test_what_we_signed_is_accepted(content, seconds):
    headers = signature_headers(SECRET, "m1", content, seconds)
    assert check(headers, content, now=float(seconds)) == "m1"


@pytest.mark.parametrize("away", [301, -301, 10**6, NOW])
def test_old_and_future_messages_are_refused(away):
    with pytest.raises(SignatureRefused, match="seconds away"):
        check(signed(seconds=NOW - away))


@pytest.mark.parametrize(
    "changed",
    [
        {"webhook_id": None},
        {"webhook_id": ""},
        {"webhook_id": "m2"},
        {"webhook_id": "m1.1"},
        {"webhook_id": "m 1"},
        {"webhook_id": "m\n1"},
        {"webhook_id": "m1\n"},
        {"webhook_id": "m\xe91"},
        {"webhook_id": "m" * 257},
        {"webhook_timestamp": None},
        {"webhook_timestamp": ""},
        {"webhook_timestamp": "1.8e9"},
        {"webhook_timestamp": "1800000000.0"},
        {"webhook_timestamp": "+1800000000"},
        {"webhook_timestamp": " 1800000000"},
        {"webhook_timestamp": "1800000000\n"},
        {"webhook_timestamp": "1_800_000_000"},
        {"webhook_timestamp": "-1"},
        {"webhook_timestamp": "".join(chr(0xFF10 + int(digit)) for digit in str(NOW))},
        {"webhook_timestamp": "9" * 5000},
        {"webhook_timestamp": "1800000001"},
        {"webhook_timestamp": "nan"},
        {"webhook_signature": None},
        {"webhook_signature": ""},
        {"webhook_signature": "v1"},
        {"webhook_signature": "v1,"},
        {"webhook_signature": "v1,A"},
        {"webhook_signature": "v1,not base64!"},
        {"webhook_signature": "v1,\xe9\udcff"},
        {"webhook_signature": "v1," + base64.b64encode(b"x" * 32).decode()},
        {"webhook_signature": signed()["webhook-signature"].replace("v1,", "v2,")},
        {"webhook_signature": signed()["webhook-signature"].replace("v1,", "v1a,")},
        {"webhook_signature": signed()["webhook-signature"].removeprefix("v1,")},
        {"webhook_signature": signed()["webhook-signature"][:-4]},
        {"webhook_signature": signed()["webhook-signature"] + "="},
        {"webhook_signature": signed()["webhook-signature"].rstrip("=")},
        {"webhook_signature": "v1,x " * 20 + signed()["webhook-signature"]},
    ],
)
def test_changed_headers_are_refused(changed):
    with pytest.raises(SignatureRefused):
        check(signed(**changed))


@pytest.mark.parametrize("message_id", ["", "m1.1", ".", "m 1", "m\n1", "m\xe91", "m" * 257])
def test_an_id_that_is_none_is_refused_although_it_was_signed(message_id):
    with pytest.raises(SignatureRefused, match="webhook-id"):
        check(signature_headers(SECRET, message_id, CONTENT, NOW))


@pytest.mark.parametrize("content", [b"", CONTENT + b" ", CONTENT[:-1], b"\xff"])
def test_changed_content_is_refused(content):
    with pytest.raises(SignatureRefused, match="webhook-signature"):
        check(signed(), content)


def test_parts_cannot_move_from_the_content_to_the_id():
    headers = signed(b"1.x", message_id="m")
    with pytest.raises(SignatureRefused):
        check(headers | {"webhook-id": f"m.{NOW}"}, b"x")


def test_one_good_signature_among_others_suffices():
    good, other = signed()["webhook-signature"], signed(secret=OTHER)["webhook-signature"]
    among = f"v2,x v1,? {other}  {good}"
    assert check(signed(webhook_signature=among)) == "m1"


def test_each_known_secret_holds_and_no_other_one():
    assert check(signed(secret=OTHER), known=[SECRET, OTHER]) == "m1"
    unknown = "whsec_" + base64.b64encode(secrets.token_bytes(24)).decode()
    with pytest.raises(SignatureRefused):
        check(signed(secret=unknown), known=[SECRET, OTHER])
    with pytest.raises(SignatureRefused):
        check(signed(), known=[])


@given(
    st.dictionaries(
        st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature"]), st.text()
    ),
    st.binary(),
)
def test_nothing_that_comes_is_more_than_refused(headers, content):
    with pytest.raises(SignatureRefused):
        check(headers, content)


@given(st.data())
def test_what_is_accepted_the_library_accepts_too(data):
    """Mutations of a good message: whoever accepts one accepts the content that was signed."""
    headers = signed()
    name = data.draw(st.sampled_from([*headers]))
    place = data.draw(st.integers(0, len(headers[name])))
    with_noise = headers[name][:place] + data.draw(st.text(max_size=3)) + headers[name][place:]
    changed = headers | {name: with_noise}
    try:
        check(changed)
    except SignatureRefused:
        return
    # The library has no clock to be set; its signature is what counts.
    stamp = int(changed["webhook-timestamp"])
    again = Webhook(SECRET).sign(
        changed["webhook-id"], datetime.fromtimestamp(stamp, UTC), CONTENT.decode()
    )
    assert again in changed["webhook-signature"].split(" ")
