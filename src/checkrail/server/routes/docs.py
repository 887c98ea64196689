"""The page that shows the OpenAPI document: everything that it loads is ours."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

from starlette.responses import Response

from checkrail.server.deferred import Router

router = Router(include_in_schema=False)

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}


@router.get("/docs")
async def show_docs() -> Response:
    """Return the page."""
    return _file_response("page.html")


@router.get("/docs/page.js")
async def get_docs_script() -> Response:
    """Return the script of the page."""
    return _file_response("page.js")


@router.get("/docs/page.css")
async def get_docs_style() -> Response:
    """Return the style of the page."""
    return _file_response("page.css")


def _file_response(name: str) -> Response:
    kind = _TYPES[name.rpartition(".")[2]]
    return Response(_read_file(name), headers=_HEADERS, media_type=f"{kind}; charset=utf-8")


@cache
def _read_file(name: str) -> bytes:
    return (files("checkrail.server") / "docs" / name).read_bytes()
