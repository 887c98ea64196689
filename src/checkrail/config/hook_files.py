"""Which files the gateway goes by: a file of hooks, a project's file, or both."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from checkrail.config.problems import ConfigError, Problem
from checkrail.config.project import OTHER_FILES, OWN_FILES, find_project

HOOK_FILES = ("hooks.yaml", "hooks.yml")


@dataclass(frozen=True, slots=True)
class GatewayFiles:
    """The files whose hooks are used; the gateway's section is that of the first."""

    files: tuple[Path, ...]

    @property
    def settings_file(self) -> Path:
        """The file that the gateway's section is read from."""
        return self.files[0]


def find_gateway_files(
    config: str | Path | None = None, hooks: str | Path | None = None
) -> GatewayFiles:
    """Return the files that were named, or else those that are found; raise how to make one.

    Looked for are a file of hooks, here and then in the user's own folder, and a project's file
    here. If there are both, the hooks of both hold: nobody's rules are left out silently.
    """
    if config is not None or hooks is not None:
        named = [find_project(config)] if config is not None else []
        return GatewayFiles((*named, *([Path(hooks)] if hooks is not None else [])))
    here = Path()
    found = [here / name for name in (*OWN_FILES, *OTHER_FILES) if (here / name).is_file()][:1]
    looked = [folder / name for folder in (here, user_folder()) for name in HOOK_FILES]
    found += [file for file in looked if file.is_file()][:1]
    if not found:
        expected = f"{HOOK_FILES[0]}, {user_folder() / HOOK_FILES[0]} or {OWN_FILES[0]}"
        hint = "name one with --hooks; a file that says hooks: {} has none"
        raise ConfigError([Problem(".", None, "", "no hooks here", expected, hint)])
    return GatewayFiles(tuple(found))


def user_folder() -> Path:
    """Return the folder of the user's own files."""
    home = os.environ.get("XDG_CONFIG_HOME", "").strip()
    return (Path(home) if home else Path.home() / ".config") / "checkrail"
