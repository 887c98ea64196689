"""Talks to the example project with LangGraph's own client. Start the server first: make dev."""

import asyncio
import sys

import httpx
from langgraph_sdk import get_client

SERVER = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:2024"


def said(text: str) -> dict:
    return {"messages": [{"role": "user", "content": text}]}


async def main() -> None:
    client = get_client(url=SERVER, api_key=None)
    thread = await client.threads.create()

    print("Where is order A-17?")
    question = said("Where is order A-17?")
    stream = client.runs.stream(
        thread["thread_id"], "support", input=question, stream_mode="messages-tuple"
    )
    async for part in stream:
        if part.event == "messages" and part.data[0]["type"] == "AIMessageChunk":
            print(part.data[0]["content"], end="", flush=True)

    print("\nRefund 5000!")
    state = await client.runs.wait(thread["thread_id"], "support", input=said("Refund 5000!"))
    print(state["messages"][-1]["content"])

    print("And now the paid agent:")
    try:
        await client.runs.wait(None, "research", input=question)
    except httpx.HTTPStatusError as error:
        print(error.response.status_code, error.response.json()["message"])


if __name__ == "__main__":
    asyncio.run(main())
