"""Credentials of the gateway's own for clouds: signatures of AWS, and tokens of Google."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from checkrail.config.gateway import UpstreamConfig
from checkrail.extras import needs
from checkrail.gateway.errors import UpstreamError

if TYPE_CHECKING:
    from multidict import CIMultiDict

SIGNED = ("content-type",)
"""Headers that a signature covers besides those that AWS asks for."""

_REGION = re.compile(r"bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.")
_SCOPE = "https://www.googleapis.com/auth/cloud-platform"


class Signer(Protocol):
    """Adds the credentials of the gateway to a request."""

    async def sign(self, method: str, url: str, headers: CIMultiDict[str], body: bytes) -> None:
        """Add what proves who sends a request. Raises `UpstreamError`."""


def build_signer(config: UpstreamConfig) -> Signer | None:
    """Return what signs the requests to an upstream; None for one that needs a key."""
    if config.format == "bedrock" and config.key is None:
        return AwsSigner(config)
    return GoogleSigner(config.name) if config.format == "vertex" and config.key is None else None


class AwsSigner:
    """Signs with the credentials that AWS's SDKs find: variables, profiles, roles."""

    def __init__(self, config: UpstreamConfig) -> None:
        with needs("botocore", "an upstream of the format 'bedrock' without a key", "bedrock"):
            import botocore.session

        self._name = config.name
        self._session: Any = botocore.session.get_session()
        self._region = config.region or _find_region(config.url, self._session)

    async def sign(self, method: str, url: str, headers: CIMultiDict[str], body: bytes) -> None:
        """Add the signature of a request. Raises `UpstreamError`."""
        told = {name: headers[name] for name in SIGNED if name in headers}
        headers.update(await asyncio.to_thread(self._sign, method, url, told, body))

    def _sign(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes
    ) -> Mapping[str, str]:
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError

        if not self._region:
            raise _no_credentials(self._name, "no region: say `region`, or set AWS_REGION")
        try:
            credentials = self._session.get_credentials()
            if credentials is None:
                raise _no_credentials(self._name, "no credentials of AWS were found")
            frozen = credentials.get_frozen_credentials()
        except BotoCoreError as error:
            raise _no_credentials(self._name, type(error).__name__) from None
        request = AWSRequest(method=method, url=url, data=body, headers={**headers})
        SigV4Auth(frozen, "bedrock", self._region).add_auth(request)
        return {name: value for name, value in request.headers.items() if name not in headers}


def _find_region(url: str, session: Any) -> str | None:
    match = _REGION.match(urlsplit(url).hostname or "")
    named = match[1] if match else os.environ.get("AWS_REGION")
    return named or session.get_config_variable("region")


class GoogleSigner:
    """Adds a token of the credentials that Google's libraries find for an application."""

    def __init__(self, name: str) -> None:
        with needs("google.auth", "an upstream of the format 'vertex' without a key", "vertex"):
            pass

        self._name = name
        self._credentials: Any = None
        self._turn = asyncio.Lock()

    async def sign(self, method: str, url: str, headers: CIMultiDict[str], body: bytes) -> None:  # noqa: ARG002 - a token stands for itself
        """Add a token. Raises `UpstreamError`."""
        async with self._turn:
            if self._credentials is None or not self._credentials.valid:
                await asyncio.to_thread(self._refresh)
        headers["authorization"] = f"Bearer {self._credentials.token}"

    def _refresh(self) -> None:
        import google.auth
        from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
        from google.auth.transport.requests import Request

        try:
            if self._credentials is None:
                self._credentials, _ = google.auth.default(scopes=[_SCOPE])
            self._credentials.refresh(Request())
        except DefaultCredentialsError:
            raise _no_credentials(self._name, "no credentials of Google were found") from None
        except GoogleAuthError as error:
            self._credentials = None
            raise _no_credentials(self._name, type(error).__name__) from None


def _no_credentials(name: str, problem: str) -> UpstreamError:
    return UpstreamError(502, f"requests to the upstream {name!r} cannot be signed: {problem}")
