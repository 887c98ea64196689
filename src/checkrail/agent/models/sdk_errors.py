"""What went wrong with an SDK or a framework of providers, told as a `ModelError`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from checkrail.agent.models.model import FailureKind, ModelError
from checkrail.llm.answer_errors import ErrorAnswer, InvalidAnswer, shorten_line

LATER = "Try again later"
CHANGE = "Change what it complains about: the messages, the tools or the params"

BY_STATUS = {
    401: "Check the API key: {key}",
    402: "Check the account's credit and limits",
    403: "Check that the API key may use this model",
    404: "Check the model's name and the base URL",
    408: LATER,
    413: "Send less: shorten the history or the tools' results",
    429: "Try again later, or raise the account's limits",
}

BY_KIND: dict[FailureKind, tuple[str, str]] = {
    "error": ("failed", "Change what it complains about: the request, or the model's options"),
    "timeout": ("took too long", "Raise `timeout`, or try again later"),
    "unreachable": ("could not be reached", "Check the base URL and the network, or try again"),
    "invalid": ("gave no valid answer", "Check that the base URL is that of such an API"),
}

BY_TYPE: dict[Any, FailureKind] = {
    "api_error": "unreachable",
    "internal_server_error": "unreachable",
    "overloaded_error": "unreachable",
    "rate_limit_error": "unreachable",
    "rate_limit_exceeded": "unreachable",
    "server_error": "unreachable",
    "service_unavailable": "unreachable",
    "timeout_error": "timeout",
}
"""An error in the middle of a stream has no status of its own, only a type or a code."""

# The SDKs come from one generator and httpx2 from httpx, so the same errors have the same names;
# those of httpx come through bare where an SDK does not wrap them, in the middle of a stream.
BY_CLASS: dict[str, FailureKind] = {
    "InvalidAnswer": "invalid",
    "APIResponseValidationError": "invalid",
    "DecodingError": "invalid",
    "LocalProtocolError": "error",
    "UnsupportedProtocol": "error",
    "JSONDecodeError": "invalid",
    "UnicodeDecodeError": "invalid",
    "APITimeoutError": "timeout",
    "TimeoutError": "timeout",
    "TimeoutException": "timeout",
    "APIConnectionError": "unreachable",
    "RequestError": "unreachable",
    "OSError": "unreachable",
    "EndOfStream": "unreachable",
}

BROKEN = frozenset(
    [
        *("CloseError", "ReadError", "RemoteProtocolError", "WriteError"),
        *("BrokenPipeError", "ConnectionAbortedError", "ConnectionResetError", "EndOfStream"),
        *("ClientPayloadError", "ServerDisconnectedError"),  # of aiohttp, which LiteLLM uses
        "UnfinishedAnswer",
    ],
)
"""What a connection raises that was there before, and a stream that it cut off."""

BROKEN_REMEDY = "Try again; if it keeps happening, check the network and any proxy on the way"


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The provider, model and key of a request, for the message of its failure.

    `key` says where its API key comes from, and `secrets` are what must never be told, although
    the provider or the connection may name them.
    """

    provider: str
    model: str
    key: str
    secrets: tuple[str, ...] = ()

    def to_model_error(
        self, error: Exception, usage: Mapping[str, Any] | None = None
    ) -> ModelError:
        """Return the `ModelError` for what an SDK, or the connection beneath it, raised."""
        body = _error_of(getattr(error, "body", None))
        status = _find_status(error, body)
        kind = _failure_kind(error, status, body)
        happened, remedy = BY_KIND[kind]
        if _is_dropped(error):
            happened, remedy = "broke off", BROKEN_REMEDY
        if status is not None:
            happened = f"answered {status}"
            remedy = BY_STATUS.get(status, CHANGE if status < 500 else LATER).format(key=self.key)
        elif body:
            happened, remedy = "reported an error", CHANGE if kind == "error" else LATER
        said = shorten_line(self._without_secrets(_error_text(error, body)))
        told = f"{self.provider} model {self.model!r} {happened}: {said}. {remedy}"
        return ModelError(told, kind=kind, status=status, usage=usage)

    def _without_secrets(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "***").replace(repr(secret)[1:-1], "***")
        return text


def _error_of(body: Any) -> Any:
    """Unwrap what a provider said; OpenAI's SDK does so itself, Anthropic's does not."""
    inner = body.get("error") if isinstance(body, Mapping) else None
    return inner or body


def _find_status(error: Exception, body: Any) -> int | None:
    code = body.get("code") if isinstance(body, Mapping) else None
    for status in (getattr(error, "status_code", None), code):
        if isinstance(status, int) and 400 <= status <= 599:
            return status
    return None


def _failure_kind(error: Exception, status: int | None, body: Any) -> FailureKind:
    if status is not None:
        if status == 408:
            return "timeout"
        return "unreachable" if status == 429 or status >= 500 else "error"
    if isinstance(body, Mapping):
        named = (BY_TYPE.get(body.get(name)) for name in ("type", "code"))
        return next((kind for kind in named if kind), "error")
    names = [*_class_names(_cause_of(error)), *_class_names(error)]
    kinds = (BY_CLASS.get(name) for name in names)
    return next((kind for kind in kinds if kind), "error")


def _is_dropped(error: BaseException) -> bool:
    """Return whether an open connection broke: SDKs and frameworks wrap the error."""
    link: BaseException | None = error
    while link is not None:
        names = _class_names(link)
        if "ConnectError" in names:
            return False
        if BROKEN.intersection(names):
            return True
        link = link.__cause__
    return False


def _class_names(error: BaseException) -> list[str]:
    return [found.__name__ for found in type(error).__mro__]


def _cause_of(error: Exception) -> BaseException:
    return error.__cause__ or error


def _error_text(error: Exception, body: Any) -> str:
    if isinstance(body, Mapping):
        words = (body.get(name) for name in ("message", "detail"))
        return next((word for word in words if isinstance(word, str) and word), str(body))
    if body:
        return str(body)
    beneath = _cause_of(error)
    return str(beneath) or type(beneath).__name__


GARBAGE = (ValueError, LookupError, TypeError, AttributeError)
"""What reading an answer raises that is not of the shape that was expected."""


def classify_error(error: Exception) -> Exception:
    """Return an error as one of ours where its class and text show what went wrong."""
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


def unwrap_error(error: Exception, framework: str, handled: BaseException | None) -> Exception:
    """Return the error that a framework wrapped, or its own if that is more specific.

    What it does not know it wraps as an error with status 500, although nobody answered that.
    `handled` is what was being handled when the framework was asked: Python puts it beneath too.
    """
    status = getattr(error, "status_code", None)
    wrapped = next(
        (one for one in _iter_causes(error, handled) if _says_more(one, framework)), None
    )
    if wrapped is None and status == 500 and "MidStream" not in type(error).__name__:
        return InvalidAnswer(str(error))
    if not isinstance(wrapped, Exception) or type(wrapped).__name__ == "HTTPStatusError":
        return error
    return wrapped


def _says_more(error: BaseException, framework: str) -> bool:
    return type(error) is not Exception and not type(error).__module__.startswith(framework)


def _iter_causes(error: BaseException, end: BaseException | None) -> Iterator[BaseException]:
    one: BaseException | None = error
    while one is not None and one is not end:
        yield one
        one = one.__cause__ or one.__context__
