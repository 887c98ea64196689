"""The names of a model: hooks are for the one that was asked and for the one that answered."""

import pytest

from checkrail import AssistantMessage, HookRegistry, ModelRequest, ToolCall
from checkrail.engine.event import notes_of

ANSWER = AssistantMessage("hi", model="gpt-5-2025-08-07")


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [("gpt-5", True), ("gpt-5-2025-*", True), ("/^gpt-5$/", True), ("smart", True), ("o1", False)],
)
async def test_a_matcher_holds_if_any_of_them_fits(pattern, fits):
    seen = []
    registry = HookRegistry()
    registry.register(seen.append, "after_llm_call", models=[pattern], lane="observe", name="see")
    metadata = {"requested_model": "smart"}
    await registry.fire("after_llm_call", ANSWER, model="gpt-5", metadata=metadata)
    assert bool(seen) is fits


@pytest.mark.parametrize("pattern", ["gpt-5", "gpt-5-2025-*", "smart"])
async def test_a_tool_call_goes_by_all_names_of_the_model_that_made_it(pattern):
    seen = []
    registry = HookRegistry()
    registry.register(seen.append, "before_tool_call", models=[pattern], lane="observe")
    scope = registry.scope(model="gpt-5", metadata={"tags": ["a"]})
    named = scope.bind_model_names(requested_model="smart", answered_model="gpt-5-2025-08-07")
    await named.fire("before_tool_call", ToolCall("1", "f"))
    assert seen[0].metadata["tags"] == ["a"]
    assert scope.bind_model_names(requested_model=None, answered_model="gpt-5") is scope


@pytest.mark.parametrize(
    ("value", "context", "model"),
    [
        (ANSWER, "gpt-5", "gpt-5"),
        (ANSWER, None, "gpt-5-2025-08-07"),
        (ModelRequest("chosen"), "gpt-5", "chosen"),
        (ModelRequest(), "gpt-5", "gpt-5"),
        (ToolCall("1", "f"), "gpt-5", "gpt-5"),
    ],
)
async def test_an_event_tells_the_model_that_is_asked(value, context, model):
    points = {AssistantMessage: "after_llm_call", ModelRequest: "before_llm_call"}
    point = points.get(type(value), "before_tool_call")
    seen = []
    registry = HookRegistry()
    registry.register(seen.append, point, lane="observe", name="see")
    await registry.fire(point, value, model=context)
    assert seen[0].model == model


async def test_events_of_one_piece_of_work_share_their_notes_and_others_do_not():
    seen = []
    registry, below = HookRegistry(), HookRegistry()
    registry.register(lambda event: seen.append(notes_of(event)), "before_tool_call")
    scope = registry.scope()
    inner = below.scope(parent=scope.bind(tool_call_id="1"))
    for each in (scope, inner, registry.scope()):
        await each.fire("before_tool_call", ToolCall("1", "f"))
    assert seen[0] is seen[1]
    assert seen[0] is not seen[2]
