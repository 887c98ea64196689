"""The story for aider, which offers its model no tools: its answers are edits of files."""

import pytest
from tests.gateway.provider import Say

from .clients import AIDER
from .conftest import COUNTED, SECRET

FORBIDDEN = """  after_llm_call:
    - {name: guarded, when: 'message.text.contains("forbidden.txt")', block: Keep out}
"""
EDIT = """It shall be so.

FILE
```
<<<<<<< SEARCH
=======
all is well
>>>>>>> REPLACE
```
"""


@pytest.fixture
def house(build_house):
    return build_house(AIDER)


def test_an_edit(house):
    script = house.script(Say(EDIT.replace("FILE", "made.txt")))
    with house.gateway() as gateway:
        ended = house.run(gateway, "/code Write it down")
    assert ended.code == 0, ended.shown
    assert (house.place.work / "made.txt").read_text() == "all is well\n"
    assert len(script.requests) == 1


def test_a_refused_edit(house):
    script = house.script(Say(EDIT.replace("FILE", "forbidden.txt")))
    with house.gateway(more=FORBIDDEN) as gateway:
        ended = house.run(gateway, "/code Write it down")
    assert "Keep out" in ended.shown
    assert "forbidden.txt" not in house.made
    assert len(script.requests) == 1


def test_a_secret_in_what_a_command_prints(house):
    (house.place.work / "deploy.cfg").write_text(f"region = eu\nkey = {SECRET}\n")
    turns = "/run cat deploy.cfg\n/ask What is it?\n/ask And the region?\n/ask Again?"
    script = house.script(Say("I see."))
    with house.gateway() as gateway:
        ended = house.run(gateway, turns)
    assert ended.code == 0, ended.shown
    assert ended.shown.count("I see.") == len(script.requests) == 3
    for request in script.requests:
        assert b"region = eu" in request.body
        assert b"[redacted]" in request.body
    assert SECRET.encode() not in b"".join(each.body for each in house.provider.requests)


def test_a_refused_request_is_one_call(house):
    script = house.script(Say("Nobody hears this."))
    with house.gateway() as gateway:
        ended = house.run(gateway, "/code Open the door")
    assert "We are closed" in ended.shown
    assert house.blocks("closed") == 1
    assert not script.requests


def test_a_budget_used_up(house):
    script = house.script(Say("Only this."))
    with house.gateway(tokens=1, more=COUNTED) as gateway:
        ended = house.run(gateway, "/ask One?\n/ask Two?")
    assert "budget" in ended.shown
    assert house.blocks("spent") == 1
    assert len(script.requests) == 1


def test_the_gateway_restarts_in_the_middle(house):
    script = house.script(Say("I am still here."))
    turns = "/ask One?\n/run cat wait\n/ask Two?"
    shown = house.run_over_a_restart(turns)
    assert shown.count("I am still here.") == len(script.requests) == 2
    assert b"it is back" in script.requests[-1].body
