"""Rules in a file hold in graphs that have never heard of them, whatever a client streams."""

import httpx
import pytest

from .support import frames, streamed

SECRET = "sk-1234567890abcdef"
ASKED = {"messages": [{"role": "user", "content": "what is the key?"}]}
MODES = (
    "values",
    "updates",
    "messages",
    "messages-tuple",
    "custom",
    "events",
    "debug",
    "tasks",
    "checkpoints",
    "tools",
    "lifecycle",
)


@pytest.fixture
def rules(hooked_servers):
    return hooked_servers("sqlite", "rules.yaml")


@pytest.fixture
def results(hooked_servers):
    return hooked_servers("sqlite", "results.yaml")


@pytest.fixture
def plain(hooked_servers):
    return hooked_servers("sqlite", "plain.yaml")


def client(served):
    return httpx.AsyncClient(base_url=served.url, timeout=30)


async def everything(http, agent, given, modes):
    """All that can be read of a run on a thread, over every route that tells of it."""
    thread = (await http.post("/threads", json={})).json()["thread_id"]
    body = {
        "assistant_id": agent,
        "input": given,
        "stream_mode": list(modes),
        "stream_subgraphs": True,
    }
    told = await streamed(http, f"/threads/{thread}/runs/stream", body)
    [run] = (await http.get(f"/threads/{thread}/runs")).json()
    at = f"/threads/{thread}/runs/{run['run_id']}"
    again = await streamed(http, f"{at}/stream", headers={"Last-Event-ID": "-1"})
    paths = (at, f"{at}/join", f"/runs/{run['run_id']}", f"/runs/{run['run_id']}/hooks")
    rest = [(await http.get(path)).text for path in (*paths, f"/threads/{thread}")]
    raw = await streamed(http, f"/runs/{run['run_id']}/events")
    protocol = await _protocol(http, thread)
    return told, [told, again, raw, protocol, rest], (thread, run)


async def _protocol(http, thread):
    channels = ["values", "updates", "messages", "tools", "tasks", "checkpoints", "lifecycle"]
    wanted = {"channels": channels, "since": 0}
    seen = []
    path = f"/threads/{thread}/stream/events"
    async with http.stream("POST", path, json=wanted) as answer:
        async for _, name, data in frames(answer):
            seen.append(data)
            params = data["params"]
            over = name == "lifecycle" and params["data"]["event"] in ("completed", "failed")
            if over and not params["namespace"]:
                break
    return seen


@pytest.mark.parametrize("mode", MODES)
async def test_what_a_rule_takes_from_a_tools_result_is_in_no_stream(rules, mode):
    async with client(rules) as http:
        told, all_told, (thread, _) = await everything(http, "agent", ASKED, [mode])
        assert SECRET not in repr(all_told)
        state = (await http.get(f"/threads/{thread}/state")).text
    assert SECRET not in state
    assert "[redacted:key]" in state
    assert told[-1][1] != "error"


async def test_what_a_rule_takes_from_a_tools_result_is_in_none_of_all_streams(rules):
    async with client(rules) as http:
        told, all_told, _ = await everything(http, "agent", ASKED, MODES)
    assert SECRET not in repr(all_told)
    assert "[redacted:key]" in repr(told)


async def test_without_the_rule_it_is_there(plain):
    async with client(plain) as http:
        told, *_ = await everything(http, "agent", ASKED, MODES)
    shown = {name.partition("/")[0] for _, name, data in told if SECRET in repr(data)}
    assert {"values", "updates", "messages", "events", "debug", "tasks", "checkpoints"} <= shown


@pytest.mark.parametrize("mode", MODES)
async def test_what_a_rule_takes_from_a_result_is_in_no_stream_and_not_in_the_thread(results, mode):
    async with client(results) as http:
        told, all_told, (thread, run) = await everything(http, "revealing", {"text": "x"}, [mode])
        assert SECRET not in repr(all_told)
        assert SECRET not in (await http.get(f"/threads/{thread}/state")).text
        values = (await http.get(f"/threads/{thread}")).json()["values"]
        output = (await http.get(f"/runs/{run['run_id']}")).json()["output"]
    assert values == output == {"text": "x", "said": ["x", "the key is [redacted:key]"]}
    if mode == "values":
        last = [data for _, name, data in told if name == "values"][-1]
        assert last == values


async def test_what_a_rule_takes_from_a_result_is_in_none_of_all_streams(results):
    async with client(results) as http:
        _, all_told, _ = await everything(http, "revealing", {"text": "x"}, MODES)
    assert SECRET not in repr(all_told)


async def test_one_who_waits_gets_the_result_as_the_rule_left_it(results):
    async with client(results) as http:
        body = {"assistant_id": "revealing", "input": {"text": "x"}}
        answer = await http.post("/runs/wait", json=body)
    assert answer.json()["said"] == ["x", "the key is [redacted:key]"]
