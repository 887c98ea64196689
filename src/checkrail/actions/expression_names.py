"""Where a CEL expression uses which names: the library tells the names, but not the places."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?P<space> \s+ | //[^\n]* )
    | (?P<raw> [bB]?[rR][bB]? (?: \"{3}.*?\"{3} | '{3}.*?'{3} | "[^"\n]*" | '[^'\n]*' ) )
    | (?P<text> [bB]? (?: \"{3}(?:\\.|[^\\])*?\"{3} | '{3}(?:\\.|[^\\])*?'{3}
                        | "(?:\\.|[^"\\\n])*" | '(?:\\.|[^'\\\n])*' ) )
    | (?P<number> \d\w*(?:\.\d\w*)? )
    | (?P<name> [A-Za-z_]\w* )
    | (?P<sign> [=!<>]= | && | \|\| | . )
    """,
    re.VERBOSE | re.DOTALL | re.ASCII,
)
_KEY = re.compile(r"""(?P<quote>['"])(?P<key>[^'"\\]+)(?P=quote)""")
_WORDS = frozenset({"true", "false", "null", "in"})
MACROS = frozenset({"all", "exists", "exists_one", "existsOne", "filter", "map"})


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


def tokenize_expression(text: str) -> list[Token]:
    """Take an expression apart; spaces and comments are left out."""
    return [
        Token(found.lastgroup or "", found.group(), found.start())
        for found in _TOKEN.finditer(text)
        if found.lastgroup != "space"
    ]


def find_uses(text: str) -> Iterator[Use]:
    """Find the names that an expression reads from outside, each time that it does.

    Names that `list.all(x, …)` and its kin bring in are their own, inside their parentheses.
    """
    found = [*tokenize_expression(text), _END, _END, _END]
    for index, own in _iter_scopes(found):
        before = found[index - 1] if index else _END
        token = found[index]
        if _is_read(token, before, found[index + 1]) and token.text not in own:
            yield _build_use(text, found, index)


def _iter_scopes(found: list[Token]) -> Iterator[tuple[int, list[str | None]]]:
    """Yield each place of an expression with the names that macros have brought in there."""
    own: list[str | None] = []
    for index, token in enumerate(found[:-3]):
        if token.text == "(":
            own.append(_macro_variable(found, index))
        elif token.text == ")" and own:
            own.pop()
        else:
            yield index, own


TEXT_FUNCTIONS = frozenset(
    {
        *("charAt", "contains", "endsWith", "indexOf", "lastIndexOf", "lowerAscii", "matches"),
        *("replace", "split", "startsWith", "substring", "trim", "upperAscii"),
    },
)
"""Functions of the language and its library that are for texts alone."""

LIBRARIES = frozenset({"base64", "lists", "math", "optional", "sets", "strings"})
"""What stands in front of functions that are neither the language's nor of a text."""


def is_index(found: list[Token], opening: int) -> bool:
    """Return whether a bracket takes an item of what stands before it, and begins no list."""
    return found[opening].text == "[" and opening > 0 and _is_operand(found[opening - 1])


def _is_operand(token: Token) -> bool:
    is_name = token.kind == "name" and token.text not in _WORDS
    return is_name or token.text in (")", "]", "}")


def _is_read(token: Token, before: Token, after: Token) -> bool:
    return (
        token.kind == "name"
        and token.text not in _WORDS
        and before.text != "."
        and after.text != "("
    )


def _macro_variable(found: list[Token], index: int) -> str | None:
    """Return the name that a macro's opening parenthesis brings in."""
    is_macro = index >= 2 and found[index - 1].text in MACROS and found[index - 2].text == "."
    name, comma = found[index + 1 : index + 3]
    return name.text if is_macro and name.kind == "name" and comma.text == "," else None


def _build_use(text: str, found: list[Token], index: int) -> Use:
    token, dot, member, after = found[index : index + 4]
    line = text.count("\n", 0, token.start) + 1
    column = token.start - text.rfind("\n", 0, token.start)
    sought = _membership_operands(found, index)
    if dot.text == "." and member.kind == "name":
        return Use(token.text, line, column, member.text, after.text == "(", sought)
    if dot.text == "[" and after.text == "]" and (key := _KEY.fullmatch(member.text)):
        return Use(token.text, line, column, key["key"], sought=sought)
    return Use(token.text, line, column, sought=sought)


def _membership_operands(found: list[Token], index: int) -> tuple[str, str] | None:
    """Find what is looked for in what, where both are simple."""
    if not index or found[index - 1].text != "in":
        return None
    what, where = _leading_chain(found[: index - 1][::-1]), _leading_chain(found[index:])
    goes_on = found[index + len(where)].text in ("[", "(")
    if not what or not where or goes_on:
        return None
    return "".join(what[::-1]), "".join(where)


def _leading_chain(found: list[Token]) -> list[str]:
    """Take the names with dots between them that come first, or a text or number; all or none."""
    chain: list[str] = []
    for token in found:
        is_name = token.kind == "name" and token.text not in _WORDS
        literal = not chain and token.kind in ("raw", "text", "number")
        if not (token.text == "." if len(chain) % 2 else is_name or literal):
            break
        chain.append(token.text)
    return chain if len(chain) % 2 else []
