"""Hooks and agents from files: YAML 1.2, JSON and TOML, with every mistake told at once.

The names are imported when they are first used: a file without agents needs nothing of those.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from checkrail.config.agents import AgentConfig
    from checkrail.config.blueprints import load_blueprint, load_blueprint_hooks
    from checkrail.config.gateway import GatewayConfig
    from checkrail.config.imports import load_object
    from checkrail.config.loader import Loaded, load, load_text
    from checkrail.config.problems import ConfigError, Problem
    from checkrail.config.project import find_project, missing_files
    from checkrail.config.reload import Reloader
    from checkrail.config.server import ServerConfig
    from checkrail.config.settings import Settings

_HOMES = {
    "agents": ("AgentConfig",),
    "blueprints": ("load_blueprint", "load_blueprint_hooks"),
    "gateway": ("GatewayConfig",),
    "imports": ("load_object",),
    "loader": ("Loaded", "load", "load_text"),
    "problems": ("ConfigError", "Problem"),
    "project": ("find_project", "missing_files"),
    "reload": ("Reloader",),
    "server": ("ServerConfig",),
    "settings": ("Settings",),
}
_HOME = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}

__all__ = [
    "AgentConfig",
    "ConfigError",
    "GatewayConfig",
    "Loaded",
    "Problem",
    "Reloader",
    "ServerConfig",
    "Settings",
    "find_project",
    "load",
    "load_blueprint",
    "load_blueprint_hooks",
    "load_object",
    "load_text",
    "missing_files",
]


def __getattr__(name: str) -> Any:
    """Import a public name."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module(_HOME[name]), name)
    return found
