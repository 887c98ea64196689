"""Bodies whose sender did not say that they are JSON, as `curl -d` does not."""

from __future__ import annotations

from starlette.types import ASGIApp, Receive, Scope, Send

from checkrail.server.auth.guard import RULE_KEY

_JSON = (b"content-type", b"application/json")


class AssumeJson:
    """Has the API's routes take every body for JSON, unless a page of the web sends it.

    Pages may send what does not say that it is JSON to any site, and nobody asks the site first.
    They name their origin with it: from them, it has to be said.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, with its content type corrected."""
        if scope["type"] == "http" and RULE_KEY in scope:
            headers = dict(scope["headers"])
            said = headers.get(b"content-type", b"").lower()
            if b"json" not in said and b"origin" not in headers:
                others = [each for each in scope["headers"] if each[0] != b"content-type"]
                scope = {**scope, "headers": [*others, _JSON]}
        await self._app(scope, receive, send)
