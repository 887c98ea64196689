"""Hooks and agents from files: YAML 1.2, JSON and TOML, with every mistake told at once."""

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
