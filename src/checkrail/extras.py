"""Packages that only some need: asked for when first used."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from checkrail.engine.errors import CheckrailError


class MissingExtraError(CheckrailError, ImportError):
    """A package is not installed that an extra of Checkrail brings."""


@contextmanager
def needs(package: str, what: str, extra: str) -> Iterator[None]:
    """Import something inside: if it is not there, the error says what to install."""
    try:
        yield
    except ImportError:
        message = f'{what} needs {package}: pip install "checkrail[{extra}]"'
        raise MissingExtraError(message) from None
