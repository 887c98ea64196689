"""What stands for secrets in front of a model, and the secrets that it stands for.

A placeholder is made of a keyed digest of the secret, so it is the same each time, and nobody who
lacks the key can make one or try secrets until one fits. Each caller has a key and a vault of its
own: the placeholder of somebody else means nothing there.
"""

from __future__ import annotations

import dataclasses
import hmac
import json
import math
import re
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from checkrail.recent import RecentEntries

KEPT = 2_000
"""How many secrets of a caller are known at once."""

LONGEST = 100_000
"""How long a secret may be, in characters, that is to be put back."""

RESTORED = 100
"""How many texts of a caller are remembered with words in them that were secrets."""

CALLERS = 1_000
"""How many callers' secrets are known at once."""

WEIGHT = 32 * 1024 * 1024
"""How many characters all secrets may have together."""

_LETTERS = str.maketrans("0123456789abcdef", "bcdfghjklmnpqrst")
_DIGEST, _TAG = 12, 4
_PREFIX = "[redacted:"
PLACEHOLDER = re.compile(
    rf"\[redacted:[\w .-]{{1,40}}-([bcdfghjklmnpqrst]{{{_DIGEST}}})([bcdfghjklmnpqrst]{{{_TAG}}})\]"
)
"""How placeholders look: a digest of the secret, and a sign that the caller's key made it.

They have letters alone, so that nothing in one looks like a secret, a number or an address.
"""

_KINDS = {"secrets": "secret"}
_UNFIT = re.compile(r"[^\w .-]")

TOOLS, TEXT = "tools", "text"


@dataclass(frozen=True, slots=True)
class Secret:
    """A secret, where it may be put back, and the number under which the vault learned it."""

    text: str
    targets: frozenset[str]
    number: int


class Needle(NamedTuple):
    """A text to look for, what stands for it, and where it may be put back."""

    text: str
    placeholder: str
    targets: frozenset[str]


class SecretVault:
    """The secrets of one caller that were seen last; `targets` is where any may be put back."""

    def __init__(self, key: bytes, kept: int = KEPT) -> None:
        self.key = key
        self.version = 0
        self.weight = 0
        self.targets: frozenset[str] = frozenset()
        self._kept = kept
        self._secrets: OrderedDict[str, Secret] = OrderedDict()
        self._restored: RecentEntries[str] = RecentEntries(RESTORED)
        self._needles: dict[int, list[Needle]] = {}

    def placeholder_for(self, kind: str, text: str) -> str:
        """Return what stands for a secret."""
        digest = self._digest("secret", text, _DIGEST)
        name = _UNFIT.sub("_", _KINDS.get(kind, kind))[:40]
        return f"{_PREFIX}{name}-{digest}{self._digest('sign', digest, _TAG)}]"

    def learn(self, placeholder: str, text: str, targets: frozenset[str]) -> None:
        """Keep a secret that was found, or was found again."""
        known = self._secrets.get(placeholder)
        self.targets |= targets
        if known is None:
            if len(text) <= LONGEST:
                self._add(placeholder, text, targets)
            return
        self._secrets.move_to_end(placeholder)
        if not targets <= known.targets:
            more = dataclasses.replace(known, targets=known.targets | targets)
            self._secrets[placeholder] = more

    def _add(self, placeholder: str, text: str, targets: frozenset[str]) -> None:
        self.version += 1
        self._needles.clear()
        self._secrets[placeholder] = Secret(text, targets, self.version)
        self.weight += len(text)
        while len(self._secrets) > self._kept:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        _, secret = self._secrets.popitem(last=False)
        self.weight -= len(secret.text)

    def find(self, placeholder: str) -> Secret | None:
        """Return the secret that a placeholder stands for, if it is known."""
        return self._secrets.get(placeholder)

    def is_own(self, placeholder: str) -> bool:
        """Return whether a text is a placeholder of this caller, known or not."""
        found = PLACEHOLDER.fullmatch(placeholder)
        return found is not None and self._has_sign(found)

    def find_own(self, text: str) -> Iterator[re.Match[str]]:
        """Yield the placeholders of this caller in a text."""
        if _PREFIX in text:
            yield from filter(self._has_sign, PLACEHOLDER.finditer(text))

    def split(self, text: str) -> list[str]:
        """Return a text in pieces: every second one is a placeholder of this caller."""
        pieces, end = [], 0
        for found in self.find_own(text):
            pieces += [text[end : found.start()], found[0]]
            end = found.end()
        return [*pieces, text[end:]]

    def expand(self, text: str) -> str:
        """Return a text with the secrets that its placeholders stand for, as far as known."""
        pieces = self.split(text)
        for place in range(1, len(pieces), 2):
            secret = self.find(pieces[place])
            pieces[place] = pieces[place] if secret is None else secret.text
        return "".join(pieces)

    def needles_since(self, version: int) -> list[Needle]:
        """Return the texts to look for that were learned since, and what stands for them.

        One that JSON writes otherwise is looked for as it stands there too, as another secret.
        Long ones come first, for one may be a part of another.
        """
        if version not in self._needles:
            newer: dict[str, Needle] = {}
            for placeholder, secret in self._secrets.items():
                if secret.number > version and is_distinctive(secret.text):
                    newer[secret.text] = Needle(secret.text, placeholder, secret.targets)
                    for form in json_forms(secret.text):
                        name = self.placeholder_for("secrets", form)
                        newer.setdefault(form, Needle(form, name, secret.targets))
            found = sorted(newer.values(), key=lambda needle: (-len(needle.text), needle.text))
            self._needles[version] = found
        return self._needles[version]

    def note_restored(self, restored: str, text: str) -> None:
        """Remember what a text was before secrets were put back that nobody would find there."""
        if len(text) <= LONGEST:
            self._restored.put(self._digest("text", restored, 2 * _DIGEST), text)

    def find_restored(self, text: str) -> str | None:
        """Return what a text was before secrets were put back, if that was noted."""
        if not self._restored:
            return None
        found: str | None = self._restored.get(self._digest("text", text, 2 * _DIGEST))
        return found

    def _has_sign(self, found: re.Match[str]) -> bool:
        return hmac.compare_digest(self._digest("sign", found[1], _TAG), found[2])

    def _digest(self, what: str, text: str, letters: int) -> str:
        data = f"{what}\0{text}".encode(errors="surrogatepass")
        return hmac.digest(self.key, data, "sha256").hex()[:letters].translate(_LETTERS)


class SecretVaults:
    """The vaults of the callers that were here last; `load_key` brings the key of all of them."""

    def __init__(
        self, load_key: Callable[[], bytes], *, callers: int = CALLERS, weight: int = WEIGHT
    ) -> None:
        self._load_key = load_key
        self._key: bytes | None = None
        self._callers = callers
        self._most = weight
        self._vaults: OrderedDict[bytes, SecretVault] = OrderedDict()

    def open(self, caller: Iterable[str | None]) -> SecretVault:
        """Return the vault of a caller, who is told by all of these names together."""
        if self._key is None:
            self._key = self._load_key()
        named = json.dumps([*caller]).encode()
        key = hmac.digest(self._key, named, "sha256")
        vault = self._vaults.pop(key, None) or SecretVault(key)
        self._trim()
        self._vaults[key] = vault
        return vault

    def _trim(self) -> None:
        """Forget callers who were not here for the longest time."""
        weight = sum(vault.weight for vault in self._vaults.values())
        while self._vaults and (len(self._vaults) >= self._callers or weight > self._most):
            weight -= self._vaults.popitem(last=False)[1].weight


def escape_text(text: str) -> str:
    """Return a text as it stands within a text of JSON; half a letter only does in ASCII."""
    halves = any("\ud800" <= character <= "\udfff" for character in text)
    return json.dumps(text, ensure_ascii=halves)[1:-1]


def json_forms(text: str) -> set[str]:
    """Return how a text stands within texts of JSON: with characters escaped that need not be."""
    return {escape_text(text), json.dumps(text)[1:-1]}


def is_distinctive(text: str) -> bool:
    """Return whether a text can be looked for anywhere: it is no word and no small number."""
    if len(text) < 8:
        return False
    bits = sum(n * math.log2(len(text) / n) for n in Counter(text).values())
    return bits >= 20 and not text.replace(" ", "").isalpha()
