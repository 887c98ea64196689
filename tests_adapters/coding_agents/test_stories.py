"""One story for every client that can run commands."""

import pytest
from tests.gateway.provider import Say

from .clients import CLIENTS
from .conftest import COUNTED, SECRET
from .model import Run


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def house(request, build_house):
    return build_house(request.param)


def test_an_allowed_tool(house):
    script = house.script(Run("echo so > made.txt; echo $((40 + 2)) is it"), Say("All is done."))
    with house.gateway() as gateway:
        ended = house.run(gateway)
    assert (ended.code, house.made) == (0, {"made.txt"}), ended.shown
    assert "All is done." in ended.shown
    assert b"42 is it" in script.requests[-1].body
    assert len(script.requests) == 2


PUSHES = (
    Run("touch pushed # push --force", "I will push."),
    Run("touch asked", "Then I ask."),
    Say("I went another way."),
)


def test_after_a_refused_tool_the_model_goes_another_way(house):
    script = house.script(*PUSHES)
    with house.gateway() as gateway:
        ended = house.run(gateway)
    assert (ended.code, house.made) == (0, {"asked"}), ended.shown
    assert "I went another way." in ended.shown
    assert "pushes with force" not in ended.shown
    assert len(script.requests) == 3
    for request in script.requests[1:]:  # the client sends the last of them, and knows of nothing
        assert request.body.count(b"Nobody pushes with force here") == 1


def test_a_refused_tool_may_end_the_turn(house):
    script = house.script(*PUSHES)
    with house.gateway(blocked_tool="text") as gateway:
        ended = house.run(gateway)
    assert (ended.code, house.made) == (0, set()), ended.shown
    assert "was not called: Nobody pushes with force here" in ended.shown
    assert len(script.requests) == 1


def test_a_secret_in_a_result(house):
    (house.place.work / "deploy.cfg").write_text(f"region = eu\nkey = {SECRET}\n")
    turns = [Run("cat deploy.cfg"), Run("echo two > two.txt"), Run("cat two.txt"), Say("I know.")]
    script = house.script(*turns)
    with house.gateway() as gateway:
        ended = house.run(gateway)
    assert (ended.code, house.made) == (0, {"deploy.cfg", "two.txt"}), ended.shown
    assert "I know." in ended.shown
    assert len(script.requests) == 4
    for request in script.requests[1:]:
        assert b"region = eu" in request.body
        assert b"[redacted]" in request.body
    assert SECRET.encode() not in b"".join(each.body for each in house.provider.requests)


def test_a_refused_request_is_one_call(house):
    script = house.script(Say("Nobody hears this."))
    with house.gateway() as gateway:
        ended = house.run(gateway, "Open the door")
    assert "We are closed" in ended.shown
    assert ended.code == 1
    assert house.blocks("closed") == 1
    assert not script.requests


def test_a_budget_used_up(house):
    script = house.script(Run("echo one"), Say("Nobody hears this."))
    with house.gateway(tokens=1, more=COUNTED) as gateway:
        ended = house.run(gateway)
    assert "budget" in ended.shown
    assert ended.code == 1
    assert house.blocks("spent") == 1
    assert len(script.requests) == 1


def test_the_gateway_restarts_in_the_middle(house):
    (house.place.work / "deploy.cfg").write_text(f"key = {SECRET}\n")
    script = house.script(Run("cat deploy.cfg wait"), Run("touch after"), Say("I am still here."))
    shown = house.run_over_a_restart("Go on")
    assert "I am still here." in shown
    assert "after" in house.made
    assert b"it is back" in script.requests[-1].body
    assert SECRET.encode() not in b"".join(each.body for each in house.provider.requests)
