"""What the agents of this project do."""

import asyncio
import os
import time
from pathlib import Path


def where(parameters, context):
    """Tells in which process it ran, and whose run it was."""
    context.emit({"hello": os.getpid()})
    return {"pid": os.getpid(), "given": parameters, "key": context.idempotency_key}


def note(file, what):
    """Leave a note for the test beside its file."""
    Path(f"{file}.{what}").write_text(str(os.getpid()))


async def waits(parameters, context):
    """Says that it began, and waits until a file is there."""
    context.emit({"began": os.getpid()})
    file = parameters["file"]
    note(file, context.attempt)
    try:
        while not os.path.exists(file):  # noqa: ASYNC110, ASYNC240, PTH110 - no other way in
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        note(file, "cancelled")
        raise
    return {"attempt": context.attempt, "pid": os.getpid()}


async def blocks(parameters, context):
    """Lets nobody else into the event loop for a while."""
    time.sleep(parameters["seconds"])  # noqa: ASYNC251 - what it is there for
    return context.attempt


async def hang() -> str:
    """Say that it began, and never end."""
    note(os.environ["HANG_FILE"], "began")
    await asyncio.Event().wait()
    return "never"


def look(place: str) -> str:
    """Look into a place."""
    return f"{place} is empty, says {os.getpid()}"


def judges(parameters):
    """Blocks a tool call, and says where it was judged."""
    return {"action": "block", "reason": f"judged by {os.getpid()}"}


async def dies(parameters):
    """Take the process down."""
    os._exit(1)
