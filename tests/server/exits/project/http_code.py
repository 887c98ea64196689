"""Routes, a middleware and an auth handler that are places."""

from langgraph_sdk import Auth
from raising import pass_by
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.routing import Route

auth = Auth()


@auth.authenticate
async def authenticate(headers: dict) -> str:
    given = {key.decode(): value.decode() for key, value in headers.items()}
    pass_by("auth", given)
    return "somebody"


@auth.on.threads.create
async def authorize(ctx, value):
    pass_by("authorization", value.get("metadata") or {})


async def route(request):
    pass_by("route", request.query_params)
    return JSONResponse({})


def plain_route(request):
    pass_by("plain route", request.query_params)
    return JSONResponse({})


class Passing:
    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] == "http" and scope["query_string"].startswith(b"place=middleware"):
            way = scope["query_string"].decode().partition("way=")[2]
            pass_by("middleware", {"place": "middleware", "way": way})
        await self.app(scope, receive, send)


app = Starlette(
    routes=[Route("/own", route), Route("/plain", plain_route)], middleware=[Middleware(Passing)]
)
