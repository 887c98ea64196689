"""Webhooks: who is called when a run is over."""

import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from langgraph_sdk.errors import UnprocessableEntityError
from standardwebhooks import Webhook

from .support import collect, eventually, over

SECRET = "whsec_dGVzdHMgb25seSwgbm90aGluZyB0byBoaWRl"  # as in project/checkrail.yaml


class Receiver(HTTPServer):
    """Takes calls, and answers each with the next status it was told to."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Taken)
        self.calls = []
        self.statuses = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/done"


class _Taken(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.calls.append((headers, body))
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
        self.end_headers()

    def log_message(self, format, *args):
        pass


@pytest.fixture
def receiver():
    with Receiver() as receiver:
        thread = threading.Thread(target=receiver.serve_forever, daemon=True)
        thread.start()
        yield receiver
        receiver.shutdown()
        thread.join()


async def called(receiver, times=1):
    async def enough():
        return len(receiver.calls) >= times

    await eventually(enough, "a webhook")
    return receiver.calls


async def test_a_webhook_is_told_how_the_run_ended(client, thread, receiver):
    run = await client.runs.create(
        thread, "echo", input={"text": "hi"}, metadata={"n": 1}, webhook=receiver.url
    )
    ((headers, body),) = await called(receiver)
    assert headers["content-type"].startswith("application/json")
    told = json.loads(body)
    assert told["run_id"] == run["run_id"]
    assert told["thread_id"] == thread
    assert told["status"] == "success"
    assert told["metadata"]["n"] == 1
    assert told["values"]["answer"] == "hi"


async def test_a_webhook_is_signed(client, thread, receiver):
    await client.runs.wait(thread, "echo", input={"text": "hi"}, webhook=receiver.url)
    ((headers, body),) = await called(receiver)
    assert Webhook(SECRET).verify(body, headers)["status"] == "success"


async def test_a_webhook_is_told_of_a_failure(client, thread, receiver):
    run = await client.runs.create(thread, "failing", input={"message": "no"}, webhook=receiver.url)
    await over(client, run)
    ((_, body),) = await called(receiver)
    told = json.loads(body)
    assert told["status"] == "error"
    assert "no" in str(told["error"])


async def test_a_webhook_is_told_of_a_stop(client, thread, receiver):
    run = await client.runs.create(thread, "slow", input={"seconds": 120}, webhook=receiver.url)
    await client.runs.cancel(thread, run["run_id"], wait=True)
    ((_, body),) = await called(receiver)
    assert json.loads(body)["status"] == "interrupted"


async def test_every_way_of_running_calls_its_webhook(client, thread, receiver):
    await client.runs.wait(None, "echo", input={"text": "a"}, webhook=receiver.url)
    await collect(client.runs.stream(thread, "echo", input={"text": "b"}, webhook=receiver.url))
    await client.runs.create_batch(
        [{"assistant_id": "echo", "input": {"text": "c"}, "webhook": receiver.url}]
    )
    calls = await called(receiver, times=3)
    assert {json.loads(body)["values"]["answer"] for _, body in calls} == {"a", "b", "c"}


async def test_a_webhook_that_fails_is_called_again_with_the_same_id(client, thread, receiver):
    receiver.statuses.append(503)
    await client.runs.wait(thread, "echo", input={"text": "hi"}, webhook=receiver.url)
    first, second = await called(receiver, times=2)
    assert first[0]["webhook-id"] == second[0]["webhook-id"]
    assert json.loads(first[1])["run_id"] == json.loads(second[1])["run_id"]


@pytest.mark.parametrize("wrong", ["", "ftp://127.0.0.1/x", "http://169.254.169.254/latest"])
async def test_a_webhook_that_may_not_be_called_is_refused(client, thread, wrong):
    with pytest.raises(UnprocessableEntityError):
        await client.runs.create(thread, "echo", input={"text": "hi"}, webhook=wrong)
    assert await client.runs.list(thread) == []
