"""A real LiteLLM proxy, started as its users start it, with the callback in its config."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.gateway.dialects import PROXIED
from tests.gateway.provider import Provider

PATIENCE = 240
"""Seconds that a proxy may take to start on a busy machine; it needs about one minute."""

MODELS = {
    "chat": "gpt-test",
    "responses": "gpt-test",
    "messages": "claude-test",
    "chat-2": "gpt-other",
    "responses-2": "gpt-other",
    "messages-2": "claude-other",
}

FALLS = "gpt-falls"
"""A model that LiteLLM asks another one instead of, if it fails."""

FALLS_FAR = "gpt-falls-far"
"""One that it asks a model of another provider instead of."""


def config_for(provider: Provider, **settings: Any) -> dict[str, Any]:
    """Write a config.yaml whose models are all at one provider."""
    models = []
    for name in sorted({*MODELS.values(), FALLS, FALLS_FAR}):
        openai = name.startswith("gpt")
        params = {
            "model": f"{'openai' if openai else 'anthropic'}/{name}",
            "api_base": f"{provider.url}/v1" if openai else provider.url,
            "api_key": "sk-of-the-upstream",
        }
        models.append({"model_name": name, "litellm_params": params})
    local = {"model": "hosted_vllm/local", "api_base": f"{provider.url}/v1", "api_key": "none"}
    models.append({"model_name": "local", "litellm_params": local})
    return {
        "model_list": models,
        "litellm_settings": {"num_retries": 0, "telemetry": False, **settings},
        "router_settings": {
            "disable_cooldowns": True,
            "fallbacks": [{FALLS: ["gpt-test"]}, {FALLS_FAR: ["local"]}],
        },
    }


class Proxy:
    """A process of the proxy; what it says is in `log`."""

    def __init__(self, folder: Path, config: dict[str, Any], **environment: str) -> None:
        self.log = folder / "log" / "proxy.log"
        self.log.parent.mkdir()
        self.key = f"sk-{secrets.token_hex(32)}"
        file = folder / "config.yaml"
        file.write_text(json.dumps(config))  # JSON is YAML
        with socket.create_server(("127.0.0.1", 0)) as found:
            port = found.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        command = Path(sys.executable).with_name("litellm")
        known = {"LITELLM_MASTER_KEY": self.key, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                [command, "--config", file, "--host", "127.0.0.1", "--port", str(port)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                cwd=folder,
                env={**os.environ, **known, **environment},
            )

    def told(self) -> str:
        """Give what it said."""
        return self.log.read_text(errors="replace")

    def wait(self) -> bool:
        """Wait until it answers, or has ended: then it says False."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            if self.process.poll() is not None:
                return False
            try:
                with urllib.request.urlopen(f"{self.url}/health/liveliness", timeout=5):
                    return True
            except (urllib.error.URLError, TimeoutError):
                time.sleep(0.2)
        raise AssertionError(f"no proxy yet: {self.told()[-3000:]}")

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(30)


@contextlib.contextmanager
def started(folder: Path, config: dict[str, Any], **environment: str) -> Iterator[Proxy]:
    """Start a proxy, and stop it at the end."""
    proxy = Proxy(folder, config, **environment)
    try:
        yield proxy
    finally:
        proxy.stop()


assert PROXIED.keys() <= MODELS.keys()
