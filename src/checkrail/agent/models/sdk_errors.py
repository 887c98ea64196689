"""What went wrong with an SDK, told as a `ModelError`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from checkrail.agent.models.model import FailureKind, ModelError

LONGEST = 300
"""How much is told of what a provider said, in characters."""

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


class InvalidAnswer(ValueError):
    """An answer is not of the shape that its API promises."""


class UnfinishedAnswer(InvalidAnswer):
    """An answer had begun, and its stream ended before it did."""


def missing_end(*, begun: bool) -> InvalidAnswer:
    """Return the error of a stream without its end; one that had not begun may be no answer."""
    kind = UnfinishedAnswer if begun else InvalidAnswer
    return kind("its stream ended before the answer did")


class ErrorAnswer(Exception):
    """A provider gave an error where an answer should be; `body` is what it said."""

    def __init__(self, body: Any) -> None:
        super().__init__("an error in place of an answer")
        self.body = body


@dataclass(frozen=True, slots=True)
class Asked:
    """Whom a request went to, which a failure is told with.

    `key` says where its API key comes from, and `secrets` are what must never be told, although
    the provider or the connection may name them.
    """

    provider: str
    model: str
    key: str
    secrets: tuple[str, ...] = ()

    def failure(self, error: Exception, usage: Mapping[str, Any] | None = None) -> ModelError:
        """Tell what an SDK, or the connection beneath it, raised."""
        body = _error_of(getattr(error, "body", None))
        status = _status(error, body)
        kind = _kind(error, status, body)
        happened, remedy = BY_KIND[kind]
        if _is_dropped(error):
            happened, remedy = "broke off", BROKEN_REMEDY
        if status is not None:
            happened = f"answered {status}"
            remedy = BY_STATUS.get(status, CHANGE if status < 500 else LATER).format(key=self.key)
        elif body:
            happened, remedy = "reported an error", CHANGE if kind == "error" else LATER
        said = shortened(self._without_secrets(_said(error, body)))
        told = f"{self.provider} model {self.model!r} {happened}: {said}. {remedy}"
        return ModelError(told, kind=kind, status=status, usage=usage)

    def _without_secrets(self, text: str) -> str:
        for secret in self.secrets:
            text = text.replace(secret, "***").replace(repr(secret)[1:-1], "***")
        return text


def shortened(text: str) -> str:
    """Return a text on one line, and no more of it than helps."""
    line = " ".join(text.split()).rstrip(".")
    return line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"


def _error_of(body: Any) -> Any:
    """Unwrap what a provider said; OpenAI's SDK does so itself, Anthropic's does not."""
    inner = body.get("error") if isinstance(body, Mapping) else None
    return inner or body


def _status(error: Exception, body: Any) -> int | None:
    code = body.get("code") if isinstance(body, Mapping) else None
    for status in (getattr(error, "status_code", None), code):
        if isinstance(status, int) and 400 <= status <= 599:
            return status
    return None


def _kind(error: Exception, status: int | None, body: Any) -> FailureKind:
    if status is not None:
        if status == 408:
            return "timeout"
        return "unreachable" if status == 429 or status >= 500 else "error"
    if isinstance(body, Mapping):
        named = (BY_TYPE.get(body.get(name)) for name in ("type", "code"))
        return next((kind for kind in named if kind), "error")
    names = [*_class_names(_beneath(error)), *_class_names(error)]
    kinds = (BY_CLASS.get(name) for name in names)
    return next((kind for kind in kinds if kind), "error")


def _is_dropped(error: BaseException) -> bool:
    """Return whether a connection was there, and broke: SDKs and frameworks wrap what says so."""
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


def _beneath(error: Exception) -> BaseException:
    return error.__cause__ or error


def _said(error: Exception, body: Any) -> str:
    if isinstance(body, Mapping):
        words = (body.get(name) for name in ("message", "detail"))
        return next((word for word in words if isinstance(word, str) and word), str(body))
    if body:
        return str(body)
    beneath = _beneath(error)
    return str(beneath) or type(beneath).__name__
