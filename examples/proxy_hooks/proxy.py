"""What a model proxy does with the hooks of a file: call them before and after the model.

`hooks.yaml`, beside this file, names two built-in hooks and two of our own.
"""

import asyncio
import logging
import sys
from pathlib import Path

from checkrail import AssistantMessage, HookRegistry, ModelRequest
from checkrail.config import load

HOOKS = Path(__file__).with_name("hooks.yaml")


def model(request: ModelRequest) -> AssistantMessage:
    print("the model is sent:")
    for message in request.messages:
        print(f"  {dict(message)}")
    return AssistantMessage("It is 330 m tall. It was built in 1889.", usage={"total_tokens": 52})


async def main() -> None:
    logging.basicConfig(level=logging.INFO, format="log: %(message)s", stream=sys.stdout)
    registry = HookRegistry()
    registry.swap(load(HOOKS).specs)
    for point in ("pre_request", "post_response"):
        print(f"{point}:", ", ".join(spec.name for spec in registry.list(point)))

    text = {"type": "text", "text": "How tall is it?", "cache_control": {"type": "ephemeral"}}
    request = ModelRequest("groq/llama3", messages=[{"role": "user", "content": [text]}])
    scope = registry.scope(request_id="4f1c", model=request.model)
    sent = await scope.fire("pre_request", request)
    answer = await scope.fire("post_response", model(sent.value))
    print(f"the client gets: {answer.value.content}")


if __name__ == "__main__":
    asyncio.run(main())
