"""A call of a chat model, as one of its methods was given it."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from checkrail.adapters.langchain.guard import ModelNames
from checkrail.agent.models.langchain import model_field, provider_of

UNCHANGEABLE = "deployment_name"
"""A chat model that has one is bound to its model by the provider."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """One call: its model, its messages, and its arguments."""

    model: Any
    messages: Sequence[Any]
    options: Mapping[str, Any]
    name: str
    streams: bool
    requested: str | None = None

    @property
    def provider(self) -> str | None:
        """Whose model it is."""
        return provider_of(self.model)

    def model_names(self, answered: str | None = None) -> ModelNames:
        """Return the names of the model: as called, as before hooks, and as it answered."""
        told = {
            "model": self.name,
            "provider": self.provider,
            "requested_model": self.requested,
            "answered_model": None if answered == self.name else answered,
        }
        return {name: said for name, said in told.items() if said}

    def without_callbacks(self) -> ModelCall:
        """Return the call without the callbacks that would report pieces of its answer."""
        manager = self.options.get("run_manager")
        if manager is None:
            return self
        quiet = copy.copy(manager)
        quiet.handlers = []
        return replace(self, options={**self.options, "run_manager": quiet})

    def with_model_name(self, wanted: str) -> ModelCall | None:
        """Return the call with another model of the same provider, or None if it is fixed."""
        renamed = replace(self, name=wanted, requested=self.requested or self.name)
        if isinstance(self.options.get("model"), str):
            return replace(renamed, options={**self.options, "model": wanted})
        field = model_field(self.model)
        if field is None or getattr(self.model, UNCHANGEABLE, None):
            return None
        return replace(renamed, model=self.model.model_copy(update={field: wanted}))


def name_of(model: Any, options: Mapping[str, Any]) -> str:
    """Return the name of the model that is called."""
    named = options.get("model")
    if isinstance(named, str):
        return named
    field = model_field(model)
    return str(getattr(model, field)) if field else type(model).__name__


def read_arguments(
    args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Read the messages and the options of a call, however they were passed."""
    named = dict(zip(("messages", "stop", "run_manager"), args, strict=False)) | kwargs
    return named.pop("messages", ()), named
