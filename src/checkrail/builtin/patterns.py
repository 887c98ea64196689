"""What is not for everybody's eyes: how secrets, e-mail addresses and card numbers look.

Every pattern takes a time that grows with the text and no faster: what repeats is bounded,
possessive, or cannot begin inside itself. No group is possessive, only what takes one character:
with a possessive group, `re` loses its place in the text until Python 3.11.5.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping

from checkrail.regex import compile_pattern

_INLINE = 16_000
_PORTION = 64_000
_OVERLAP = 16_000
_CUT = 200

LABEL = "[redacted:{kind}]"

Scrub = Callable[[str], str]


def _many(group: str) -> str:
    """Repeat what has one way only to match, also very often, without going back."""
    # Each repeat of a group takes memory until it ends, or until the atomic group around it does.
    return rf"(?>(?:{group}){{1,99}})*"


_KEYS = (
    r"sk-(?<![A-Za-z0-9]sk-)(?:(?:ant|proj|svcacct|admin|or)-[\w-]{16,}+|[A-Za-z0-9]{20,}+)",
    r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}+",  # Stripe
    r"whsec_[A-Za-z0-9+/=]{16,}+",
    r"A(?<![A-Za-z0-9]A)(?:KIA|SIA)[0-9A-Z]{16}(?![0-9A-Za-z])",  # AWS
    r"AIza[\w-]{35}",  # Google
    r"ya29\.[\w-]{20,}+",
    r"gh[oprsu]_[A-Za-z0-9]{30,}+",  # GitHub
    r"github_pat_\w{22,}+",
    r"glpat-[\w-]{20,}+",  # GitLab
    r"xox[abeoprs]-[A-Za-z0-9-]{10,}+",  # Slack
    r"xapp-[A-Za-z0-9-]{10,}+",
    r"hooks\.slack\.com/services/[\w/]{20,}+",
    r"hf_(?<![A-Za-z0-9]hf_)[A-Za-z0-9]{30,}+",  # Hugging Face
    r"gsk_[A-Za-z0-9]{30,}+",  # Groq
    r"npm_[A-Za-z0-9]{36}",
    r"pypi-[\w-]{50,}+",
    r"SG\.[\w-]{16,}+\.[\w-]{16,}+",  # SendGrid
    r"eyJ(?<![\w-]eyJ)[\w-]{5,}+\.[\w-]{5,}+(?:\.[\w-]*+){1,3}",  # JSON Web Token
)
_KIND = r"(?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_GAP = r"\s*+" + _many(r"\\[nr]\s*+")
_BODY = _many(r"[A-Za-z0-9+/=\s]++|\\[nr]")
_CUT_OFF = _many(_GAP + r"[A-Za-z0-9+/=]{16,}+")
_PEM = (
    rf"-----BEGIN {_KIND}(?:{_GAP}[A-Za-z-]{{1,30}}: [^\r\n\\]{{0,200}}+){{0,5}}"
    rf"(?:{_BODY}-----END {_KIND}|{_CUT_OFF})"
)
_SET = r"[\w.~+/=-]"
_BEARER = (
    r"(?P<keep_scheme>\b[Bb](?i:earer)\s{1,4})"
    rf"(?:(?=[A-Za-z.~+/=_-]{{0,64}}[0-9]){_SET}{{8,}}+|{_SET}{{20,}}+)"
)
_HEADER = (
    r"(?P<keep_header>[Aa](?i:uthorization)(?:\\?[\"'])?\s{0,4}[:=]\s{0,4}(?:\\?[\"'])?"
    rf"(?i:basic|bearer|token)\s{{1,4}}){_SET}{{6,}}+"
)
_URL = r"(?P<keep_url>://[^\s/:@\"'<>\[]{0,64}+:)[^\s/@\"'<>]{1,256}+(?=@)"

# Each begins with a set of one letter's cases: what begins otherwise is passed over quickly.
_NAMES = (
    r"[Aa](?i:(?:ccess|pi|uth)[_-]?(?:key|token))"
    r"|[Bb](?i:(?:earer|ot)[_-]?token)"
    r"|[Ee](?i:ncryption[_-]?key)"
    r"|[Ii](?i:d[_-]?token)"
    r"|[Pp](?i:ass(?:word|wd|phrase)|rivate[_-]?key)"
    r"|[Pp](?i:wd(?<![a-z_]pwd)(?=\s?=\s?[^\s/~]))"  # PWD is also where a shell stands
    r"|[Rr](?i:efresh[_-]?token)"
    r"|[Ss](?i:ecret[_-]?(?:key|token)|ecrets?|igning[_-]?key|e(?:curity|ssion)[_-]?token)"
    # Tokens that only say where to go on, or that a tokenizer made, are no secrets.
    r"|[Tt](?i:oken(?<![a-z0-9]token)(?<!page[_-]token)(?<!next[_-]token)(?<!sync[_-]token)"
    r"(?<!tion[_-]token)(?<!cursor[_-]token)(?<![be]os[_-]token)(?<!pad[_-]token)"
    r"(?<!stop[_-]token))"
)
_PLACEHOLDER = (
    r"\$\{|\{\{|\$[A-Z_][A-Z0-9_]*+(?!\w)"
    r"|(?i:args|config|env|kwargs|os|process|request|self|settings|this)\."
    r"|(?i:bool|boolean|false|int|nil|none|null|str|string|true|undefined)(?![\w-])"
)
_BARE = r"[^\s\"'`,;&<>(){}\[\]|\\]"
_QUOTED = r"(?=(?:(?!(?P=quote))(?:\\.?+|[^\r\n\\])){4})" + _many(
    r"(?!(?P=quote))(?:\\.?+|[\"']|[^\r\n\\\"']++)"
)
_GIVEN = r"\s{0,4}(?:=>|:=|[:=])\s{0,4}"
_UNQUOTED = rf"(?!(?P=name)(?!\w)|\w[\w.]{{0,64}}+[(\[]|{_PLACEHOLDER})"
_ASSIGNED = (
    rf"(?P<keep_name>(?P<name>{_NAMES})(?:\\?[\"'])?(?:"
    rf"{_GIVEN}(?P<quote>\\?[\"'])(?!{_PLACEHOLDER})"
    rf"|=(?={_BARE}{{4}}){_UNQUOTED}"
    # With space around it, it may be prose: only what looks like no word is taken.
    rf"|{_GIVEN}(?={_BARE}{{16}}|(?={_BARE}{{6}})(?:(?![0-9]){_BARE}){{0,40}}[0-9]){_UNQUOTED}"
    rf"))(?(quote){_QUOTED}|{_BARE}++)"
)

PATTERNS: dict[str, re.Pattern[str]] = {
    "secrets": re.compile("|".join((*_KEYS, _PEM, _URL, _BEARER, _HEADER, _ASSIGNED)), re.ASCII),
    "email": re.compile(
        r"(?<![\w.%+-])(?!git@)[\w.%+-]{1,64}+@(?!\dx\.)"
        r"(?:[^\W_](?:[\w-]{0,62}[^\W_])?\.){1,8}(?:xn--[\w-]{0,58}[^\W_]|[^\W\d_]{2,24})",
    ),
    "card": re.compile(
        r"(?<![0-9])(?:[2-6][0-9]{3}([ .-])[0-9]{4}\1[0-9]{4}\1[0-9]{4}(?:\1[0-9]{1,3})?"
        r"|3[0-9]{3}[ .-][0-9]{6}[ .-][0-9]{4,5}|[2-6][0-9]{12,18})(?![0-9])",
    ),
}
"""How each kind looks. A group `keep_...` is what leads up to a secret and may stay; a card number
also has to be of a known make and pass Luhn's check. `scrub` minds both."""

_SECRET_NAME = re.compile(rf"(?:{_NAMES})\Z", re.ASCII)
_PLACEHOLDERS = re.compile(_PLACEHOLDER, re.ASCII)
_MAKES = re.compile(
    r"4(?:[0-9]{12}|[0-9]{15}|[0-9]{18})"  # Visa
    r"|(?:5[1-5][0-9]{2}|222[1-9]|22[3-9][0-9]|2[3-6][0-9]{2}|27[01][0-9]|2720)[0-9]{12}"
    r"|3[47][0-9]{13}"  # American Express
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}"  # Diners Club
    r"|(?:6[0-9]|35|5[06-8])[0-9]{14,17}",  # Discover, UnionPay, JCB, Maestro
)
_DOUBLED = {str(digit): sum(divmod(2 * digit, 10)) for digit in range(10)}


def is_secret(name: str, text: str) -> bool:
    """Return whether a text is a secret because of the name that a mapping gives it."""
    named = _SECRET_NAME.search(name) is not None
    return named and len(text) >= 4 and not _PLACEHOLDERS.match(text)


def scrub(text: str, kinds: Iterable[str] = tuple(PATTERNS), label: str = LABEL) -> str:
    """Give a text with what is not for everybody's eyes taken out."""
    return scrubber(kinds, {}, label)(text)


def scrubber(kinds: Iterable[str], patterns: Mapping[str, str], label: str = LABEL) -> Scrub:
    """Make a function that takes these kinds, and patterns of one's own, out of a text."""
    steps = [_step(kind, label.replace("{kind}", kind)) for kind in kinds]
    for name, given in patterns.items():
        own = functools.partial(compile_pattern(given).sub, label.replace("{kind}", name))
        steps.append(own)

    def scrubbed(text: str) -> str:
        for step in steps:
            text = step(text)
        return text

    return scrubbed


def inline_characters(patterns: Iterable[str], label: str) -> int:
    """Return how much text may be searched while everybody waits.

    A pattern also searches the labels of those before it, and each find takes its time.
    """
    sizes = [compile_pattern(given).size for given in patterns]
    if not sizes:
        return _INLINE
    return _INLINE // (4 + sum(sizes) // 100) // (1 + len(label) * (len(sizes) - 1))


def _step(kind: str, label: str) -> Scrub:
    pattern = PATTERNS[kind]
    if kind == "card":
        return lambda text: without_cards(text, label)
    if kind == "secrets":
        return lambda text: _without(pattern, lambda found: _kept(found) + label, text)
    return lambda text: _without(pattern, lambda _: label, text)


def _without(pattern: re.Pattern[str], label: Callable[[re.Match[str]], str], text: str) -> str:
    """Put labels over all matches in a text; a long one is searched by portions.

    No other thread runs while `re` searches, so it is not to search for long.
    """
    if len(text) <= _PORTION:
        return pattern.sub(label, text)
    done, end = [], 0
    for found in _found(pattern, text):
        done += [text[end : found.start()], label(found)]
        end = found.end()
    return "".join([*done, text[end:]])


def _found(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Yield the matches in a long text; one that reaches over its portion is found whole."""
    at, size = 0, len(text)
    while at < size:
        end = min(at + _PORTION, size)
        seen = min(end + _OVERLAP, size)
        after = end
        for found in pattern.finditer(text, at, seen):
            if found.start() >= end:
                break
            whole = (seen < size and pattern.match(text, found.start())) or found
            yield whole
            after = max(end, whole.end())
            if whole.end() != found.end():
                break
        at = after


def _kept(found: re.Match[str]) -> str:
    return found[found.lastgroup] if found.lastgroup else ""


def without_cards(text: str, label: str) -> str:
    """Take out card numbers: of a card's length and make-up, and with the right check digit."""
    search, done, start = PATTERNS["card"].search, [], 0
    at = 0
    while at < len(text):
        portion = at + _PORTION
        found = search(text, at, portion + _CUT)
        if found is None or found.start() >= portion:
            at = portion
            continue
        end = _card_end(found)
        at = end or found.start() + 1
        if end:
            done += [text[start : found.start()], label]
            start = end
    return "".join([*done, text[start:]]) if done else text


def _card_end(found: re.Match[str]) -> int:
    """Find where the card number ends; what looks like its last group may be something else."""
    whole = found[0]
    for number in (whole, whole[:19] if found[1] else ""):
        if is_card(number):
            return found.start() + len(number)
    return 0


def is_card(number: str) -> bool:
    """Return whether this is a card number: of a known make and length, with its check digit."""
    digits = re.sub("[ .-]", "", number)
    if _MAKES.fullmatch(digits) is None:
        return False
    doubled = sum(map(_DOUBLED.__getitem__, digits[-2::-2]))
    return (doubled + sum(map(int, digits[::-2]))) % 10 == 0
