"""Hooks of one agent hold in its runs beside the server's, and in nobody else's."""

import pytest

from checkrail import Block
from checkrail.engine.hook import declare
from checkrail.runs.errors import RefusedError

from .support import chain, fail, graph_agent, say


def refuse(event, value):
    return Block("not with me", status=402)


def own(point, hook):
    """An agent with a hook of its own."""
    return graph_agent("say", hooks=(declare(hook, (point,), "own"),))


async def test_a_gate_of_an_agent_refuses_its_runs_alone(world):
    graphs = {"say": chain(say), "other": chain(say)}
    served = await world.open(graphs, agents=[own("before_run", refuse)])
    with pytest.raises(RefusedError) as refused:
        await served.admit("say", {"text": "x"})
    assert (refused.value.status, refused.value.detail["blocked_by"]) == (402, "own")
    ended = await served.over(await served.admit("other", {"text": "x"}))
    assert ended.status == "success"


async def test_a_start_hook_of_an_agent_is_asked(world):
    served = await world.open({"say": chain(say)}, agents=[own("on_run_start", refuse)])
    ended = await served.over(await served.admit("say", {"text": "x"}))
    assert (ended.phase, ended.blocked_by) == ("blocked", "own")


async def test_what_nobody_ruled_on_is_not_kept_of_a_run_that_failed(world):
    def redact(event, output):
        return None

    graph = chain(say, fail)
    served = await world.open({"say": graph}, (redact, "on_result"))
    thread = await served.thread()
    ended = await served.over(await served.admit("say", {"text": "secret"}, thread))
    assert (ended.status, ended.output) == ("error", None)
    assert "secret" not in str((await served.thread_row(thread)).values)
