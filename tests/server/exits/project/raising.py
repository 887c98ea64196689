"""Code that raises what its run tells it to, in the place that its run names."""

import asyncio
import sys


class Own(BaseException):
    pass


def leave():
    sys.exit(3)


def interrupt():
    raise KeyboardInterrupt


def own():
    raise Own("no")


def cancel():
    raise asyncio.CancelledError


def close():
    raise GeneratorExit


WAYS = {
    "SystemExit": leave,
    "KeyboardInterrupt": interrupt,
    "Own": own,
    "CancelledError": cancel,
    "GeneratorExit": close,
}


def pass_by(place, given):
    """Raise, if this is the place."""
    if hasattr(given, "get") and given.get("place") == place:
        WAYS[given["way"]]()
