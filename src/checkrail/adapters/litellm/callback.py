"""The callback of a LiteLLM proxy: its hooks from files, and LiteLLM's class beneath."""

from __future__ import annotations

import atexit
import functools
import importlib
import logging
import os
from contextlib import ExitStack
from typing import Any

from checkrail.adapters.litellm.seams import SEAMS, Seams
from checkrail.config.hook_files import find_gateway_files
from checkrail.engine.extras import MissingExtraError
from checkrail.gateway.opening import OpenGateway

log = logging.getLogger("checkrail.litellm")

HOOKS = "CHECKRAIL_HOOKS"
"""The variable that names the file of hooks."""


@functools.cache
def made() -> Any:
    """Make the callback, once in a process. Raises `ConfigError` if its hooks cannot be loaded."""
    hooks = OpenGateway(find_gateway_files(hooks=os.environ.get(HOOKS) or None))
    open_things = ExitStack()
    open_things.enter_context(hooks.counting())
    atexit.register(open_things.close)
    files = ", ".join(str(loaded.file) for loaded in hooks.loaded)
    log.info("%d hooks of %s hold in this proxy", len(hooks.registry.list()), files)
    return callback_of(hooks)


def callback_of(hooks: OpenGateway) -> Any:
    """Give a callback that LiteLLM takes, for these hooks.

    LiteLLM looks for what a callback can do in its class alone, and not in those beneath.
    """
    try:
        logger = importlib.import_module("litellm.integrations.custom_logger").CustomLogger
    except ImportError:
        told = 'this callback is for a LiteLLM proxy: pip install "litellm[proxy]"'
        raise MissingExtraError(told) from None
    own = {name: vars(Seams)[name] for name in SEAMS}
    return type("CheckrailCallback", (Seams, logger), own)(hooks)
