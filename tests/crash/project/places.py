"""Places where a run stops, dies or blocks if its input says so, and the journal of all of them."""

import asyncio
import json
import os
import signal
import time
from pathlib import Path

FOLDER = Path(os.environ["CRASH_FOLDER"])
LONGER_THAN_A_LEASE = 4.0


def note(place, **told):
    """Write a line that outlives the process."""
    line = json.dumps({"place": place, "pid": os.getpid(), "at": time.time(), **told}) + "\n"
    journal = os.open(FOLDER / "journal", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(journal, line.encode())
    os.close(journal)


async def reach(place, do, **told):
    """Come by a place, and do there what the run was told to do."""
    note(place, **told)
    match (do or {}).get(place):
        case "hold":
            while not (FOLDER / "go").exists():  # noqa: ASYNC110 - it outlives the process
                await asyncio.sleep(0.02)
        case "pause":
            await asyncio.sleep(0.1)
        case "die":
            os.kill(os.getpid(), signal.SIGKILL)
        case "block":
            time.sleep(LONGER_THAN_A_LEASE)  # noqa: ASYNC251 - that is the point
        case "raise":
            raise ValueError(f"{place} was told to raise")
    note(f"after {place}", **told)
