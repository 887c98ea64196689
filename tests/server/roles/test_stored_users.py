"""Extra fields of `authenticate` may be tokens: what is stored and sent on has the named ones."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from tests.processes import until

TOKEN = "planted-6f1c0a52-token"

APP = f"""
from typing import Any
from langchain_core.runnables import RunnableConfig
from langgraph.graph import START, StateGraph
from langgraph_sdk import Auth
from typing_extensions import TypedDict

auth = Auth()


@auth.authenticate
async def authenticate(headers):
    name = headers.get("x-name")
    if not name:
        raise Auth.exceptions.HTTPException(status_code=401, detail="Say who you are")
    secret = {{"access": "{TOKEN}"}}
    return {{
        "identity": name, "display_name": "Ann", "email": "a@b.c", "permissions": ["pay"],
        "team": "red", "token": "{TOKEN}", "session": secret,
    }}


@auth.on.threads
async def with_token(ctx, value):
    assert ctx.user["token"] == "{TOKEN}"


class Work(TypedDict, total=False):
    seen: Any


def look(state: Work, config: RunnableConfig) -> Work:
    user = config["configurable"]["langgraph_auth_user"]
    return {{"seen": dict(user)}}


graph = StateGraph(Work).add_node("look", look).add_edge(START, "look").compile()
"""

CONFIG = """
python_path: ["."]
agents: {look: "./app.py:graph"}
auth: {path: "./app.py:auth", user_fields: [team]}
outbound: {allow: ["127.0.0.1/32"]}
hooks:
  before_run: [{name: first, type: http, url: "URL"}]
  on_run_start: [{name: second, type: http, url: "URL"}]
  on_run_finish: [{name: last, type: http, url: "URL"}]
"""


@pytest.fixture
def received():
    """The payloads that a small web server was sent, and where it is."""
    found = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            found.append(self.rfile.read(int(self.headers["content-length"])).decode())
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"action": "continue"}')

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield found, f"http://127.0.0.1:{server.server_address[1]}/hook"
    server.shutdown()
    server.server_close()


def test_only_named_fields_of_a_user_are_stored_sent_to_hooks_and_shown_to_graphs(
    tmp_path, new_database, serve, received
):
    payloads, url = received
    (tmp_path / "app.py").write_text(APP)
    config = tmp_path / "checkrail.yaml"
    config.write_text(CONFIG.replace("URL", url))
    database = new_database("sqlite")
    server = serve(database, config=config).start()
    with httpx.Client(base_url=server.url, headers={"x-name": "ann"}, timeout=30) as ann:
        thread = ann.post("/threads", json={}).json()["thread_id"]
        run = ann.post(f"/threads/{thread}/runs/wait", json={"assistant_id": "look", "input": {}})
        seen = run.json()["seen"]
        ann.post("/runs", json={"agent_name": "look", "parameters": {}, "execution_mode": "sync"})
        body = {"assistant_id": "look", "schedule": "* * * * *", "input": {}}
        assert ann.post("/runs/crons", json=body).is_success
        until(lambda: len(payloads) >= 6, "the hooks of two runs")
        shown = [ann.get(path).text for path in ("/runs", "/sessions", f"/threads/{thread}")]
    server.stop()
    assert seen == {
        "identity": "ann",
        "display_name": "Ann",
        "is_authenticated": True,
        "email": "a@b.c",
        "permissions": ["pay"],
        "team": "red",
    }
    users = [json.loads(payload)["user"] for payload in payloads]
    assert {user["extras"]["team"] for user in users} == {"red"}
    assert TOKEN not in "".join(payloads + shown)
    folder = database.env["CHECKRAIL_DATA_DIR"]
    files = [path for path in tmp_path.__class__(folder).rglob("*") if path.is_file()]
    assert any(b"a@b.c" in path.read_bytes() for path in files), "the search finds nothing at all"
    assert [path.name for path in files if TOKEN.encode() in path.read_bytes()] == []
    assert TOKEN not in server.output()
