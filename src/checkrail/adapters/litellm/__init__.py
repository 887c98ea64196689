"""Hooks in a LiteLLM proxy, as a callback that its config.yaml names.

`callback` is made when it is first asked for, so that nothing here needs LiteLLM before. If its
hooks cannot be loaded, asking for it raises, and the proxy does not start.
"""

from __future__ import annotations

from typing import Any

__all__ = ["callback"]

callback: Any


def __getattr__(name: str) -> Any:
    if name != "callback":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from checkrail.adapters.litellm.callback import build_callback

    return build_callback()
