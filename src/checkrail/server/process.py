"""One process of a server: what uvicorn is told, and what each worker builds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from checkrail.connections.http import HTTP_PROTOCOL
from checkrail.connections.websockets import WEBSOCKET_PROTOCOL
from checkrail.server import logs
from checkrail.server.app import Server
from checkrail.server.project import Project

FILE = "CHECKRAIL_CONFIG"
"""Tells worker processes which file to serve."""

OPTIONS: dict[str, Any] = {
    "log_config": None,
    "access_log": False,
    "server_header": False,
    "lifespan": "on",
    "timeout_graceful_shutdown": 3,
    "timeout_keep_alive": 75,  # longer than clients and load balancers keep a connection
    "http": HTTP_PROTOCOL,
    "ws": WEBSOCKET_PROTOCOL,
    "ws_max_size": 1024 * 1024,
}
"""What uvicorn is told in every case."""


def create() -> Server:
    """Make the server that the environment names; what uvicorn calls in each worker."""
    project = Project(Path(os.environ[FILE]))
    logs.configure_logging(project.loaded.server.log_level)
    return Server(project)
