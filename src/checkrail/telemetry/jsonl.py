"""Records as lines of JSON."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import IO, Any, Self

from checkrail.engine.containment import ends_process
from checkrail.engine.records import HookRecord
from checkrail.private_files import make_private_file, warn_of_readers

VALUES = ("before", "after")


class JsonLinesSink:
    """Writes each record as one line of JSON, to a file of its own or to one that is open.

    It closes only what it opened itself.
    """

    def __init__(self, target: str | Path | IO[str]) -> None:
        self._owned = isinstance(target, (str, Path))
        self._file = _open_file(target) if isinstance(target, (str, Path)) else target
        self._lock = threading.Lock()

    def __call__(self, record: HookRecord) -> None:
        """Write one record, at once."""
        line = line_of(record)
        with self._lock:
            self._file.write(line + "\n")
            self._file.flush()

    def close(self) -> None:
        """Close the file if it was opened here; closing twice does nothing."""
        with self._lock:
            if self._owned:
                self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()


def _open_file(path: str | Path) -> IO[str]:
    """Open a file that records are appended to: only its owner may read them."""
    file = Path(path)
    if not make_private_file(file) and file.is_file():
        warn_of_readers(file)
    return file.open("a", encoding="utf-8")


def line_of(record: HookRecord) -> str:
    """Return a record as JSON text; what JSON cannot express is named by its type, never raised."""
    told: dict[str, Any] = {"event_type": str(record.kind), "hook": record.hook}
    try:
        told = record.wire()
        return _dump_json(told)
    except BaseException as error:
        if ends_process(error):
            raise
        unsaid = {name: f"<{type(error).__name__}>" for name in VALUES if name in told}
        return _dump_json(told | (unsaid or {"unserialisable": f"<{type(error).__name__}>"}))


def _dump_json(told: dict[str, Any]) -> str:
    return json.dumps(told, allow_nan=False, default=str, separators=(",", ":"))
