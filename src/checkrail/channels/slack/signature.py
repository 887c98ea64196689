"""Signatures of Slack's requests."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Mapping

TOLERANCE = 300
"""Seconds that a request may be old, or from the future."""

_TIMESTAMP = re.compile(r"[0-9]{1,12}")


def is_signed(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Return whether a request was signed by Slack, and lately. It never raises."""
    sent = headers.get("x-slack-request-timestamp", "")
    if not _TIMESTAMP.fullmatch(sent) or abs(now - int(sent)) > TOLERANCE:
        return False
    signature = headers.get("x-slack-signature", "").encode(errors="replace")
    return hmac.compare_digest(signature, sign_body(secret, sent, body).encode())


def sign_body(secret: str, sent: str, body: bytes) -> str:
    """Return the signature of a body that was sent at a time, in seconds of Unix."""
    signed = b"v0:" + sent.encode() + b":" + body
    return "v0=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()
