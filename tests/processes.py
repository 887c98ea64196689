"""What tests have to know of processes: what they start with, whether they live, how to wait."""

import os
import time
from collections.abc import Callable
from typing import Any

PATIENCE = 60.0
OTHERS = ("CHECKRAIL_", "LANGCHAIN_", "LANGGRAPH_", "LANGSMITH_")


def environment(**more: str) -> dict[str, str]:
    """Ours, without what a developer's shell may have set for servers and clients of their own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(OTHERS)}
    return {**kept, "PYTHONUNBUFFERED": "1", **more}


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def until(ready: Callable[[], Any], what: str = "it", patience: float = PATIENCE) -> None:
    deadline = time.monotonic() + patience
    while not ready():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {patience:.0f} s for {what}")
        time.sleep(0.02)
