"""Models of agents: one of a provider by its name, a script to answer from, or an object."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from checkrail.config.environment import Environment
from checkrail.config.problems import Report, Where, describe_value
from checkrail.config.script import parse_script
from checkrail.config.value_checks import (
    Check,
    WordCheck,
    accept_any,
    check_secret,
    count,
    mapping,
    read_members,
    seconds,
    text,
)
from checkrail.engine.errors import suggestion
from checkrail.engine.values import AssistantMessage

PROVIDERS = ("openai", "anthropic", "litellm")
SCRIPTED = "scripted"
PROTOCOL = ("name", "provider", "params", "complete", "stream")
"""What an object has that can be asked as a model."""

_FILE = re.compile(r"\.{0,2}/.*|.*\.py:[\w.]+")
_MODULE = re.compile(r"[\w.]+:[\w.]+")
_PLACE = re.compile(r"//|:/|https?(?![a-z0-9])|[\\%?#\s\0-\x1f\x7f]", re.IGNORECASE)
_READ_FROM_NAMES = frozenset(
    {"custom", "custom_openai", "litellm_proxy", "oobabooga", "petals", "vllm"}
)
"""Providers of LiteLLM that are told in a model's name where to send it, or what to load here."""
_ON_THIS_MACHINE = {
    "docker_model_runner": "http://localhost:22088",
    "langflow": "http://localhost:7860",
    "langgraph": "http://localhost:2024",
    "lemonade": "http://localhost:8000",
    "llamafile": "http://127.0.0.1:8080",
    "ollama": "http://localhost:11434",
    "ollama_chat": "http://localhost:11434",
    "ragflow": "http://localhost:9380",
    "xinference": "http://127.0.0.1:9997",
}
"""Where LiteLLM looks for providers unless a variable of the environment says where they are."""
_LEAST_SECRET = 8
"""A shorter key is no secret, and taking it out would tear messages apart."""

EXPECTED = "provider/name, ./file.py:model, or a mapping"

Import = Callable[[str, Where], Sequence[Any]]
"""Imports what a reference names: one thing, or none, which is reported."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """The model that an agent calls, as `label` shows it.

    `given` is an object that is the model; else `name` is that of one of `provider`, which
    `options` are for, or a script's, with its `replies`.
    """

    label: str
    provider: str = ""
    name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    replies: tuple[str | AssistantMessage, ...] = field(default=(), repr=False)
    given: Any = field(default=None, repr=False)


CONNECTION: dict[str, Check] = {
    "base_url": text,
    "api_key": check_secret,
    "timeout": seconds,
    "max_retries": count,
}

MODEL_KEYS: dict[str, Check] = {
    "provider": WordCheck((*PROVIDERS, SCRIPTED)),
    "model": text,
    **CONNECTION,
    "params": mapping,
    "replies": accept_any,
}
_TAKEN = frozenset({*MODEL_KEYS, "client", "name"}) - {"replies"}


class ModelReader:
    """Reads the models of one file; what is wrong with them is reported."""

    def __init__(self, report: Report, environment: Environment, imported: Import) -> None:
        self.report = report
        self.environment = environment
        self.imported = imported

    def read(self, given: Any, where: Where) -> ModelConfig | None:
        """Read a model, or report why not."""
        if isinstance(given, str) and given.strip():
            return self._read_name(given, where)
        if not isinstance(given, dict):
            self.report.add(where, f"found {describe_value(given)}", EXPECTED)
            return None
        before = len(self.report.problems)
        said = read_members(given, MODEL_KEYS, where, self.report)
        said = {key: self._expand_value(key, value, (*where, key)) for key, value in said.items()}
        if len(self.report.problems) > before:
            return None
        if said.get("provider") == SCRIPTED or ("replies" in said and "provider" not in said):
            return self._read_script(said, where)
        return self._read_mapping(said, where)

    def _expand_value(self, key: str, value: Any, where: Where) -> Any:
        found = self.environment.expand(value, where)
        if key == "api_key" and found is value and len(value) >= _LEAST_SECRET:
            self.report.secrets[value] = "(the api_key)"
        return found

    def _read_name(self, given: str, where: Where) -> ModelConfig | None:
        before = len(self.report.problems)
        name = self.environment.expand(given, where)
        if len(self.report.problems) > before:
            return None
        if is_import(name):
            objects = [item for item in self.imported(name, where) if self._is_model(item, where)]
            return ModelConfig(given, given=objects[0]) if objects else None
        provider, model = self._split_name(name, where)
        return ModelConfig(given, provider, model) if model else None

    def _is_model(self, found: Any, where: Where) -> bool:
        """Return whether an object can be called as a model."""
        if isinstance(found, type):
            told = f"the class {found.__name__}"
            self.report.add(where, told, "an object", "make one of it there")
            return False
        missing = [name for name in PROTOCOL if not hasattr(found, name)]
        if missing:
            told = f"an object that is no model: it has no {', '.join(missing)}"
            self.report.add(where, told, "an object with " + ", ".join(PROTOCOL))
        return not missing

    def _split_name(self, name: str, where: Where) -> tuple[str, str]:
        """Split provider/name; if that fails, there is no name."""
        provider, _, model = name.partition("/")
        if not model:
            hint = f"write openai/{provider}, if it is OpenAI's"
            self.report.add(
                where, f"found {describe_value(name)}, which names no provider", EXPECTED, hint
            )
        elif provider not in PROVIDERS:
            near = suggestion(provider, PROVIDERS).strip(" ()")
            hint = near or f"LiteLLM knows more: litellm/{name}"
            expected = f"one of: {', '.join(PROVIDERS)}"
            self.report.add(where, f"unknown provider {provider!r}", expected, hint)
            return "", ""
        return provider, model

    def _read_mapping(self, said: Mapping[str, Any], where: Where) -> ModelConfig | None:
        before = len(self.report.problems)
        provider, name = said.get("provider", ""), said.get("model", "")
        if "replies" in said:
            self.report.add((*where, "replies"), "replies of a provider", "provider: scripted")
        for key in said.get("params", {}):
            if key in _TAKEN:
                hint = f"write `{key}` beside `params`" if key in MODEL_KEYS else ""
                self.report.add((*where, "params", key), f"`{key}` among `params`", "", hint)
        if not name:
            self.report.add(where, "`model` is missing", "the name of a model")
        elif not provider:
            provider, name = self._split_name(name, (*where, "model"))
        if len(self.report.problems) > before:
            return None
        written = getattr(said["model"], "written", said["model"])
        label = f"{said['provider']}/{written}" if "provider" in said else written
        options = {key: said[key] for key in CONNECTION if key in said} | said.get("params", {})
        return ModelConfig(label, provider, name, options)

    def _read_script(self, said: Mapping[str, Any], where: Where) -> ModelConfig | None:
        before = len(self.report.problems)
        for key in said.keys() - {"provider", "model", "replies"}:
            self.report.add((*where, key), f"`{key}` of a script", "`replies` alone")
        if "replies" not in said:
            self.report.add(where, "`replies` is missing", "a list of what the model is to say")
        replies = parse_script(said.get("replies"), (*where, "replies"), self.report)
        if len(self.report.problems) > before:
            return None
        return ModelConfig(SCRIPTED, SCRIPTED, said.get("model", SCRIPTED), replies=replies)


def can_redirect(provider: str, name: str) -> bool:
    """Return whether a model's name may say where to send the request, and the key with it."""
    if provider != "litellm":
        return False
    return _PLACE.search(name) is not None or name.partition("/")[0].lower() in _READ_FROM_NAMES


def local_address(provider: str, name: str) -> str | None:
    """Return where on this machine a model without a configured address is looked for."""
    whose = name.partition("/")[0].lower()
    if provider != "litellm" or os.environ.get(address_variable(name)):
        return None
    return _ON_THIS_MACHINE.get(whose)


def address_variable(name: str) -> str:
    """Return the variable that tells LiteLLM the address of a model's provider."""
    return f"{name.partition('/')[0].lower().removesuffix('_chat').upper()}_API_BASE"


def is_import(text: str) -> bool:
    """Return whether a text names something to import; names of models have colons too."""
    return bool(_FILE.fullmatch(text) or _MODULE.fullmatch(text))
