"""A model that follows a script: it moves what it is told to move, then says so."""

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Model(BaseHTTPRequestHandler):
    """Speaks as much of OpenAI's chat API as an agent needs."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        last = asked["messages"][-1]
        amount = re.search(r"Move (\d+)", last["content"])
        done = "Done" if last["content"].startswith("moved") else "I may not"
        message = {"role": "assistant", "content": f"{done}: {last['content']}."}
        if last["role"] == "user" and amount is not None:
            print(f"the model is told: {last['content']}", flush=True)
            arguments = json.dumps({"amount": int(amount[1])})
            call = {"name": "transfer", "arguments": arguments}
            message = {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "call_1", "type": "function", "function": call}],
            }
        self.answer(asked["model"], message)

    def answer(self, model: str, message: dict) -> None:
        finish = "tool_calls" if "tool_calls" in message else "stop"
        answer = {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 0,
            "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": finish}],
            "usage": {"prompt_tokens": 40, "completion_tokens": 10, "total_tokens": 50},
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing of requests."""


@contextlib.contextmanager
def running() -> Iterator[str]:
    """Serve the model on a free port; gives its address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1"
        finally:
            server.shutdown()
            thread.join()
