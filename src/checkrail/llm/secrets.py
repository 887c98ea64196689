"""Secrets in texts: known formats of tokens, and what is assigned to telling names.

A format is known by its first letters; what follows has to look as if it came by chance, or has
the right checksum. Beside a telling name, a value is a secret if it is no placeholder and no name
of something else. Every search takes a time that grows with the text and no faster.
"""

from __future__ import annotations

import math
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import chain

from checkrail.turns import Steps

_PORTION = 64_000

Mask = Callable[[str], str]
"""Returns what stands in place of what was found."""

Span = tuple[int, int]
"""Where a secret begins and ends, without what leads up to it."""


def _repeat_group(group: str) -> str:
    """Repeat what has one way only to match, also very often, without going back."""
    # Each repeat of a group takes memory until it ends, or until the atomic group around it does.
    return rf"(?>(?:{group}){{1,99}})*"


_TOKENS = (
    *(r"sk-(?:ant|proj|svcacct|admin|or|lf)-[\w-]{16,}", r"sk-[A-Za-z0-9]{20,}"),  # models
    *(r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}", r"sk_[0-9a-f]{40,}", r"whsec_[A-Za-z0-9]{16,}"),
    r"A(?:KIA|SIA|BIA|CCA)[0-9A-Z]{16}(?![0-9A-Za-z])",  # AWS
    *(r"AIza[\w-]{35}", r"ya29\.[\w-]{20,}", r"GOCSPX-[\w-]{20,}"),  # Google
    *(r"gh[oprsu]_[A-Za-z0-9]{30,}", r"github_pat_\w{22,}"),
    *(r"gl(?:pat|dt|rt|ptt|ft|imt|agent|soat|oas|cbt)-[\w.-]{20,}", r"GR1348941[\w-]{20,}"),
    *(r"xox[abeoprs]-[A-Za-z0-9-]{10,}", r"xapp-[A-Za-z0-9-]{10,}", r"xoxe\.xox[bp]-[\w-]{20,}"),
    *(r"hf_[A-Za-z0-9]{30,}", r"api_org_[A-Za-z0-9]{30,}", r"gsk_[A-Za-z0-9]{30,}"),
    *(r"xai-[A-Za-z0-9]{40,}", r"r8_[A-Za-z0-9]{30,}", r"pplx-[A-Za-z0-9]{40,}"),
    *(r"fw_[A-Za-z0-9]{20,}", r"tgp_v1_[\w-]{30,}", r"nvapi-[\w-]{40,}", r"csk-[a-z0-9]{40,}"),
    *(r"pcsk_\w{40,}", r"tvly-[\w-]{20,}", r"lsv2_(?:pt|sk)_\w{32,}", r"jina_\w{40,}"),
    *(r"e2b_[0-9a-f]{40}", r"fc-[0-9a-f]{32}", r"pa-[\w-]{40,}", r"re_[A-Za-z0-9]{8}_\w{20,}"),
    *(r"npm_[A-Za-z0-9]{36}", r"pypi-[\w-]{50,}", r"rubygems_[0-9a-f]{48}", r"oy2[a-z0-9]{43}"),
    *(r"cio[A-Za-z0-9]{32}(?!\w)", r"CLOJARS_[a-z0-9]{60}", r"dckr_[op]at_[\w-]{27,}"),
    *(r"SG\.[\w-]{16,}\.[\w-]{16,}", r"key-[0-9a-f]{32}(?!\w)", r"xkeysib-[0-9a-f]{64}"),
    *(r"SK[0-9a-f]{32}(?!\w)", r"sq0(?:atp|csp|idp)-[\w-]{22,}", r"EAAA[\w-]{60}"),
    *(r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}", r"shippo_(?:live|test)_[0-9a-f]{40}"),
    *(r"rzp_(?:live|test)_\w{14,}", r"FLWSECK(?:_TEST)?-[\w-]{12,}", r"EZ[AT]K[A-Za-z0-9]{54}"),
    *(r"access-(?:sandbox|production|development)-[0-9a-f-]{36}", r"xnd_\w{10,}"),
    *(r"do[opr]_v1_[0-9a-f]{64}", r"HRKU-[\w-]{36,}", r"nfp_\w{36,}", r"rnd_\w{28,}"),
    *(r"sbp_[0-9a-f]{40}", r"sb_secret_[\w-]{20,}", r"napi_\w{40,}", r"pscale_[a-z]+_[\w.-]{32,}"),
    *(r"fo1_[\w-]{43}", r"LTAI[A-Za-z0-9]{16,20}(?!\w)", r"AKID[A-Za-z0-9]{32}(?!\w)"),
    *(r"lin_(?:api|oauth)_\w{40,}", r"ntn_\w{40,}", r"secret_[A-Za-z0-9]{43}", r"figd_[\w-]{40,}"),
    *(r"AT(?:ATT|CTT)3[\w=-]{60,}", r"ATBB\w{28,}", r"pat[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    *(r"pat-(?:na|eu)\d-[0-9a-f-]{36}", r"PMAK-[0-9a-f]{24}-[0-9a-f]{34}", r"tfp_[\w.-]{40,}"),
    *(
        r"dapi[0-9a-f]{32}(?!\w)",
        r"hv[bsr]\.[\w-]{24,}",
        r"pul-[0-9a-f]{40}",
        r"ops_eyJ[\w-]{100,}",
    ),
    *(r"dp\.(?:pt|st|ct|sa|scim|audit)\.[\w.-]{30,}", r"dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    *(r"glsa_\w{32,}", r"NR(?:AK|JS|II|RA)-[\w-]{27,}", r"sntry[su]_[\w=]{40,}"),
    *(r"ph[xs]_\w{40,}", r"bkua_[0-9a-f]{40}", r"CCIP(?:AT|RJ)_\w{20,}", r"sq[apu]_[0-9a-f]{40}"),
    *(r"sdk-[0-9a-f]{8}-[0-9a-f-]{27}", r"api-[0-9a-f]{8}-[0-9a-f-]{27}", r"CFPAT-[\w-]{43}"),
    *(r"duffel_(?:live|test)_[\w-]{43}", r"fio-u-[\w-]{64}", r"pnu_\w{36}", r"rdme_\w{60,}"),
    *(r"y0_[\w-]{40,}", r"AQVN[\w-]{35,}", r"AKCp\w{69}", r"p8e-[a-z0-9]{32}", r"zpka_\w{30,}"),
    *(r"tk-us-[\w-]{48}", r"AGE-SECRET-KEY-1[A-Z0-9]{58}", r"sha256~[\w-]{43}"),
    *(r"live_[0-9a-f]{35}(?!\w)", r"wandb_v1_\w{40,}", r"vc[pcirk]_\w{24,}", r"ddp_\w{36}"),
    r"eyJ[\w-]{5,}\.[\w-]{5,}(?:\.[\w-]*){1,3}",  # JSON Web Token
)
"""How tokens look, each beginning with two letters that are its own."""

_ANYWHERE = (
    r"[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}",  # Terraform
    r"[0-9a-f]{32}-us\d{1,2}",  # Mailchimp
    r"[MNO][\w-]{23,25}\.[\w-]{6}\.[\w-]{27,38}",  # Discord
    r"\w{3}[78]Q~[\w.~-]{31,34}",  # Microsoft
)
"""How tokens look that begin in any way."""

_ODD_MARKS = re.compile(r"[.~]|-us")
_STARTS = re.compile(r"(?<=[_.~-])[A-Za-z0-9]{2}")
_RUN = re.compile(r"[\w.~-]{16,}+", re.ASCII)
_LONGEST_LOOK = 8192
_JUDGED = 256
_LOOKS = 500
"""How far a token is looked for, by how much of it it is judged, and after how many looks others
have their turn."""

_CHECKED = re.compile(r"(?:gh[oprsu]|npm)_([A-Za-z0-9]{30})([A-Za-z0-9]{6})")
_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _by_first_letters() -> dict[str, re.Pattern[str]]:
    """Return the formats of tokens by the two letters that they can begin with."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for pattern in _TOKENS:
        for head in _heads(pattern):
            found[head].append(pattern)
    return {head: re.compile("|".join(each), re.ASCII) for head, each in found.items()}


def _heads(pattern: str) -> Iterator[str]:
    """Yield the two letters that a format can begin with: a letter each, a set, or a choice."""
    if pattern.startswith("["):
        first, _, rest = pattern[1:].partition("]")
    else:
        first, rest = pattern[0], pattern[1:]
    seconds = [rest[0]]
    if rest.startswith("(?:"):
        seconds = [choice[0] for choice in rest[3 : rest.index(")")].split("|")]
    for one in first:
        yield from (one + second for second in seconds)


_FORMATS = _by_first_letters()
_ODD_FORMATS = re.compile("|".join(_ANYWHERE), re.ASCII)

_KIND = r"(?:[A-Z0-9]{1,20} ){0,4}PRIVATE KEY(?: BLOCK)?-----"
_GAP = r"\s*+" + _repeat_group(r"\\[nr]\s*+")
_BODY = _repeat_group(r"[A-Za-z0-9+/=\s]++|\\[nr]")
_LINE = _GAP + r"[A-Za-z0-9+/=]{16,}+"
_CUT_OFF = _LINE + _repeat_group(_LINE)  # a header alone is no key
_PEM = (
    rf"-----BEGIN {_KIND}(?:{_GAP}[A-Za-z-]{{1,30}}: [^\r\n\\]{{0,200}}+){{0,5}}"
    rf"(?:{_BODY}-----END {_KIND}|{_CUT_OFF})"
)

_SET = r"[\w.~+/=-]"
_HINTED = {
    "bearer": re.compile(
        r"(?P<keep>[Bb](?i:earer)\s{1,4})"
        rf"(?:(?=[A-Za-z.~+/=_-]{{0,64}}[0-9]){_SET}{{8,}}+|{_SET}{{20,}}+)",
        re.ASCII,
    ),
    "authorization": re.compile(
        r"(?P<keep>[Aa](?i:uthorization)(?:\\?[\"'])?\s{0,4}[:=]\s{0,4}(?:\\?[\"'])?"
        rf"(?i:basic|bearer|token)\s{{1,4}}){_SET}{{6,}}+",
        re.ASCII,
    ),
    "://": re.compile(r"(?P<keep>://[^\s/:@\"'<>\[]{0,64}+:)[^\s/@\"'<>]{1,256}+(?=@)"),
    "accountkey=": re.compile(r"(?P<keep>(?i:accountkey)=)[A-Za-z0-9+/]{40,}+={0,2}"),
    "absk": re.compile(r"ABSK[A-Za-z0-9+/]{40,}+={0,2}"),
    "glc_": re.compile(r"glc_[A-Za-z0-9+/]{32,}+={0,2}"),
    "hooks.slack.com": re.compile(r"hooks\.slack\.com/services/[\w/]{20,}+", re.ASCII),
    "/api/webhooks/": re.compile(r"/api/webhooks/\d{10,}/[\w-]{40,}+", re.ASCII),
    "1//0": re.compile(r"1//0[\w-]{30,}+", re.ASCII),
    ":aa": re.compile(r":AA[\w-]{33}(?!\w)", re.ASCII),
    "-----begin": re.compile(_PEM),
}
"""What stands around secrets, and how they look there; `keep` is what leads up to one."""

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
_QUOTED = r"(?=(?:(?!(?P=quote))(?:\\.?+|[^\r\n\\])){4})" + _repeat_group(
    r"(?!(?P=quote))(?:\\.?+|[\"']|[^\r\n\\\"']++)"
)
_GIVEN = r"\s{0,4}(?:=>|:=|[:=])\s{0,4}"
_UNQUOTED = rf"(?!(?P=name)(?!\w)|\w[\w.]{{0,64}}+[(\[]|{_PLACEHOLDER})"
_ASSIGNED = re.compile(
    rf"(?P<keep>(?P<name>{_NAMES})(?:\\?[\"'])?(?:"
    rf"{_GIVEN}(?P<quote>\\?[\"'])(?!{_PLACEHOLDER})"
    rf"|=(?={_BARE}{{4}}){_UNQUOTED}"
    # With space around it, it may be prose: only what looks like no word is taken.
    rf"|{_GIVEN}(?={_BARE}{{16}}|(?={_BARE}{{6}})(?:(?![0-9]){_BARE}){{0,40}}[0-9]){_UNQUOTED}"
    rf"))(?(quote){_QUOTED}|{_BARE}++)",
    re.ASCII,
)
_NAME_ENDS = ("key", "token", "passw", "passphrase", "secret", "pwd")
"""What is in every telling name, near to its end."""

_NAME = re.compile(_NAMES, re.ASCII)
_LONGEST_NAME = 16
_SECRET_NAME = re.compile(rf"(?:{_NAMES})\Z", re.ASCII)
_PLACEHOLDERS = re.compile(_PLACEHOLDER, re.ASCII)

_DUMMY = re.compile(
    r"[Ee]xample|(?i:sample|placeholder|dummy|your[_-]|change[_-]?me|redacted|masked|xxxx)"
    r"|deadbeef|\*\*\*|\.\.\.|(\w)\1{5}|(?i:abcdefgh)|123456789[0a]"
)
"""What stands where a secret is to be put in."""

_TEMPLATE = re.compile(r"%\(?\w*\)?[sdr]\b|\$?\{[^{}]*\}|<[\w -]+>|\$\(|\{\{")
_OF_PASSWORD = re.compile(r"(?i:pass|pwd)")
_NAMED = re.compile(r"[A-Za-z_][A-Za-z]*[0-9]{0,2}(?:[._:/ -][A-Za-z]*[0-9]{0,2})*[.!?…]?")
"""Names, words and sentences, also with a short number to each word.

Each round takes one sign: with several there would be as many ways to take them as subsets.
"""

_WORD_AND_NUMBER = re.compile(r"[A-Za-z]+[0-9]{1,8}[!?.]?")
_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", re.ASCII)
_BETWEEN = re.compile(r"%[0-9A-Fa-f]{2}|[_-]")
_TYPE_NAME = re.compile(r"(?:[A-Z][a-z]+|[A-Z]{2,}|[0-9]{1,5})+")
_PAGE = re.compile(r"https?://[\w%~+]{0,20}(?:[./:#,;-][\w%~+]{0,20})*\Z", re.ASCII)
"""Addresses in which nothing is so long that it may be a secret, without a query or a user."""

_AFTER_TEXT = re.compile(r"\s*(?:[,;:)\]}+%.]|\Z)")
"""What stands behind a text that has ended."""

_LINE_SEEN = 500
_IN_CODE = re.compile(r"[\[\](){}|^<>\\]|::|\s")


def is_secret(name: str, text: str) -> bool:
    """Return whether a text is a secret because of the name that a mapping gives it."""
    named = _SECRET_NAME.search(name) is not None
    return named and len(text) >= 4 and not _PLACEHOLDERS.match(text)


def mask_secrets(text: str, mask: Mask) -> Steps[str]:
    """Put a mask over every secret in a text."""
    spans = yield from find_secrets(text)
    if not spans:
        return text
    done, end = [], 0
    for start, stop in spans:
        done += [text[end:start], mask(text[start:stop])]
        end = stop
    return "".join([*done, text[end:]])


def find_secrets(text: str) -> Steps[list[Span]]:
    """Find the secrets in a text, in their order and without overlaps."""
    found: list[tuple[int, Span]] = []
    yield from _find_tokens(text, found)
    lower = _lower_case(text)
    for hint, pattern in _HINTED.items():
        yield None
        found += _find_hinted(text, lower, hint, pattern)
    reached = -1
    for end in _NAME_ENDS:
        yield None
        found += _find_assigned(text, lower, end)
    spans: list[Span] = []
    for begins, (start, stop) in sorted(found):
        if begins >= reached:
            spans.append((start, stop))
            reached = stop
    return spans


def _find_tokens(text: str, found: list[tuple[int, Span]]) -> Steps[None]:
    """Add the tokens of known formats, with where they begin."""
    at, size = 0, len(text)
    while at < size:
        end = min(at + _PORTION, size)
        for run in _RUN.finditer(text, at, end):
            start, stop = run.span()
            if stop == end < size:
                stop = _RUN.match(text, start).end()  # type: ignore[union-attr]
                end = stop
            token = yield from _find_token(text, start, stop)
            if token is not None:
                found.append((token[0], token))
        # A run that begins at the end of its portion and is too short there is seen in the next.
        at = end if end == size else max(at + 1, _start_of_run(text, end))
        yield None


def _start_of_run(text: str, end: int) -> int:
    start = end
    while start > end - 16 and (text[start - 1].isalnum() or text[start - 1] in "_.~-"):
        start -= 1
    return start if start > end - 16 else end


def _find_token(text: str, start: int, stop: int) -> Steps[Span | None]:
    """Find a token in a run: at its beginning, or behind a sign in it.

    Each place is looked at no further than `_LONGEST_LOOK`, and what was found there is judged by
    its beginning: a run may be a megabyte of what looks like tokens and is none.
    """
    if start and text[start - 1] == "\\" and text[start] in "nrt":
        start += 1
    starts = (found.start() for found in _STARTS.finditer(text, start + 1, stop))
    for number, at in enumerate(chain((start,), starts), 1):
        if number % _LOOKS == 0:
            yield None
        known = _FORMATS.get(text[at : at + 2])
        token = known.match(text, at, at + _LONGEST_LOOK) if known else None
        if known and token is not None and _is_token(token[0][:_JUDGED]):
            whole = known.match(text, at)
            return (whole or token).span()
    token = _ODD_MARKS.search(text, start, stop) and _ODD_FORMATS.search(text, start, stop)
    return token.span() if token is not None and _is_token(token[0]) else None


def _is_token(token: str) -> bool:
    """Return whether what has the form of a token can be one."""
    checked = _CHECKED.fullmatch(token)
    if checked and _checksum(checked[1]) == checked[2]:
        return True
    return not _DUMMY.search(token) and _looks_random(token)


def _checksum(text: str) -> str:
    """Return the checksum that GitHub and npm put at the end of their tokens."""
    number, digits = zlib.crc32(text.encode()), ""
    for _ in range(6):
        number, digit = divmod(number, 62)
        digits = _BASE62[digit] + digits
    return digits


def _looks_random(text: str) -> bool:
    """Return whether a text may be made by chance, and not of lower-case words."""
    digits = sum(map(str.isdigit, text))
    return (digits >= 2 or text.lower() != text) and _entropy(text) >= 3


def _entropy(text: str) -> float:
    """Return how many bits a character of a text carries."""
    size = len(text)
    return -sum(n / size * math.log2(n / size) for n in Counter(text).values())


def _lower_case(text: str) -> str:
    """Return a text of the same length in lower case."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text.replace("İ", "i").lower()


def _find_all(lower: str, what: str) -> Iterator[int]:
    at = lower.find(what)
    while at >= 0:
        yield at
        at = lower.find(what, at + 1)


def _find_hinted(
    text: str, lower: str, hint: str, pattern: re.Pattern[str]
) -> Iterator[tuple[int, Span]]:
    reached = -1
    for at in _find_all(lower, hint):
        found = pattern.match(text, at) if at >= reached else None
        if found is not None:
            start, reached = _value_span(found)
            if _is_hinted_value(text[start:reached]):
                yield at, (start, reached)


def _is_hinted_value(value: str) -> bool:
    return not (_DUMMY.search(value) or _TEMPLATE.search(value) or _is_word(value))


def _is_word(value: str) -> bool:
    """Return whether a value is a word that documentation has for a password."""
    letters = _BETWEEN.sub("", value)
    named = any(name in value.lower() for name in ("pass", "secret", "token"))
    return letters.isalpha() and (named or len(value) <= (8 if value.isalpha() else 16))


def _find_assigned(text: str, lower: str, end: str) -> Iterator[tuple[int, Span]]:
    reached = 0
    for at in _find_all(lower, end):
        if at < reached:
            continue
        names = _NAME.finditer(text, max(reached, at - _LONGEST_NAME), at + _LONGEST_NAME)
        tried = (_ASSIGNED.match(text, name.start()) for name in names)
        found = next(filter(None, tried), None)
        if found is not None:
            start, reached = _value_span(found)
            if _is_value(found, text[start:reached]):
                yield found.start(), (start, reached)


def _value_span(found: re.Match[str]) -> Span:
    keep = found.end("keep") if "keep" in found.re.groupindex else found.start()
    return keep, found.end()


def _is_value(found: re.Match[str], value: str) -> bool:
    """Return whether what is assigned to a telling name is a secret."""
    if _DUMMY.search(value) or _TEMPLATE.search(value):
        return False
    name = found["name"]
    if _follows_prompt(found, value):
        return False
    if not found["quote"] and name.isupper() and found["keep"].endswith("="):
        return not (value.isupper() or value.isdigit() or _is_word(value))  # a file of variables
    if _OF_PASSWORD.match(name):
        is_plain = value.replace("_", " ").replace("-", " ").replace(" ", "").isalpha()
        return not is_plain and (
            _WORD_AND_NUMBER.fullmatch(value) is not None or not _NAMED.fullmatch(value)
        )
    is_path = not found["quote"] and _PATH.fullmatch(value) is not None
    if is_path or _IN_CODE.search(value) or _NAMED.fullmatch(value) or _PAGE.match(value):
        return False
    if _repeats_name(name, value):
        return False
    return len(value) >= 8 and _looks_random_beside_hint(value)


def _follows_prompt(found: re.Match[str], value: str) -> bool:
    """Return whether a value stands behind a text that ends with the name: input("Password: ")."""
    if not found["quote"] or not _AFTER_TEXT.match(value):
        return False
    text, at = found.string, found.start("quote")
    first = max(0, at - _LINE_SEEN)
    line = max(first, text.rfind("\n", first, at) + 1)
    return text.count(found["quote"], line, at) % 2 == 1


def _repeats_name(name: str, value: str) -> bool:
    """Return whether a value is its name and a number, or a type that has the name in its own."""
    plain, said = (re.sub("[_-]", "", each.lower()) for each in (name, value))
    if plain not in said:
        return False
    is_numbered = said.removeprefix(plain).isdigit() and len(said) <= len(plain) + 3
    return is_numbered or _TYPE_NAME.fullmatch(value) is not None


def _looks_random_beside_hint(value: str) -> bool:
    has_letters = any(map(str.isalpha, value))
    return has_letters and any(map(str.isdigit, value)) and _entropy(value) >= 2.5
