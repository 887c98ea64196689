"""Secrets that were taken out of a request, put back into its answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from checkrail.engine.event import Event, dispatch_of, notes_of
from checkrail.engine.values import ToolCall
from checkrail.llm.json_strings import is_json_container
from checkrail.llm.secret_vault import (
    TEXT,
    TOOLS,
    SecretVault,
    escape_text,
    is_distinctive,
    json_forms,
)

RESTORER = "redact.restorer"
"""Under this name the notes of a piece of work hold its `Restorer`, where there is one."""


class Restorer:
    """Gives hooks the vault of one caller, and puts back what they took out of requests.

    It is used from the first hook on that asks for the vault and may change the request.
    """

    def __init__(self, open_vault: Callable[[], SecretVault]) -> None:
        self._open_vault = open_vault
        self._vault: SecretVault | None = None
        self.is_used = False

    @property
    def vault(self) -> SecretVault:
        """The caller's secrets."""
        if self._vault is None:
            self._vault = self._open_vault()
        return self._vault

    @property
    def restores_text(self) -> bool:
        """Whether any secret may be put back into a text."""
        return self.is_used and TEXT in self.vault.targets

    def restore_call(self, call: ToolCall, unparsed: str = "") -> RestoredCall:
        """Return a tool call with the secrets put back into its arguments.

        `unparsed` are arguments that are no JSON, into which nothing can be put back.
        """
        found = RestoredCall(self.vault, call)
        found.is_lost = found.is_lost or any(self._finds_secrets(unparsed))
        return found

    def _finds_secrets(self, text: str) -> list[str]:
        return [found[0] for found in self.vault.find_own(text)]

    def restore_content(self, content: Any) -> Any:
        """Return the content of an answer with the secrets put back into its texts."""
        if isinstance(content, str):
            return _Restoration(self.vault, TEXT).restore_text(content)
        return [self._restore_part(part) for part in content]

    def _restore_part(self, part: Any) -> Any:
        if isinstance(part, str):
            return self.restore_content(part)
        text = part.get("text") if isinstance(part, Mapping) else None
        if not isinstance(text, str):
            return part
        restored = self.restore_content(text)
        return part if restored == text else {**part, "text": restored}


def find_vault(event: Event[Any]) -> SecretVault | None:
    """Return the secrets of the caller, if what a hook takes out here can be put back."""
    restorer: Restorer | None = notes_of(event).get(RESTORER)
    if restorer is None:
        return None
    bound = dispatch_of(event).bound
    if bound is None or not bound.shadow:
        restorer.is_used = True
    return restorer.vault


class _Restoration:
    """Puts secrets back, and notes which ones, and whether some are not known any more."""

    def __init__(self, vault: SecretVault, target: str) -> None:
        self.secrets: dict[str, str] = {}
        self.is_lost = False
        self._vault = vault
        self._target = target

    def restore_value(self, value: Any) -> Any:
        """Return a value of JSON with the secrets put back; the same if there were none."""
        if isinstance(value, str):
            return self.restore_text(value)
        if isinstance(value, Mapping):
            pairs = {self.restore_text(str(k)): self.restore_value(v) for k, v in value.items()}
            return value if pairs == value else pairs
        if isinstance(value, list | tuple):
            items = [self.restore_value(item) for item in value]
            return value if items == [*value] else items
        return value

    def restore_text(self, text: str) -> str:
        """Return a text with the secrets put back; where it is JSON, it stays JSON."""
        pieces = self._vault.split(text)
        if len(pieces) == 1:
            return text
        restored = self._join(pieces, str)
        escapes = is_json_container(text) and not is_json_container(restored)
        if escapes:
            restored = self._join(pieces, escape_text)
        if restored != text and (escapes or not all(map(is_distinctive, self.secrets.values()))):
            self._vault.note_restored(restored, text)
        return restored

    def _join(self, pieces: Sequence[str], write: Callable[[str], str]) -> str:
        return "".join(
            self._find_secret(piece, write) if place % 2 else piece
            for place, piece in enumerate(pieces)
        )

    def _find_secret(self, placeholder: str, write: Callable[[str], str]) -> str:
        secret = self._vault.find(placeholder)
        if secret is None:
            self.is_lost = True
        if secret is None or self._target not in secret.targets:
            return placeholder
        self.secrets[placeholder] = secret.text
        return write(secret.text)


class RestoredCall:
    """A tool call with the secrets put back, and what conceals them from others.

    It `is_lost` if it has a placeholder of the caller whose secret is not known any more.
    """

    def __init__(self, vault: SecretVault, call: ToolCall) -> None:
        self._restoration = _Restoration(vault, TOOLS)
        self.call = self.restore(call)
        self.is_lost = self._restoration.is_lost

    @property
    def has_secrets(self) -> bool:
        """Whether anything was put back."""
        return bool(self._restoration.secrets)

    def restore(self, call: ToolCall) -> ToolCall:
        """Return a call with the secrets put back; the same if there were none."""
        args = self._restoration.restore_value(call.args)
        return call if args is call.args else dataclasses.replace(call, args=args)

    def conceal(self, value: Any) -> Any:
        """Return a value without the secrets that were put back."""
        if isinstance(value, str):
            return self._conceal_text(value)
        if isinstance(value, Mapping):
            return {self.conceal(key): self.conceal(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.conceal(item) for item in value]
        return value

    def conceal_call(self, call: ToolCall) -> ToolCall:
        """Return a call without the secrets that were put back."""
        return dataclasses.replace(call, args=self.conceal(call.args))

    def _conceal_text(self, text: str) -> str:
        known = self._restoration.secrets.items()
        forms = [(f, name) for name, secret in known for f in {secret, *json_forms(secret)}]
        for form, name in sorted(forms, key=lambda pair: -len(pair[0])):
            text = text.replace(form, name)
        return text
