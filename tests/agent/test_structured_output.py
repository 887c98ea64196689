"""Answers of a given shape: asked for, checked, asked for again, and given as what they are."""

from typing import Literal

import pytest
from pydantic import BaseModel, field_validator

from checkrail import AssistantMessage, Continue, Replace, Retry, Stop, ToolCall
from checkrail.agent import RunFailed


class City(BaseModel):
    name: str
    people: int

    @field_validator("people")
    @classmethod
    def not_empty(cls, people):
        if people < 1:
            raise ValueError("nobody lives there")
        return people


BERN = '{"name": "Bern", "people": 134000}'
SCHEMA = {
    "title": "a city",
    "type": "object",
    "properties": {"name": {"type": "string"}, "people": {"type": "integer"}},
    "required": ["name", "people"],
}


@pytest.mark.parametrize(
    ("schema", "text", "output"),
    [
        (City, BERN, City(name="Bern", people=134000)),
        (SCHEMA, BERN, {"name": "Bern", "people": 134000}),
        (int, "42", 42),
        (bool, "true", True),
        (list[str], '["a", "b"]', ["a", "b"]),
        (dict[str, float], '{"a": 1.5}', {"a": 1.5}),
        (Literal["yes", "no"], '"yes"', "yes"),
        (City | None, "null", None),
        (City, f"```json\n{BERN}\n```", City(name="Bern", people=134000)),
        (City, f"  \n{BERN}\n", City(name="Bern", people=134000)),
    ],
)
async def test_an_answer_that_fits_is_given_as_what_it_is(make, schema, text, output):
    response = await make(text, output_schema=schema).run("Which?")
    assert (response.output, response.content) == (output, text)
    assert response.stop_reason == "answer"


@pytest.mark.parametrize(("schema", "name"), [(City, "City"), (SCHEMA, "a_city"), (int, "int")])
async def test_the_model_is_asked_for_it_in_words_and_by_schema(make, schema, name):
    fitting = "1" if schema is int else BERN
    agent = make(fitting, output_schema=schema, system_prompt="Be brief.")
    await agent.run("Which?")
    (request,) = agent.model.requests
    wanted = request.params["response_format"]
    assert (wanted["type"], wanted["json_schema"]["name"]) == ("json_schema", name)
    assert wanted["json_schema"]["schema"]["type"] in ("object", "integer")
    told = request.messages[0]["content"]
    assert told.startswith("Be brief.\n\nGive your final answer as JSON alone")


async def test_without_a_schema_nothing_is_asked_for(make):
    agent = make("hi")
    response = await agent.run("hello")
    assert (response.output, agent.model.requests[0].params) == (None, {})


@pytest.mark.parametrize("schema", [City, SCHEMA])
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("It is Bern.", "JSON"),
        ('{"name": "Bern"}', "people"),
        ('{"name": "Bern", "people": "many"}', "people"),
    ],
)
async def test_an_answer_that_does_not_fit_is_asked_for_again_with_the_reason(
    make, schema, wrong, why
):
    agent = make(wrong, BERN, output_schema=schema)
    response = await agent.run("Which?")
    feedback = response.messages[1]["content"]
    assert feedback.startswith("Your answer does not fit the output schema: ")
    assert why in feedback
    assert [message["content"] for message in response.messages] == ["Which?", feedback, BERN]
    assert agent.model.requests[1].messages[-1]["content"] == feedback


async def test_what_the_types_own_validators_say_is_told(make):
    agent = make('{"name": "Atlantis", "people": 0}', BERN, output_schema=City)
    response = await agent.run("Which?")
    assert "people: Value error, nobody lives there" in response.messages[1]["content"]


async def test_three_retries_later_the_run_fails_and_everything_is_counted(make, hooks, witness):
    wrong = AssistantMessage("Bern", usage={"total_tokens": 10})
    agent = make(*[wrong] * 6, hooks=hooks, output_schema=City)
    with pytest.raises(
        RunFailed, match="does not fit the output schema, 3 retries later"
    ) as failed:
        await agent.run("Which?")
    assert (len(agent.model.requests), failed.value.by_hook) == (4, False)
    assert (failed.value.response.stop_reason, failed.value.response.output) == ("error", None)
    assert failed.value.response.usage == {"total_tokens": 40}
    assert witness.end == failed.value.response
    assert witness.at("before_final_response") == []


async def test_tools_may_be_called_on_the_way(make, tools):
    response = await make(ToolCall("1", "echo"), BERN, tools=tools, output_schema=City).run(
        "Which?"
    )
    assert response.output.name == "Bern"


async def test_a_hook_may_make_an_answer_fit(make, hooks):
    hooks.after_llm_call(lambda event, message: Continue(message.content.removeprefix("Here: ")))
    agent = make(f"Here: {BERN}", hooks=hooks, output_schema=City)
    assert (await agent.run("Which?")).output.name == "Bern"
    assert len(agent.model.requests) == 1


async def test_a_hook_that_changes_a_fitting_answer_changes_the_output(make, hooks):
    hooks.before_final_response(lambda event, message: Continue(message.content.replace("e", "a")))
    response = await make('["beer"]', hooks=hooks, output_schema=list[str]).run("What?")
    assert response.output == ["baar"]


async def test_a_hook_that_breaks_an_answer_fails_the_run_and_is_named(make, hooks):
    hooks.before_final_response(lambda event: Continue("Bern, of course"), name="chatty")
    with pytest.raises(RunFailed, match="no longer fits the output schema") as failed:
        await make(BERN, hooks=hooks, output_schema=City).run("Which?")
    assert "chatty" in str(failed.value)
    assert "of course" not in str(failed.value.response.messages)


async def test_a_hook_may_ask_again_for_an_answer_that_fits(make, hooks):
    hooks.before_final_response(
        lambda event, message: Retry("Not Bern.") if "Bern" in message.content else None
    )
    basel = BERN.replace("Bern", "Basel")
    assert (
        await make(BERN, basel, hooks=hooks, output_schema=City).run("?")
    ).output.name == "Basel"


@pytest.mark.parametrize("point", ["before_llm_call", "after_llm_call", "before_final_response"])
@pytest.mark.parametrize(("text", "output"), [("42", 42), ("no idea", None)])
async def test_a_stop_value_is_read_if_it_fits_and_passes_if_not(make, hooks, point, text, output):
    hooks.hook(point)(lambda event: Stop(text))
    response = await make("1", hooks=hooks, output_schema=int).run("?")
    assert (response.content, response.output, response.stop_reason) == (text, output, "stop")


async def test_an_answer_that_a_hook_gives_instead_of_the_model_has_to_fit_too(make, hooks):
    hooks.before_llm_call(lambda event: Replace("many") if event.iteration == 1 else None)
    response = await make("42", hooks=hooks, output_schema=int).run("?")
    assert response.output == 42
    assert "does not fit" in response.messages[1]["content"]


async def test_a_hook_may_change_what_is_asked_for(make, hooks):
    import dataclasses

    hooks.before_llm_call(lambda event, request: Continue(dataclasses.replace(request, params={})))
    agent = make("42", hooks=hooks, output_schema=int)
    assert (await agent.run("?")).output == 42
    assert agent.model.requests[0].params == {}


async def test_text_parts_are_read_together(make):
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "4"}]
    answer = AssistantMessage([*parts, {"type": "text", "text": "2"}])
    assert (await make(answer, output_schema=int).run("?")).output == 42


def test_a_schema_that_is_none_is_refused_at_once(make):
    with pytest.raises(Exception, match="output_schema"):
        make("hi", output_schema={"type": "no such type"})
    with pytest.raises(Exception, match="output_schema"):
        make("hi", output_schema=object())
