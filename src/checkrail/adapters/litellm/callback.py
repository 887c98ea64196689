"""The callback of a LiteLLM proxy: its hooks from files, and LiteLLM's class beneath."""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import logging
import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

from checkrail.adapters.litellm.proxy_hooks import SEAMS, ProxyHooks
from checkrail.adapters.litellm.synthetic_answers import ANSWERED
from checkrail.config.hook_files import find_gateway_files
from checkrail.engine.errors import CheckrailError
from checkrail.extras import MissingExtraError
from checkrail.gateway.startup import OpenGateway

log = logging.getLogger("checkrail.litellm")

HOOKS = "CHECKRAIL_HOOKS"
"""The variable that names the file of hooks."""

OLDEST, NEWEST = (1, 106), (1, 106)
"""The versions of LiteLLM that all of this was tried with."""


class UnknownLiteLLMError(CheckrailError):
    """A LiteLLM in which hooks would not hold."""


@functools.cache
def build_callback() -> Any:
    """Build the callback, once in a process. Raises `ConfigError` if its hooks cannot be loaded."""
    found = find_gateway_files(hooks=os.environ.get(HOOKS) or None)
    hooks = OpenGateway(found)
    open_things = ExitStack()
    with lock_startup(found.files[0]):
        open_things.enter_context(hooks.open_counters())
    atexit.register(open_things.close)
    files = ", ".join(str(loaded.file) for loaded in hooks.loaded)
    log.info("%d hooks of %s hold in this proxy", len(hooks.registry.list()), files)
    return callback_of(hooks)


@contextlib.contextmanager
def lock_startup(file: Path) -> Iterator[None]:
    """Let workers that start at once make their database one after the other."""
    with file.open("rb") as held:
        with contextlib.suppress(ImportError, OSError):  # where it cannot be locked, they try
            fcntl = importlib.import_module("fcntl")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def callback_of(hooks: OpenGateway) -> Any:
    """Return a callback that LiteLLM takes, for these hooks.

    LiteLLM looks for what a callback can do in its class alone, and not in those beneath.
    """
    try:
        logger = importlib.import_module("litellm.integrations.custom_logger").CustomLogger
    except ImportError:
        told = 'this callback is for a LiteLLM proxy: pip install "litellm[proxy]"'
        raise MissingExtraError(told) from None
    check_litellm(version("litellm"), logger, importlib.import_module("litellm.exceptions"))
    own = {name: vars(ProxyHooks)[name] for name in SEAMS}
    return type("CheckrailCallback", (ProxyHooks, logger), own)(hooks)


def check_litellm(installed: str, logger: type, exceptions: object) -> None:
    """Refuse a LiteLLM that is too old or lacks what hooks need, and warn of newer ones."""
    found = tuple(int(number) for number in re.findall(r"\d+", installed)[:2])
    lacking = [name for name in SEAMS if not hasattr(logger, name)]
    lacking += [] if hasattr(exceptions, ANSWERED) else [ANSWERED]
    if found < OLDEST or lacking:
        why = f"it lacks {', '.join(lacking)}" if lacking else "it is too old"
        raise UnknownLiteLLMError(
            f"hooks would not hold in LiteLLM {installed}: {why}. "
            f'Run: pip install "litellm[proxy]=={_version_text(NEWEST)}.*"'
        )
    if found > NEWEST:
        told = "LiteLLM %s is newer than %s, up to which hooks were tried: see that yours hold"
        log.warning(told, installed, _version_text(NEWEST))


def _version_text(numbers: tuple[int, ...]) -> str:
    return ".".join(str(number) for number in numbers)
