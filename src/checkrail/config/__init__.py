"""Hooks from files: YAML 1.2, JSON and TOML under one schema, with every mistake told at once."""

from checkrail.config.loader import Loaded, load, load_blueprint_hooks, load_text
from checkrail.config.problems import ConfigError, Problem
from checkrail.config.reload import Reloader
from checkrail.config.settings import Settings

__all__ = [
    "ConfigError",
    "Loaded",
    "Problem",
    "Reloader",
    "Settings",
    "load",
    "load_blueprint_hooks",
    "load_text",
]
