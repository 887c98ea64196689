"""A gateway behind a real web server, on a free port, in a thread of its own."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import uvicorn

from checkrail.cli.gateway_startup import OPTIONS
from checkrail.config.gateway import GatewayConfig, UpstreamConfig
from checkrail.engine.registry import HookRegistry
from checkrail.gateway.app import build_gateway_app
from checkrail.gateway.auth import Authenticator, KeyAuthenticator
from checkrail.gateway.call import Gateway
from checkrail.gateway.call_tracking import CallSink
from checkrail.gateway.upstreams import Upstreams

from .provider import Provider

CLOUDS = ("bedrock", "vertex")
FORMATS = ("chat", "messages", "responses", "gemini", *CLOUDS)


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
    """Give an upstream of every format; those of clouds have a key in any case."""
    more = {"retries": 0, **more}
    keyed = {"key": "not-a-real-key", **more}
    return tuple(
        UpstreamConfig(name, each, provider.url, **(keyed if each in CLOUDS else more))
        for each in FORMATS
    )


@contextlib.contextmanager
def gateway_at(
    *upstreams: UpstreamConfig,
    registry: HookRegistry | None = None,
    door: Authenticator | None = None,
    wrap: Callable[[Any], Any] = lambda app: app,
    http: str = OPTIONS["http"],
    call_sinks: Sequence[CallSink] = (),
    **settings: Any,
) -> Iterator[str]:
    """Serve a gateway to some upstreams; gives its address."""
    settings = {"blocked_tool": "text", **settings}  # one call of the model is one answer
    config = GatewayConfig(upstreams=upstreams, **settings)
    places = Upstreams(upstreams)
    gateway = Gateway(registry or HookRegistry(), places, config, call_sinks=call_sinks)
    if door is None and config.keys:
        door = KeyAuthenticator(config.keys)
    app = build_gateway_app(gateway, places, door=door, body_bytes=config.body_bytes)
    with serving(wrap(app), http) as address:
        yield address
