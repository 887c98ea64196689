"""Errors as OpenAI writes them, in all of its APIs."""

from __future__ import annotations

from checkrail.llm.wire_format import Body, Refusal

TYPES = {403: "request_forbidden", 429: "rate_limit_error"}
CODES = {401: "invalid_api_key", 429: "rate_limit_exceeded"}


def write_openai_error(refusal: Refusal) -> Body:
    """Write an error as the body of an answer; in a stream of the chat API it is an event too."""
    usual = "server_error" if refusal.status >= 500 else "invalid_request_error"
    told = {
        "message": refusal.message,
        "type": TYPES.get(refusal.status, usual),
        "param": None,
        "code": refusal.code or CODES.get(refusal.status),
    }
    return {"error": told}
