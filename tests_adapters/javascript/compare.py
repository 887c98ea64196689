"""Compare what clients saw on two servers; what differs from run to run gets a name before."""

import json
import re
from collections.abc import Iterator
from typing import Any

ID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\b[0-9a-f]{32}\b")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")


def normalise(value: Any) -> Any:
    """Return the value with its ids numbered in the order in which they come, and without times."""
    names: dict[str, str] = {}
    text = TIME.sub("<time>", json.dumps(value, sort_keys=True, default=str))
    return json.loads(
        ID.sub(lambda found: names.setdefault(found[0], f"<id {len(names) + 1}>"), text)
    )


def find_differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Yield each place at which two normalised values differ."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            pair = (one.get(key, "<missing>") for one in (ours, theirs))
            yield from find_differences(*pair, f"{path}.{key}")
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for number, pair in enumerate(zip(ours, theirs, strict=True)):
            yield from find_differences(*pair, f"{path}.{number}")
    elif ours != theirs:
        yield f"{path}\n  ours:   {json.dumps(ours)}\n  theirs: {json.dumps(theirs)}"
