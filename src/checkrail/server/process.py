"""What uvicorn is told by every process of a server."""

from __future__ import annotations

from typing import Any

from checkrail.connections.http import HTTP_PROTOCOL
from checkrail.connections.websockets import WEBSOCKET_PROTOCOL

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
