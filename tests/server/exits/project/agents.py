"""Functions and tools that are places."""

import asyncio
import sys

from raising import pass_by


async def function(parameters: dict):
    pass_by("function", parameters)
    return {"done": True}


async def schedule_exit(parameters: dict):
    """End the process, as code does that believes it is alone in it."""
    loop = asyncio.get_running_loop()
    loop.call_soon(sys.exit, 3)
    loop.call_later(0.01, sys.exit, 4)
    await asyncio.sleep(0.1)
    return {"done": True}


def plain_function(parameters: dict):
    pass_by("plain function", parameters)
    return {"done": True}


async def leave(way: str) -> str:
    """Raise."""
    pass_by("tool", {"place": "tool", "way": way})
    return "well"


def plainly_leave(way: str) -> str:
    """Raise."""
    return pass_by("tool", {"place": "tool", "way": way})
