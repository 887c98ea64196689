"""A gateway behind a real web server, on a free port, in a thread of its own."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn

from checkrail.cli.gateways import OPTIONS
from checkrail.config.gateway import GatewayConfig, UpstreamConfig
from checkrail.engine.registry import HookRegistry
from checkrail.gateway.app import gateway_app
from checkrail.gateway.door import Door, KeyDoor
from checkrail.gateway.exchange import Gateway
from checkrail.gateway.upstreams import Upstreams

from .provider import Provider

FORMATS = ("chat", "messages", "responses")


@contextlib.contextmanager
def serving(app: Any, http: str = OPTIONS["http"]) -> Iterator[str]:
    """Serve an app, by this implementation of HTTP; gives its address."""
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        running = uvicorn.Server(uvicorn.Config(app, **{**OPTIONS, "http": http}))
        thread = threading.Thread(target=running.run, args=([listener],), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            running.should_exit = True
            thread.join(20)


def upstreams_at(provider: Provider, name: str = "here", **more: Any) -> tuple[UpstreamConfig, ...]:
    """Give an upstream of every format."""
    more = {"retries": 0, **more}
    return tuple(UpstreamConfig(name, each, provider.url, **more) for each in FORMATS)


@contextlib.contextmanager
def gateway_at(
    *upstreams: UpstreamConfig,
    registry: HookRegistry | None = None,
    door: Door | None = None,
    wrap: Callable[[Any], Any] = lambda app: app,
    http: str = OPTIONS["http"],
    **settings: Any,
) -> Iterator[str]:
    """Serve a gateway to some upstreams; gives its address."""
    config = GatewayConfig(upstreams=upstreams, **settings)
    places = Upstreams(upstreams)
    gateway = Gateway(registry or HookRegistry(), places, config)
    if door is None and config.keys:
        door = KeyDoor(config.keys)
    app = gateway_app(gateway, places, door=door, body_bytes=config.body_bytes)
    with serving(wrap(app), http) as address:
        yield address
