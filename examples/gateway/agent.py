"""An agent as anybody writes it, with the SDK of OpenAI. It has never heard of a gateway."""

import json

from openai import OpenAI

TRANSFER = {
    "name": "transfer",
    "description": "Move money to the savings account.",
    "parameters": {"type": "object", "properties": {"amount": {"type": "integer"}}},
}

client = OpenAI()  # by OPENAI_BASE_URL and OPENAI_API_KEY
messages = [{"role": "user", "content": "Move 5000 to my savings! My key is AKIAIOSFODNN7EXAMPLE."}]
while True:
    answer = client.chat.completions.create(
        model="scripted-1",
        messages=messages,
        tools=[{"type": "function", "function": TRANSFER}],
    )
    message = answer.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    if not message.tool_calls:
        print(f"the agent answers: {message.content}")
        break
    for call in message.tool_calls:
        amount = json.loads(call.function.arguments)["amount"]
        print(f"the agent moves {amount}")
        messages.append({"role": "tool", "tool_call_id": call.id, "content": f"moved {amount}"})
