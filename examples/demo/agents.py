"""The agents of the demo: what their models answer is in a script, so no key is needed."""

from checkrail import AssistantMessage, ToolCall, tool
from checkrail.testing import ScriptedModel

BLUNT = "Sure."
PLANNED = AssistantMessage(
    content="<plan>transfer, then delete</plan>",
    tool_calls=[
        ToolCall(id="c1", name="transfer", args={"amount": 5000}),
        ToolCall(id="c2", name="delete_note", args={"number": 7}),
    ],
)
ANSWER = "I deleted your note. Trace key: sk-proj-" + "a1B2c3D4" * 5

model = ScriptedModel([BLUNT, PLANNED, ANSWER])
silent = ScriptedModel([TimeoutError("the model did not answer")])


@tool
def transfer(amount: int) -> str:
    """Move money to the savings account."""
    return f"moved {amount}"


@tool
async def delete_note(number: int) -> str:
    """Delete a note."""
    return f"note {number} is gone"
