"""Carrying out runs: what they come to, and what is kept of them."""

from .support import say, chain, fail


async def test_a_run_comes_to_the_values_of_its_graph(world):
    served = await world.open({"say": chain(say)})
    thread = await served.thread()
    row = await served.run("say", {"text": "hello"}, thread)
    assert (row["status"], row["phase"], row["attempt"]) == ("success", "success", 1)
    assert row["output"] == {"text": "hello", "said": ["hello"]}
