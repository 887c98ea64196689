"""Signatures of the Standard Webhooks kind, on what we send, and on what is sent to us."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Collection, Mapping

from checkrail.actions.errors import ActionError, OutboundRefused

PREFIX = "whsec_"
TOLERANCE = 300
"""How many seconds a message may be old, or ahead of our clock."""

MOST_SIGNATURES = 20
MESSAGE_ID = re.compile(r"[!-\-/-~]{1,256}")  # visible ASCII, but no dot: it ends the id
TIMESTAMP = re.compile(r"[0-9]{1,12}")


class SignatureRefused(ActionError):
    """Nothing shows that a message comes from who knows a secret, or that it is new."""


def signature_headers(secret: str, message_id: str, content: bytes, seconds: int) -> dict[str, str]:
    """Return the three headers that sign a message sent at a time, in seconds of Unix."""
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": _sign(secret, message_id, str(seconds), content),
    }


def verify_signature(
    secrets: Collection[str], headers: Mapping[str, str], content: bytes, now: float
) -> str:
    """Return the id of a message that one of the secrets signed, or raise `SignatureRefused`.

    Header names are in lower case. That the message did not come before is not checked here: who
    stores its id knows.
    """
    message_id = headers.get("webhook-id", "")
    seconds = headers.get("webhook-timestamp", "")
    if not MESSAGE_ID.fullmatch(message_id):
        raise SignatureRefused("webhook-id is missing, or has a dot or a character of no id")
    if not TIMESTAMP.fullmatch(seconds):
        raise SignatureRefused("webhook-timestamp is missing, or no number of seconds")
    if abs(now - int(seconds)) > TOLERANCE:
        raise SignatureRefused(f"webhook-timestamp is more than {TOLERANCE} seconds away")
    came = headers.get("webhook-signature", "").split(" ", MOST_SIGNATURES)[:MOST_SIGNATURES]
    for secret in secrets:
        expected = _sign(secret, message_id, seconds, content).encode()
        # Signatures of other versions are equal to none of ours.
        if any(hmac.compare_digest(expected, text.encode("utf-8", "replace")) for text in came):
            return message_id
    raise SignatureRefused("webhook-signature is missing, or of no secret that is known here")


def parse_secret(secret: str) -> bytes:
    """Parse a secret: base64 after `whsec_`, and any other text as it is."""
    if not secret.startswith(PREFIX):
        return _require_secret(secret.encode())
    text = secret.removeprefix(PREFIX).rstrip("=")
    try:
        return _require_secret(base64.b64decode(text + "=" * (-len(text) % 4), validate=True))
    except binascii.Error:
        problem = f"the signing secret begins with {PREFIX}, but what follows is not base64"
        raise OutboundRefused(problem, "Copy the whole secret, or make a new one") from None


def derive_secret(secret: str, *names: str) -> str:
    """Return a secret derived for these names; it reveals nothing of the first."""
    said = b"checkrail signing secret\0" + b"\0".join(name.encode() for name in names)
    digest = hmac.new(parse_secret(secret), said, hashlib.sha256).digest()
    return f"{PREFIX}{base64.b64encode(digest).decode()}"


def _sign(secret: str, message_id: str, seconds: str, content: bytes) -> str:
    said = f"{message_id}.{seconds}.".encode() + content
    digest = hmac.new(parse_secret(secret), said, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def _require_secret(secret: bytes) -> bytes:
    if not secret:
        raise OutboundRefused("the signing secret is empty", "Set it, or send without one")
    return secret
