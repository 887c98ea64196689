"""The key that placeholders are made with, in a file, so that they are the same after a restart."""

from __future__ import annotations

import logging
import os
import re
import tempfile
from pathlib import Path

from checkrail.private_files import make_private_folder

log = logging.getLogger("checkrail.gateway")

FILE = "placeholders.key"
SIZE = 32
_LINE = "CHECKRAIL_SECRET_KEY={}\n"
"""As redactions know a secret: an agent that reads the file in its folder is to read no key."""

_KEY = re.compile(rf"=([0-9a-f]{{{2 * SIZE}}})\s*\Z")


def load_key(folder: Path) -> bytes:
    """Return the key in a folder, which is made first if there is none.

    If it cannot be kept there, it is one for as long as this process lives, and the log says so.
    """
    try:
        return _read_key(folder / FILE) or _make_key(folder)
    except (OSError, ValueError) as error:
        told = (
            "the key for placeholders of secrets cannot be kept in %s: %s. "
            "A restart changes the placeholders"
        )
        log.warning(told, folder / FILE, error)
        return os.urandom(SIZE)


def _read_key(file: Path) -> bytes | None:
    try:
        found = _KEY.search(file.read_text(encoding="ascii"))
    except FileNotFoundError:
        return None
    if found is None:
        raise ValueError("there is no key in it: remove it, and a new one is made")
    return bytes.fromhex(found[1])


def _make_key(folder: Path) -> bytes:
    """Make a key, and return it, or that of another process that was quicker."""
    make_private_folder(folder)
    key = os.urandom(SIZE)
    with tempfile.NamedTemporaryFile("w", dir=folder, prefix=FILE) as written:  # is 0600
        written.write(_LINE.format(key.hex()))
        written.flush()
        try:
            os.link(written.name, folder / FILE)
        except FileExistsError:
            return _read_key(folder / FILE) or key
    return key
