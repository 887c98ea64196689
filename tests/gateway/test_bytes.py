"""What no hook changes arrives byte for byte as it was sent, seen over bare sockets."""

import json

import pytest

from .command import ANSWER_RULE, TOOL_RULE, gateway_process
from .dialects import DIALECTS
from .provider_wire import CHAT, MESSAGES, RESPONSES, Say, events, whole
from .wire import sent, upstream

OBSERVERS = """
hooks:
  before_llm_call: [{name: a, builtin: log_request}]
  after_llm_call: [{name: b, builtin: log_response}]
  before_tool_call: [{name: c, mode: shadow, block: it would be}]
  after_tool_call: [{name: d, mode: shadow, block: it would be}]
"""
HOOKS = {
    "no hooks": "hooks: {}\n",
    "observers": OBSERVERS,
    "a rule on tools": TOOL_RULE,
    "a rule on answers": ANSWER_RULE,
}
PATHS = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}
SAID = Say("Größe 😀, or so.", [("look", {"at": "ä"}), ("look", {})], thinking="Hm")


@pytest.fixture(scope="module")
def place():
    with upstream() as made:
        yield made


@pytest.fixture(scope="module", params=HOOKS)
def gateway(request, place, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateway")
    where = {"url": f"http://127.0.0.1:{place.port}", "format": [*PATHS], "retries": 0}
    hooks = HOOKS[request.param]
    with gateway_process(folder, hooks, {"here": where}, ask_usage=False) as running:
        yield running


def odd_request(name: str, *, stream: bool) -> bytes:
    """Write a request with a tool result as no library would."""
    asked = DIALECTS[name].with_result("found: ä", stream=stream)
    text = json.dumps({**asked, "odd": "PLACE"}, indent=3).replace("ä", "\\u00E4")
    return text.replace('"PLACE"', '[1.50, 1E3, -0, "\\/",\t"\\u0041ä"]').encode() + b" \r\n"


def odd_json(body: dict) -> bytes:
    return json.dumps({**body, "odd": "PLACE"}, indent=1).replace('"PLACE"', "1.50 ").encode()


def odd_stream(name: str) -> bytes:
    """Write a stream with other line ends, comments, fields and events than one expects."""
    made = events(PATHS[name], SAID, {})
    made[1] = made[1].replace(b"\n", b"\r\n")
    made[2] = b": a comment\n\n" + made[2].replace(b'": ', b'" :  ')
    made[3] = b"id: 7\nretry: 1000\n" + made[3].replace(b"data: ", b"data:")
    made[4] = made[4].replace(b"\n", b"\r")
    last = [b": the end\n\n"] if name == "chat" else []
    return b"".join([*made[:-1], *last, made[-1]])


def pieces(data: bytes, *sizes: int) -> list[bytes]:
    """Cut bytes into pieces of these sizes, over and over."""
    found = []
    while data:
        size = sizes[len(found) % len(sizes)]
        found.append(data[:size])
        data = data[size:]
    return found


@pytest.mark.parametrize("sizes", [(100_000,), (7, 1, 64, 3)])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("name", PATHS)
def test_request_and_answer_are_the_bytes_that_were_sent(name, stream, sizes, place, gateway):
    asked = odd_request(name, stream=stream)
    answer = odd_stream(name) if stream else odd_json(whole(PATHS[name], SAID))
    kind = "text/event-stream; charset=utf-8" if stream else "application/json"
    place.says(kind, pieces(answer, *sizes))
    head, got = sent(gateway.port, f"{PATHS[name]}?beta=1&x=%20y", asked)
    assert head.startswith(b"HTTP/1.1 200 ")
    assert f"content-type: {kind}".encode() in head.lower()
    assert got == answer
    head, body = place.requests[-1]
    assert head.startswith(f"POST {PATHS[name]}?beta=1&x=%20y HTTP/1.1\r\n".encode())
    assert body == asked


@pytest.mark.parametrize("name", PATHS)
def test_fields_of_the_caller_are_passed_on_as_they_are(name, place, gateway):
    place.says("application/json", [odd_json(whole(PATHS[name], SAID))])
    fields = [b"anthropic-beta: a-1,b-2", b"User-Agent: Some Agent/1.0 (x; y)", b"x-odd:  \xe4 "]
    sent(gateway.port, PATHS[name], odd_request(name, stream=False), *fields)
    head, _ = place.requests[-1]
    lines = [line.partition(b": ") for line in head.split(b"\r\n")]
    found = {name.lower(): value for name, _, value in lines}
    assert found[b"anthropic-beta"] == b"a-1,b-2"
    assert found[b"user-agent"] == b"Some Agent/1.0 (x; y)"
    assert found[b"content-type"] == b"application/json"
