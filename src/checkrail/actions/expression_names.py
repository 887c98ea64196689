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
_TRUTHS = ("true", "false")
MACROS = frozenset({"all", "exists", "exists_one", "existsOne", "filter", "map"})


@dataclass(frozen=True, slots=True)
class Use:
    """One place where an expression reads a name, and what it takes of it.

    `member` is the field in `name.member` or `name["member"]`; `call` says that it is called.
    `sought` is what is looked for in it, and in what of it: `("'x'", "a.b")` for `'x' in a.b`.
    `compared` is what it is compared with, if that stands there: `"'x'"` for `a.b == 'x'`.
    """

    name: str
    line: int
    column: int
    member: str | None = None
    call: bool = False
    sought: tuple[str, str] | None = None
    compared: str | None = None


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


@dataclass(frozen=True, slots=True)
class TextCall:
    """One call of a text function as a method: `a.b["c"].contains(…)`.

    `receiver` is what it is called on, as it is written; `name` and `steps` are the name that it
    begins with and the fields read of it, as far as they can be told: `a`, `("b", "c")`. `own`
    says that a macro brought the name in.
    """

    function: str
    receiver: str
    name: str | None
    steps: tuple[str, ...]
    own: bool


TEXT_FUNCTIONS = frozenset(
    {
        *("charAt", "contains", "endsWith", "indexOf", "lastIndexOf", "lowerAscii", "matches"),
        *("replace", "split", "startsWith", "substring", "trim", "upperAscii"),
    },
)
"""Functions of the language and its library that are for texts alone."""

ARGUMENTS = {
    **dict.fromkeys(("lowerAscii", "trim", "upperAscii"), (0, 0)),
    **dict.fromkeys(("charAt", "contains", "endsWith", "matches", "startsWith"), (1, 1)),
    **dict.fromkeys(("indexOf", "lastIndexOf", "split", "substring"), (1, 2)),
    "replace": (2, 3),
    "text": (0, 1),  # text(x) and x.text()
}
"""How many arguments functions take, at least and at most."""

TRUTH_FUNCTIONS = frozenset({*MACROS - {"filter", "map"}, "contains", "endsWith", "has", "matches"})
TRUTH_FUNCTIONS |= {"startsWith"}
"""Functions that say true or false."""

OTHER_FUNCTIONS = (TEXT_FUNCTIONS - TRUTH_FUNCTIONS) | {
    *("double", "duration", "filter", "int", "join", "map", "size", "string", "text", "uint"),
}
"""Functions that never do."""

INDEX = "[]"
"""The step to an item of a list."""

CALL = "()"
"""The step to what a function made."""


def text_calls(text: str) -> Iterator[TextCall]:
    """Find the text functions that an expression calls, and on what."""
    found = [*tokenize_expression(text), _END, _END, _END]
    for index, own in _iter_scopes(found):
        dot, call = found[index - 1] if index else _END, found[index + 1]
        function = found[index].text
        if function in TEXT_FUNCTIONS and dot.text == "." and call.text == "(":
            start, steps = _find_receiver(found, index - 2)
            first = found[start]
            is_name = first.kind == "name" and found[start + 1].text != "("
            receiver = text[first.start : dot.start].strip()
            name = first.text if is_name else None
            yield TextCall(function, receiver, name, tuple(steps[::-1]), first.text in own)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a function: how many arguments it has, and the literal it is compared with."""

    function: str
    arguments: int
    compared: str | None


LIBRARIES = frozenset({"base64", "lists", "math", "optional", "sets", "strings"})
"""What stands in front of functions that are neither the language's nor of a text."""


def find_calls(text: str) -> Iterator[Call]:
    """Find the calls in an expression, but for those of libraries with a name."""
    found = [*tokenize_expression(text), _END, _END, _END]
    for index, token in enumerate(found[:-3]):
        is_call = token.text == "(" and index and _is_operand(found[index - 1])
        if is_call and found[max(index - 3, 0)].text not in LIBRARIES:
            closing = _find_closing(found, index)
            literal = _compared_literal(found, 0, closing + 1)
            yield Call(found[index - 1].text, _count_arguments(found, index, closing), literal)


def _count_arguments(found: list[Token], opening: int, closing: int) -> int:
    depth, commas = 0, 0
    for token in found[opening + 1 : closing]:
        depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
        commas += token.text == "," and not depth
    return commas + 1 if closing > opening + 1 else 0


def find_operand(text: str) -> tuple[Token, tuple[str, ...]] | None:
    """Find the one operand that an expression is, or None: its first token, and what it reads.

    Of a call it reads nothing: the token is then the name of the function.
    """
    words = tokenize_expression(text)
    found = [*words, _END, _END, _END]
    start, steps = _find_receiver(found, len(words) - 1)
    if start or found[0].kind not in ("name", "number", "text", "raw"):
        return None
    if found[len(words) - 1].text == ")":
        return found[_find_opening(found, len(words) - 1) - 1], (CALL,)
    return found[0], tuple(steps[::-1])


def _find_receiver(found: list[Token], last: int) -> tuple[int, list[str]]:
    """Find where the operand that ends at a token begins, and the steps back to there."""
    steps: list[str] = []
    while last > 0:
        if found[last].text == "]" and is_index(found, opening := _find_opening(found, last)):
            key = _KEY.fullmatch(found[opening + 1].text) if last - opening == 2 else None
            steps.append(key["key"] if key else INDEX)
            last = opening - 1
        elif found[last].text in ("]", ")", "}"):
            last = _find_opening(found, last)
            is_call = found[last].text == "(" and _is_operand(found[last - 1])
            last -= is_call
            if not is_call or found[last - 1].text != ".":
                break
            steps.append(CALL)
            last -= 2
        elif found[last - 1].text == ".":
            steps.append(found[last].text)
            last -= 2
        else:
            break
    return last, steps


def _find_opening(found: list[Token], closing: int) -> int:
    """Find the parenthesis or bracket that a closing one belongs to."""
    depth = 0
    for at in range(closing, -1, -1):
        depth += (found[at].text in (")", "]", "}")) - (found[at].text in ("(", "[", "{"))
        if not depth:
            return at
    return 0


def _find_closing(found: list[Token], opening: int) -> int:
    """Find the parenthesis or bracket that an opening one belongs to."""
    depth = 0
    for at in range(opening, len(found)):
        depth += (found[at].text in ("(", "[", "{")) - (found[at].text in (")", "]", "}"))
        if not depth:
            return at
    return opening


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
        compared = _compared_literal(found, index, index + 3)
        return Use(token.text, line, column, member.text, after.text == "(", sought, compared)
    if dot.text == "[" and after.text == "]" and (key := _KEY.fullmatch(member.text)):
        return Use(token.text, line, column, key["key"], sought=sought)
    compared = _compared_literal(found, index, index + 1)
    return Use(token.text, line, column, sought=sought, compared=compared)


_COMPARING = frozenset({"==", "!=", "<", "<=", ">", ">="})
_AROUND = frozenset({"", "(", ")", "&&", "||", "!", "?", ":", ","})


def _compared_literal(found: list[Token], start: int, end: int) -> str | None:
    """Find the text, number or truth that what stands between two places is compared with."""
    before = found[start - 1].text if start else ""
    literal = found[end + 1 : end + 2]
    if before not in _AROUND or found[end].text not in _COMPARING or not literal:
        return None
    is_literal = literal[0].kind in ("raw", "text", "number") or literal[0].text in _TRUTHS
    return literal[0].text if is_literal and found[end + 2].text in _AROUND else None


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
