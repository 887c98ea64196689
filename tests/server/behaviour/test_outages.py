"""What clients hear while the database of a server is away."""

import asyncio
import json
import uuid

import httpx
import pytest
import websockets
from tests.pg_proxy import PostgresProxy
from tests.processes import until

from ..harness import on_postgres, on_sqlite  # noqa: TID252 - tests are no package

CONFIG = """
auth: {keys: true}
agents:
  nap: {type: procedural, path: "./naps.py:nap", parameters_schema: {}}
"""
NAPS = """
import asyncio

async def nap(parameters):
    await asyncio.sleep(parameters["seconds"])
    return {"slept": parameters["seconds"]}
"""


@pytest.fixture
def cut_off(postgres, serve, tmp_path):
    """A server with keys that reaches its database by a way that can be cut."""
    config = tmp_path / "checkrail.yaml"
    config.write_text(CONFIG)
    (tmp_path / "naps.py").write_text(NAPS)
    url = postgres.with_tables()
    with PostgresProxy(url) as proxy:
        served = serve(on_postgres(tmp_path, proxy.url), config=config)
        token = served.run("keys", "create", "ann", "--role", "admin", "--json")
        served.start()
        yield served, proxy, json.loads(token)["key"]
    served.kill()
    postgres.drop(url)


def paths_of(client):
    """Every path that is read from the database, with some id that nobody has."""
    elsewhere = ("/ok", "/info", "/metrics", "/gateway", "/channels")
    found = client.get("/openapi.json").json()["paths"]
    for path, methods in found.items():
        if "get" in methods and not path.startswith(elsewhere):
            parts = [str(uuid.uuid4()) if part[:1] == "{" else part for part in path.split("/")]
            yield "/".join(parts)


def test_requests_get_503_and_the_log_one_line(cut_off):
    served, proxy, token = cut_off
    headers = {"x-api-key": token}
    with httpx.Client(base_url=served.url, headers=headers, timeout=30) as client:
        paths = [*paths_of(client)]
        thread = client.post("/threads", json={}).raise_for_status().json()["thread_id"]
        body = {"assistant_id": "nap", "input": {"seconds": 1}}
        run = client.post(f"/threads/{thread}/runs", json=body).raise_for_status().json()
        served.mark()
        proxy.cut()
        asked = {"assistant_id": "nap", "input": {"seconds": 0}}
        answers = [client.post("/runs/wait", json=asked), client.post("/threads", json={})]
        answers += [client.get(path) for path in paths]
        assert {(each.status_code, each.headers.get("retry-after")) for each in answers} == {
            (503, "5")
        }
        body = answers[0].json()
        assert (body["error"], body["info"]) == ("database_unavailable", {"database": "away"})
        assert "psycopg" not in answers[0].text
        assert client.get("/ok").status_code == 200
        ready = client.get("/ok", params={"check_db": True})
        assert (ready.status_code, ready.json()["info"]) == (503, {"database": "away"})
        assert "cannot be reached" in ready.json()["message"]
        asyncio.run(_refused_socket(served, thread, headers))
        proxy.mend()
        until(lambda: client.get("/ok", params={"check_db": True}).status_code == 200)
        assert client.post("/runs/wait", json=asked).status_code == 200
        ended = client.get(f"/threads/{thread}/runs/{run['run_id']}/join").json()
        assert ended == {"slept": 1}
    said = served.since_mark()
    assert said.count("cannot be reached") == 1, said
    assert said.count("works again after") == 1, said
    assert "Traceback" not in said
    assert len(said) < 5000, said


def test_a_database_that_is_frozen_is_not_ready(cut_off):
    served, proxy, _ = cut_off
    with httpx.Client(base_url=served.url, timeout=60) as client:
        until(lambda: client.get("/ok", params={"check_db": True}).status_code == 200)
        proxy.delay = 15.0
        ready = client.get("/ok", params={"check_db": True})
        proxy.delay = 0.0
        assert (ready.status_code, ready.json()["info"]) == (503, {"database": "away"})
        until(lambda: client.get("/ok", params={"check_db": True}).status_code == 200)


async def _refused_socket(served, thread, headers):
    url = f"{served.url.replace('http', 'ws')}/threads/{thread}/stream/events"
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with websockets.connect(url, additional_headers=headers):
            pass
    assert refused.value.response.status_code == 503


def test_a_stream_goes_on_where_an_outage_cut_it_short(cut_off):
    served, proxy, token = cut_off
    body = {"assistant_id": "nap", "input": {"seconds": 7}, "stream_mode": ["values"]}
    with httpx.Client(base_url=served.url, headers={"x-api-key": token}, timeout=60) as client:
        thread = client.post("/threads", json={}).raise_for_status().json()["thread_id"]
        with client.stream("POST", f"/threads/{thread}/runs/stream", json=body) as stream:
            lines = stream.iter_lines()
            assert "event: metadata" in [next(lines), next(lines)]
            proxy.cut()
            asyncio.run(asyncio.sleep(6))
            proxy.mend()
            rest = [line for line in lines if line.startswith("event:")]
        assert rest == []  # no error: it was open until the run was over
        run = client.get(stream.headers["content-location"]).raise_for_status().json()
        assert (run["status"], run["error"], run["attempt"]) == ("success", None, 1)
        assert client.get(stream.headers["location"].replace("/stream", "/join")).json() == {
            "slept": 7
        }


@pytest.mark.parametrize("name", ["checkrail.db", "checkpoints.db"])
def test_a_server_with_a_corrupt_file_says_so_and_does_not_start(serve, tmp_path, name):
    (tmp_path / "checkrail.yaml").write_text(CONFIG)
    (tmp_path / "naps.py").write_text(NAPS)
    (tmp_path / name).write_bytes(b"this is no database" * 1000)
    served = serve(on_sqlite(tmp_path), config=tmp_path / "checkrail.yaml").begin()
    assert served.process.wait(120) == 4
    said = served.output()
    assert "The database is corrupt" in said
    assert str(tmp_path) in said
    assert "Traceback" not in said
