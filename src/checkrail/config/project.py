"""Projects: which file of a folder the server starts from, and where its agents are."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

from checkrail.config.agent_keys import find_blueprint
from checkrail.config.problems import ConfigError, Problem

log = logging.getLogger("checkrail.config")

OWN_FILES = ("checkrail.yaml", "checkrail.yml", "checkrail.json", "checkrail.toml")
OTHER_FILES = ("langgraph.json", "aegra.json")
"""Files of other servers, read as they are."""

FOLDER = "agents"
SUFFIXES = frozenset({".yaml", ".yml", ".json"})
_OF_PROJECTS = frozenset({"agents", "graphs", "server", "database", "data_dir"})

_FOREIGN = re.compile(r"(langgraph|aegra)([._-].*)?\.json", re.IGNORECASE)


def is_foreign(file: Path) -> bool:
    """Return whether a file was written for another server."""
    return _FOREIGN.fullmatch(file.name) is not None


def agents_folder(file: Path | None, data: Any) -> Path | None:
    """Return where the agents of a project have files of their own, if the file is a project's.

    Other servers have other things in such a folder, and a file of hooks alone is no project.
    """
    if file is None or not isinstance(data, dict) or is_foreign(file):
        return None
    if find_blueprint(data) is not None:
        return None
    project = file.name in OWN_FILES or data.keys() & _OF_PROJECTS
    return file.parent / FOLDER if project else None


def blueprint_files(folder: Path | None) -> tuple[Path, ...]:
    """Return the files of agents in a folder, in order; hidden ones belong to editors."""
    if folder is None or not folder.is_dir():
        return ()
    found = (file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES)
    return tuple(sorted(file for file in found if file.name[0] != "." and not file.is_dir()))


def find_project(folder: str | Path = ".") -> Path:
    """Return the file that the server of a folder starts from, or raise how to make one."""
    folder = Path(folder)
    if folder.is_file():
        return folder
    found = [folder / name for name in (*OWN_FILES, *OTHER_FILES) if (folder / name).is_file()]
    if not found:
        expected = f"one of: {', '.join((*OWN_FILES, *OTHER_FILES))}"
        problem = "no project here" if folder.is_dir() else "there is no such folder"
        raise ConfigError(
            [Problem(str(folder), None, "", problem, expected, "to make one: checkrail init")]
        )
    if len(found) > 1:
        others = ", ".join(file.name for file in found[1:])
        log.warning("%s is used, and not %s beside it", found[0], others)
    return found[0]
