"""Files and folders that only their owner may read: they hold what users and models said."""

from __future__ import annotations

import contextlib
import logging
import os
import stat
from pathlib import Path

log = logging.getLogger("checkrail.files")

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_BESIDE_SQLITE = ("", "-wal", "-shm", "-journal")


def make_private_folder(folder: Path) -> None:
    """Make a folder for its owner alone; one that is there already is left as it is."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def make_private_file(file: Path) -> bool:
    """Make an empty file for its owner alone, and return whether it was not there before."""
    try:
        os.close(os.open(file, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    return True


def make_private_sqlite(file: Path) -> None:
    """See that a SQLite file, and what lies beside it, is for its owner alone.

    SQLite gives what it makes beside a file the rights of that file.
    """
    with contextlib.suppress(OSError):  # SQLite says why a file cannot be made
        if not make_private_file(file):
            for name in _BESIDE_SQLITE:
                _restrict_access(file.with_name(file.name + name))


def _restrict_access(file: Path) -> None:
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
        if not mode & _OTHERS:
            return
        file.chmod(mode & ~_OTHERS)
    except FileNotFoundError:
        return
    except OSError as error:
        told = "%s can be read by others, which cannot be changed: %s. Run chmod 600 as its owner"
        log.warning(told, file, error.strerror)
    else:
        log.warning("%s could be read by others (%o) and cannot any more", file, mode)


def warn_of_readers(file: Path) -> None:
    """Log that a file that somebody else made can be read by others."""
    mode = stat.S_IMODE(file.stat().st_mode)
    if mode & _OTHERS:
        log.warning("%s can be read by others (%o): chmod 600 it, if they should not", file, mode)
