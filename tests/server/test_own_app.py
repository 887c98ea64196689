"""An app of the user's own beside the API, and what `http` turns off or lets in."""

import contextlib
import sqlite3

import httpx
import pytest

from checkrail.server.app import build_app
from checkrail.server.project import Project
from checkrail.server.startup import open_services

CONFIG = """
data_dir: {folder}/data
http: {http}
store: {store}
agents:
  support: {{ model: {{ provider: scripted, replies: [Hello.] }} }}
"""

STARLETTE = """
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import JSONResponse
from starlette.routing import Route


async def greet(request):
    "Greet somebody by name."
    return JSONResponse({"hello": request.path_params["name"]})


async def hidden(request):
    return JSONResponse({})


async def fail(request):
    raise LookupError("lost")


async def tell(request, error):
    return JSONResponse({"mine": str(error)}, status_code=418)


class Mark(BaseHTTPMiddleware):
    async def dispatch(self, request, call_next):
        if request.url.path == "/threads" and "x-stop" in request.headers:
            return JSONResponse({"stopped": request.app is app}, status_code=451)
        answer = await call_next(request)
        answer.headers.append("x-seen", request.url.path)
        return answer


app = Starlette(
    routes=[
        Route("/greet/{name:str}", greet, methods=["GET", "POST"]),
        Route("/hidden", hidden, include_in_schema=False),
        Route("/fail", fail),
    ],
    middleware=[Middleware(Mark)],
    exception_handlers={LookupError: tell},
)
"""

FASTAPI = """
from fastapi import FastAPI
from pydantic import BaseModel

app = FastAPI()


class Command(BaseModel):
    mine: int


@app.post("/mine")
async def mine(body: Command) -> Command:
    return body


@app.middleware("http")
async def mark(request, call_next):
    answer = await call_next(request)
    answer.headers.append("x-seen", request.url.path)
    return answer
"""

EMBED = """
def embed(texts):
    return [[float(len(text)), 1.0] for text in texts]
"""

INDEX = '{index: {dims: 2, embed: "./embed.py:embed", fields: ["$"]}}'


@pytest.fixture
async def opened(tmp_path):
    async with contextlib.AsyncExitStack() as stack:

        async def open_client(own="", http=None, store="{}", *, dev=False):
            (tmp_path / "web.py").write_text(own)
            (tmp_path / "embed.py").write_text(EMBED)
            said = http or ("{app: './web.py:app'}" if own else "{}")
            file = tmp_path / "checkrail.yaml"
            file.write_text(CONFIG.format(folder=tmp_path, http=said, store=store))
            project = Project(file)
            services = await stack.enter_async_context(open_services(project, dev=dev))
            path = project.loaded.server.http.app
            app = build_app(
                services, project.loaded.load_object(path, "http.app") if path else None
            )
            transport = httpx.ASGITransport(app, raise_app_exceptions=False)
            client = httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1")
            return await stack.enter_async_context(client)

        yield open_client


async def test_middleware_of_the_app_sees_every_route_once(opened):
    client = await opened(STARLETTE)
    for path in ("/ok", "/info", "/greet/ada", "/nowhere", "/openapi.json"):
        assert (await client.get(path)).headers.get_list("x-seen") == [path]
    made = await client.post("/threads", json={})
    assert (made.status_code, made.headers["x-seen"]) == (200, "/threads")
    refused = await client.get("/ok", headers={"host": "evil.example"})
    assert (refused.status_code, refused.headers["x-seen"]) == (403, "/ok")


async def test_middleware_may_answer_for_the_server(opened):
    client = await opened(STARLETTE)
    answer = await client.post("/threads", json={}, headers={"x-stop": "1"})
    assert (answer.status_code, answer.json()) == (451, {"stopped": True})
    assert (await client.post("/threads/count", json={})).json() == 0


async def test_the_app_keeps_its_handlers_of_errors(opened):
    client = await opened(STARLETTE)
    answer = await client.get("/fail")
    assert (answer.status_code, answer.json()) == (418, {"mine": "lost"})


async def test_routes_of_a_starlette_app_are_in_the_document(opened):
    client = await opened(STARLETTE)
    paths = (await client.get("/openapi.json")).json()["paths"]
    assert {"/threads", "/greet/{name}"} <= paths.keys()
    assert paths["/greet/{name}"].keys() == {"get", "post"}
    assert paths["/greet/{name}"]["get"]["summary"] == "Greet somebody by name."
    assert "/hidden" not in paths


async def test_routes_and_schemas_of_a_fastapi_app_are_in_the_document(opened):
    client = await opened(FASTAPI)
    document = (await client.get("/openapi.json")).json()
    body = document["paths"]["/mine"]["post"]["requestBody"]["content"]["application/json"]
    assert body["schema"] == {"$ref": "#/components/schemas/OwnCommand"}
    schemas = document["components"]["schemas"]
    assert schemas["OwnCommand"]["properties"].keys() == {"mine"}
    assert "resume" in schemas["Command"]["properties"]
    answer = await client.post("/mine", json={"mine": 5})
    assert (answer.json(), answer.headers["x-seen"]) == ({"mine": 5}, "/mine")


async def test_health_stays_where_meta_is_turned_off(opened):
    client = await opened(http="{disable_meta: true}")
    assert (await client.get("/ok")).json() == {"ok": True}
    for path in ("/info", "/docs", "/docs/page.js", "/openapi.json", "/metrics"):
        assert (await client.get(path)).status_code == 404


PREFLIGHT = {"access-control-request-method": "POST"}


@pytest.mark.parametrize(
    "origin",
    [
        "http://localhost:3000",
        "http://127.0.0.1:5173",
        "https://[::1]:8080",
        "http://app.localhost",
    ],
)
async def test_pages_of_this_machine_may_call_while_somebody_develops(opened, origin):
    client = await opened(dev=True)
    asked = await client.options("/threads", headers={"origin": origin, **PREFLIGHT})
    assert (asked.status_code, asked.headers["access-control-allow-origin"]) == (200, origin)
    made = await client.post("/threads", json={}, headers={"origin": origin})
    assert (made.status_code, made.headers["access-control-allow-origin"]) == (200, origin)
    assert "content-location" in made.headers["access-control-expose-headers"]


@pytest.mark.parametrize(
    "origin",
    ["https://evil.example", "http://localhost.evil.example", "http://127.0.0.1.evil.example"],
)
async def test_pages_of_other_sites_may_not(opened, origin):
    client = await opened(dev=True)
    asked = await client.options("/threads", headers={"origin": origin, **PREFLIGHT})
    assert "access-control-allow-origin" not in asked.headers
    assert (await client.post("/threads", json={}, headers={"origin": origin})).status_code == 403


async def test_no_page_may_call_a_server_in_production_unless_it_is_named(opened):
    client = await opened()
    made = await client.post("/threads", json={}, headers={"origin": "http://localhost:3000"})
    assert "access-control-allow-origin" not in made.headers


async def test_what_embeds_texts_may_be_in_a_file_of_the_project(opened, caplog):
    client = await opened(store=INDEX, dev=True)
    item = {"namespace": ["a"], "key": "k", "value": {"text": "hello"}}
    assert (await client.put("/store/items", json=item)).status_code == 204
    wanted = {"namespace_prefix": ["a"], "query": "hello"}
    (found,) = (await client.post("/store/items/search", json=wanted)).json()["items"]
    if hasattr(sqlite3.Connection, "enable_load_extension"):
        assert found["score"] == pytest.approx(1.0)
    else:
        assert found["score"] is None
        assert "store.index needs SQLite extensions" in caplog.text
