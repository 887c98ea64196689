"""What the agents of this project do."""

import asyncio
import os
import time
from pathlib import Path


def where(parameters, context):
    """Tells in which process it ran, and whose run it was."""
    context.emit({"hello": os.getpid()})
    return {"pid": os.getpid(), "given": parameters, "key": context.idempotency_key}


async def waits(parameters, context):
    """Says that it began, and waits until a file is there."""
    context.emit({"began": os.getpid()})
    noted = Path(parameters["file"] + f".{context.attempt}")
    noted.write_text(str(os.getpid()))
    try:
        while not Path(parameters["file"]).exists():
            await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        Path(parameters["file"] + ".cancelled").write_text("")
        raise
    return {"attempt": context.attempt, "pid": os.getpid()}


async def blocks(parameters, context):
    """Lets nobody else into the event loop for a while."""
    time.sleep(parameters["seconds"])
    return context.attempt


def look(place: str) -> str:
    """Look into a place."""
    return f"{place} is empty, says {os.getpid()}"
