"""Files that pages load: all of them ours, each under an address that changes with its content."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_FOREVER = {"cache-control": "public, max-age=31536000, immutable"}
_SAFE = {"x-content-type-options": "nosniff", "content-security-policy": "default-src 'none'"}


async def get_static(request: Request) -> Response:
    """Return a file."""
    name = request.path_params["name"]
    kind = _TYPES.get(name.rpartition(".")[2])
    content = None if kind is None or ".." in name else read_static(name)
    if content is None:
        raise HTTPException(404)
    kept = _FOREVER if "v" in request.query_params else {"cache-control": "no-cache"}
    return Response(content, media_type=kind, headers=kept | _SAFE)


@cache
def read_static(name: str) -> bytes | None:
    """Return the content of a file, if there is one."""
    place = files("checkrail.dashboard") / "static"
    for part in name.split("/"):
        place /= part
    return place.read_bytes() if place.is_file() else None


@cache
def static_url(name: str) -> str:
    """Return the address of a file, with a digest of its content."""
    digest = hashlib.sha256(read_static(name) or b"").hexdigest()[:12]
    return f"/ui/static/{name}?v={digest}"
