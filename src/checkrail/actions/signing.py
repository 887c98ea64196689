"""Signatures of the Standard Webhooks kind: who got a message can tell that it is from us."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac

from checkrail.actions.outbound_errors import OutboundRefused

PREFIX = "whsec_"


def signed(secret: str, message_id: str, content: bytes, seconds: int) -> dict[str, str]:
    """Return the three headers that sign a message sent at a time, in seconds of Unix."""
    said = f"{message_id}.{seconds}.".encode() + content
    digest = hmac.new(key(secret), said, hashlib.sha256).digest()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


def key(secret: str) -> bytes:
    """Read a secret: base64 after `whsec_`, and any other text as it is."""
    if not secret.startswith(PREFIX):
        return _filled(secret.encode())
    text = secret.removeprefix(PREFIX).rstrip("=")
    try:
        return _filled(base64.b64decode(text + "=" * (-len(text) % 4), validate=True))
    except binascii.Error:
        problem = f"the signing secret begins with {PREFIX}, but what follows is not base64"
        raise OutboundRefused(problem, "Copy the whole secret, or make a new one") from None


def derived(secret: str, *names: str) -> str:
    """Return a secret of its own for what these names name; it tells nothing of the first."""
    said = b"checkrail signing secret\0" + b"\0".join(name.encode() for name in names)
    digest = hmac.new(key(secret), said, hashlib.sha256).digest()
    return f"{PREFIX}{base64.b64encode(digest).decode()}"


def _filled(secret: bytes) -> bytes:
    if not secret:
        raise OutboundRefused("the signing secret is empty", "Set it, or send without one")
    return secret
