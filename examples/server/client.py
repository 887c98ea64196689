"""Talks to the example project with LangGraph's own client. Start the server first: make dev."""

import asyncio
import sys

import httpx
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

SERVER = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:2024"


def said(text: str) -> dict:
    return {"messages": [{"role": "user", "content": text}]}


async def main() -> None:
    async with get_client(url=SERVER, api_key=None) as client:
        thread = await client.threads.create()
        await answered(client, thread["thread_id"], "Where is order A-17?")
        await answered(client, thread["thread_id"], "Refund 5000!")
        print("And now the paid agent:")
        try:
            await client.runs.wait(None, "research", input=said("Where is order A-17?"))
        except httpx.HTTPStatusError as error:
            print(error.response.status_code, error.response.json()["message"])


async def answered(client: LangGraphClient, thread_id: str, question: str) -> None:
    """Ask, and print the answer as it comes."""
    print(question)
    stream = client.runs.stream(
        thread_id, "support", input=said(question), stream_mode="messages-tuple"
    )
    async for part in stream:
        if part.event == "messages" and part.data[0]["type"] == "AIMessageChunk":
            print(part.data[0]["content"], end="", flush=True)
    print()


if __name__ == "__main__":
    asyncio.run(main())
