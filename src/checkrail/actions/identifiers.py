"""Where a CEL expression uses which names: the library tells the names, but not the places."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?P<space> \s+ | //[^\n]* )
    | (?P<raw> [bB]?[rR][bB]? (?: \"{3}.*?\"{3} | '{3}.*?'{3} | "[^"\n]*" | '[^'\n]*' ) )
    | (?P<text> [bB]? (?: \"{3}(?:\\.|.)*?\"{3} | '{3}(?:\\.|.)*?'{3}
                        | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' ) )
    | (?P<number> \d\w*(?:\.\d\w*)? )
    | (?P<name> [A-Za-z_]\w* )
    | (?P<sign> [=!<>]= | && | \|\| | . )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_KEY = re.compile(r"""(?P<quote>['"])(?P<key>[^'"\\]+)(?P=quote)""")
_WORDS = frozenset({"true", "false", "null", "in"})
_MACROS = frozenset({"all", "exists", "exists_one", "filter", "map"})


@dataclass(frozen=True, slots=True)
class Use:
    """One place where an expression reads a name, and what it takes of it.

    `member` is the field in `name.member` or `name["member"]`; `call` says that it is called.
    `sought` is what is looked for in it, and in what of it: `("'x'", "a.b")` for `'x' in a.b`.
    """

    name: str
    line: int
    column: int
    member: str | None = None
    call: bool = False
    sought: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """One word or sign of an expression."""

    kind: str
    text: str
    start: int


_END = Token("end", "", 0)


def tokens(text: str) -> list[Token]:
    """Take an expression apart; spaces and comments are left out."""
    return [
        Token(found.lastgroup or "", found.group(), found.start())
        for found in _TOKEN.finditer(text)
        if found.lastgroup != "space"
    ]


def uses(text: str) -> Iterator[Use]:
    """Find the names that an expression reads from outside, each time that it does.

    Names that `list.all(x, …)` and its kin bring in are their own, inside their parentheses.
    """
    found = [*tokens(text), _END, _END, _END]
    own: list[str | None] = []
    for index, token in enumerate(found[:-3]):
        before = found[index - 1] if index else _END
        if token.text == "(":
            own.append(_brought(found, index))
        elif token.text == ")" and own:
            own.pop()
        elif _is_read(token, before, found[index + 1]) and token.text not in own:
            yield _use(text, found, index)


def _is_read(token: Token, before: Token, after: Token) -> bool:
    return (
        token.kind == "name"
        and token.text not in _WORDS
        and before.text != "."
        and after.text != "("
    )


def _brought(found: list[Token], index: int) -> str | None:
    """Give the name that a macro's opening parenthesis brings in."""
    is_macro = index >= 2 and found[index - 1].text in _MACROS and found[index - 2].text == "."
    name, comma = found[index + 1 : index + 3]
    return name.text if is_macro and name.kind == "name" and comma.text == "," else None


def _use(text: str, found: list[Token], index: int) -> Use:
    token, dot, member, after = found[index : index + 4]
    line = text.count("\n", 0, token.start) + 1
    column = token.start - text.rfind("\n", 0, token.start)
    sought = _sought(found, index)
    if dot.text == "." and member.kind == "name":
        return Use(token.text, line, column, member.text, after.text == "(", sought)
    if dot.text == "[" and after.text == "]" and (key := _KEY.fullmatch(member.text)):
        return Use(token.text, line, column, key["key"], sought=sought)
    return Use(token.text, line, column, sought=sought)


def _sought(found: list[Token], index: int) -> tuple[str, str] | None:
    """Find what is looked for in what, where both are simple."""
    if not index or found[index - 1].text != "in":
        return None
    what, where = _chain(found[: index - 1][::-1]), _chain(found[index:])
    goes_on = found[index + len(where)].text in ("[", "(")
    if not what or not where or goes_on:
        return None
    return "".join(what[::-1]), "".join(where)


def _chain(found: list[Token]) -> list[str]:
    """Take the names with dots between them that come first, or a text or number; all or none."""
    chain: list[str] = []
    for token in found:
        is_name = token.kind == "name" and token.text not in _WORDS
        literal = not chain and token.kind in ("raw", "text", "number")
        if not (token.text == "." if len(chain) % 2 else is_name or literal):
            break
        chain.append(token.text)
    return chain if len(chain) % 2 else []
