"""What every tool keeps to: a name that all providers accept, and a timeout that is one."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from checkrail.agent.tools.errors import ToolRefusedError

LONGEST = 64
LEGAL_NAME = re.compile(rf"[a-zA-Z0-9_-]{{1,{LONGEST}}}")


def check_name(name: str) -> None:
    """Refuse a name that some provider would refuse."""
    if not LEGAL_NAME.fullmatch(name):
        problem = f"{name!r} is no name that all models accept"
        remedy = f"Say name=…, with up to {LONGEST} letters, digits, _ and -"
        raise ToolRefusedError(name, problem, remedy)


def check_timeout(tool: str, timeout: object) -> None:
    """Refuse a timeout that is neither seconds nor None."""
    if timeout is not None and not (isinstance(timeout, (int, float)) and timeout > 0):
        remedy = "Say seconds, more than 0, or None for no limit"
        raise ToolRefusedError(tool, f"its timeout is {timeout!r}", remedy)


def legal_names(names: Iterable[str], prefix: str = "") -> dict[str, str]:
    """Return each name a legal form of its own; those that are legal already keep theirs."""
    names = [*dict.fromkeys(names)]
    legal = {name: _legal(prefix + name) for name in names}
    names.sort(key=lambda name: legal[name] != prefix + name)
    taken: set[str] = set()
    for name in names:
        legal[name] = _free(legal[name], taken)
        taken.add(legal[name])
    return legal


def _legal(name: str) -> str:
    written = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
    if len(written) <= LONGEST:
        return written
    short = hashlib.sha256(name.encode()).hexdigest()[:8]
    return f"{written[: LONGEST - 9]}_{short}"


def _free(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name[: LONGEST - len(str(number)) - 1]}_{number}"
    return free
