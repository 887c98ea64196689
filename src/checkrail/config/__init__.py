"""Hooks and agents from files: YAML 1.2, JSON and TOML, with every mistake told at once."""

from checkrail.config.agents import AgentConfig
from checkrail.config.loader import Loaded, load, load_blueprint_hooks, load_text
from checkrail.config.problems import ConfigError, Problem
from checkrail.config.reload import Reloader
from checkrail.config.settings import Settings

__all__ = [
    "AgentConfig",
    "ConfigError",
    "Loaded",
    "Problem",
    "Reloader",
    "Settings",
    "load",
    "load_blueprint_hooks",
    "load_text",
]
