"""Hooks and agents from files: YAML 1.2, JSON and TOML, with every mistake told at once.

The names are imported when they are first used: a file without agents needs nothing of those.
"""

from typing import TYPE_CHECKING

from checkrail.lazy import import_on_use

if TYPE_CHECKING:
    from checkrail.actions.outside import Outside
    from checkrail.config.agents import AgentConfig
    from checkrail.config.blueprints import load_blueprint, load_blueprint_hooks
    from checkrail.config.gateway import GatewayConfig
    from checkrail.config.imports import load_object
    from checkrail.config.loader import Loaded, load, load_text, missing_files
    from checkrail.config.problems import ConfigError, Problem
    from checkrail.config.project import find_project
    from checkrail.config.reload import Reloader
    from checkrail.config.server import ServerConfig
    from checkrail.config.settings import Settings

_HOMES = {
    "agents": ("AgentConfig",),
    "blueprints": ("load_blueprint", "load_blueprint_hooks"),
    "gateway": ("GatewayConfig",),
    "imports": ("load_object",),
    "loader": ("Loaded", "load", "load_text", "missing_files"),
    "problems": ("ConfigError", "Problem"),
    "project": ("find_project",),
    "reload": ("Reloader",),
    "server": ("ServerConfig",),
    "settings": ("Settings",),
}
_HOME = {name: f"{__name__}.{home}" for home, names in _HOMES.items() for name in names}
_HOME["Outside"] = "checkrail.actions.outside"

__all__ = [
    "AgentConfig",
    "ConfigError",
    "GatewayConfig",
    "Loaded",
    "Outside",
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

__getattr__ = import_on_use(__name__, _HOME)
