"""Errors of frameworks that speak for many providers, where any class may come up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from checkrail.agent.models.sdk_errors import ErrorAnswer, InvalidAnswer

GARBAGE = (ValueError, LookupError, TypeError, AttributeError)
"""What reading an answer raises that is not of the shape that was expected."""


def understood(error: Exception) -> Exception:
    """Return an error as failures of SDKs are told apart: by what can be seen of it."""
    if getattr(error, "status_code", None) is not None or _is_misuse(error):
        return error
    if not isinstance(error, GARBAGE) or isinstance(error, InvalidAnswer):
        return error
    if error.args and isinstance(error.args[0], Mapping):
        return ErrorAnswer(error.args[0])
    return InvalidAnswer(f"{type(error).__name__}: {error}")


def _is_misuse(error: Exception) -> bool:
    unknown = isinstance(error, TypeError) and "keyword argument" in str(error)
    return unknown or isinstance(error, UnicodeEncodeError)


def beneath(error: Exception, framework: str, handled: BaseException | None) -> Exception:
    """Return the error that a framework wrapped, or its own if that says more.

    What it does not know it wraps as an error with status 500, although nobody answered that.
    `handled` is what was being handled when the framework was asked: Python puts it beneath too.
    """
    status = getattr(error, "status_code", None)
    wrapped = next((one for one in _chain(error, handled) if _says_more(one, framework)), None)
    if wrapped is None and status == 500 and "MidStream" not in type(error).__name__:
        return InvalidAnswer(str(error))
    if not isinstance(wrapped, Exception) or type(wrapped).__name__ == "HTTPStatusError":
        return error
    return wrapped


def _says_more(error: BaseException, framework: str) -> bool:
    return type(error) is not Exception and not type(error).__module__.startswith(framework)


def _chain(error: BaseException, end: BaseException | None) -> Iterator[BaseException]:
    one: BaseException | None = error
    while one is not None and one is not end:
        yield one
        one = one.__cause__ or one.__context__
