"""What a file says of the gateway: where models are, who may call, and what answers cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from checkrail.engine.matchers import Pattern

FORMATS = ("chat", "messages", "responses", "gemini", "bedrock", "vertex")
"""The APIs that the gateway speaks, by the names of their formats."""

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class UpstreamConfig:
    """An upstream of models, for one API.

    `models` are patterns of the names that it takes. Without a `key`, that of the caller is passed
    on. `retries` come before the first byte of an answer. Without a `provider`, it is the prefix of
    a model's name, as in groq/llama3, or else the upstream's name. With `strip_prefix`, a model
    that was taken by a pattern such as groq/* is asked for without that prefix. A `region` is one
    of AWS, where the address does not name it.
    """

    name: str
    format: str
    url: str
    models: tuple[Pattern, ...] = ("*",)
    key: str | None = field(default=None, repr=False)
    provider: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeout_seconds: float = 600.0
    connect_seconds: float = 10.0
    first_byte_seconds: float = 600.0
    retries: int = 2
    strip_prefix: bool = True
    region: str = ""


@dataclass(frozen=True, slots=True)
class PriceConfig:
    """What a million tokens cost in USD, for the models whose names fit a pattern.

    Without other prices, tokens that were read from a cache or put into one cost what input does.
    """

    model: Pattern
    input: float
    output: float
    cached: float | None = None
    cache_write: float | None = None


OPENAI = "https://api.openai.com/v1"
ANTHROPIC = "https://api.anthropic.com"
GEMINI = "https://generativelanguage.googleapis.com"


def public_upstreams(
    openai: str = OPENAI, anthropic: str = ANTHROPIC, gemini: str = GEMINI
) -> tuple[UpstreamConfig, ...]:
    """Return OpenAI, Anthropic and Google, which get the keys of their callers."""
    return (
        UpstreamConfig("openai", "chat", openai, provider="openai"),
        UpstreamConfig("openai", "responses", openai, provider="openai"),
        UpstreamConfig("anthropic", "messages", anthropic, provider="anthropic"),
        UpstreamConfig("gemini", "gemini", gemini, provider="google"),
    )


@dataclass(frozen=True, slots=True)
class PassedPath:
    """What is passed on although no hook sees it: a path, a glob of paths, and perhaps a method."""

    path: str
    method: str | None = None

    def __str__(self) -> str:
        return f"{self.method} {self.path}" if self.method else self.path


@dataclass(frozen=True, slots=True)
class GatewayConfig:
    """The gateway's section of a file.

    `keys` are the gateway's own, by their names: with them, only callers who have one get through.
    Those that `approvers` names may see all calls and questions of a gateway that runs alone, and
    are the only ones to answer.
    `ask_seconds` is how long a caller waits at most while people are asked.
    `blocked_tool` says what becomes of a tool call that a hook blocked. `ask_usage` lets a stream
    tell what it used where a hook wants to know. `pass_through` says what is passed on that no hook
    sees: everything, nothing but the list of models, or some paths as well. Unless said, that is
    everything for callers of this machine, and nothing for those who need a key. `prices` are tried
    in their order.
    """

    upstreams: tuple[UpstreamConfig, ...] = public_upstreams()
    keys: Mapping[str, str] = field(default_factory=dict, repr=False)
    approvers: tuple[str, ...] = ()
    blocked_tool: Literal["continue", "text", "drop"] = "continue"
    keep_alive_seconds: float = 15.0
    ask_seconds: float = 270.0
    ask_usage: bool = True
    pass_through: bool | tuple[PassedPath, ...] | None = None
    body_bytes: int = 32 * MIB
    prices: tuple[PriceConfig, ...] = ()


NOT_SAID = GatewayConfig()
"""What holds where a file says nothing of a gateway."""
