"""The check of an expression by type: what fails at every event, or never holds, is refused."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NoReturn

from checkrail.actions.errors import ActionError
from checkrail.actions.expression_fields import Advice, field_names, in_text
from checkrail.actions.expression_names import (
    LIBRARIES,
    MACROS,
    TEXT_FUNCTIONS,
    Token,
    tokenize_expression,
)
from checkrail.actions.expression_types import (
    ANY,
    BOOL,
    NULL,
    NUMBERS,
    TEXT,
    Kind,
    Kinds,
    Signature,
    are_comparable,
    describe_kinds,
    kinds_of_field,
    kinds_of_name,
    kinds_of_operation,
    load_signatures,
    names_of,
    union,
)
from checkrail.engine.errors import suggestion
from checkrail.engine.points import Contract
from checkrail.engine.values import User

_DEEPEST = 100
_RANKS = {
    "||": 1,
    "&&": 2,
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">=", "in"), 3),
    **dict.fromkeys("+-", 4),
    **dict.fromkeys("*/%", 5),
}
_DATA = frozenset({"args", "arguments", "content", "input", "output", "parameters"})
"""Fields and values whose shape is up to a model, a tool or a caller."""

_SAID_OTHERWISE = {
    **dict.fromkeys(("tool", "tool_name", "function"), "name"),
    **dict.fromkeys(("arguments", "input", "parameters", "params"), "args"),
    **dict.fromkeys(("id", "name", "user_id"), "identity"),
    **dict.fromkeys(("output", "result"), "content"),
}
"""What fields are called elsewhere, on the wire of a tool call among others."""

_LITERALS = {"true": BOOL, "false": BOOL, "null": NULL}
_COMPARE = "Compare it with something, as in x == 1 or size(x) > 0"
_KEY = re.compile(r"""(?P<quote>['"])(?P<key>[^'"\\]+)(?P=quote)""")
_END = Token("end", "", 0)


class _UnknownSyntaxError(Exception):
    """The language took what this module does not know; then nothing more is checked."""


@dataclass(frozen=True, slots=True)
class _Operand:
    """A part of an expression: what it can be, as what it is shown, and where it begins.

    `literal` is its text where it is written there; `is_data` says that its shape is up to others.
    """

    kinds: Kinds
    shown: str
    start: int
    literal: str | None = None
    is_call: bool = False
    is_data: bool = False

    @property
    def names(self) -> frozenset[str]:
        return names_of(self.kinds)


def check_types(
    text: str, names: Collection[str], contracts: Sequence[Contract]
) -> tuple[Advice, ...]:
    """Refuse what can be seen to fail each time or never to hold; return advice on the rest.

    `names` are those that it reads of the event.
    """
    checker = _Checker(text, names, contracts)
    try:
        checker.check()
    except _UnknownSyntaxError:
        return ()
    return tuple(dict.fromkeys(checker.advice))


class _Checker:
    """Goes through an expression once, from left to right, as its grammar says."""

    def __init__(self, text: str, names: Collection[str], contracts: Sequence[Contract]) -> None:
        self.advice: list[Advice] = []
        self._text = text
        self._names = names
        self._contracts = contracts
        self._tokens = [*tokenize_expression(text), _END]
        self._at = 0
        self._depth = 0
        self._own: list[tuple[str, Kinds]] = []

    def check(self) -> None:
        """Check all of it."""
        whole = self._read_expression()
        if self._peek() is not _END:
            raise _UnknownSyntaxError
        if "bool" not in whole.names:
            problem = f"the expression {self._text!r} is no condition: it is never true or false"
            raise ActionError(problem, _COMPARE)

    def _peek(self, ahead: int = 0) -> Token:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def _take(self, text: str | None = None) -> Token:
        token = self._peek()
        if token is _END or (text is not None and token.text != text):
            raise _UnknownSyntaxError
        self._at += 1
        return token

    def _shown_since(self, start: int) -> str:
        last = self._tokens[self._at - 1]
        return self._text[start : last.start + len(last.text)]

    def _build_operand(self, kinds: Kinds, start: int) -> _Operand:
        return _Operand(kinds, self._shown_since(start), start)

    def _refuse(self, problem: str, remedy: str) -> NoReturn:
        raise ActionError(f"the expression {self._text!r} {problem}", remedy)

    def _read_expression(self) -> _Operand:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise _UnknownSyntaxError
        found = self._read_operation(1)
        ways: list[Kinds] = []
        while self._peek().text == "?":
            self._check_truth(found)
            self._take()
            ways.append(self._read_expression().kinds)
            self._take(":")
            last = self._read_operation(1)
            found = self._build_operand(last.kinds, found.start)
        self._depth -= 1
        return self._build_operand(union([*ways, found.kinds]), found.start) if ways else found

    def _read_operation(self, rank: int) -> _Operand:
        left = self._read_unary()
        while (own := _RANKS.get(self._peek().text, 0)) >= rank:
            sign = self._take().text
            right = self._read_operation(own + 1)
            kinds = self._check_operation(sign, left, right)
            left = self._build_operand(kinds, left.start)
        return left

    def _read_unary(self) -> _Operand:
        first = self._at
        while self._peek().text in ("!", "-"):
            self._take()
        signs = [token.text for token in self._tokens[first : self._at]]
        found = self._read_member()
        if "!" in signs:
            self._check_truth(found)
        elif signs and not found.names & {"int", "double"}:
            told = describe_kinds(found.kinds)
            self._refuse(f"writes a minus before {found.shown}, which is {told}", "Leave it out")
        if not signs:
            return found
        kinds = BOOL if "!" in signs else found.kinds & _numbers()
        literal = found.literal if "!" not in signs else None
        start = self._tokens[first].start
        return _Operand(kinds, self._shown_since(start), start, literal)

    def _read_member(self) -> _Operand:
        found = self._read_primary()
        while self._peek().text in (".", "["):
            if self._take().text == "[":
                index = self._read_expression()
                self._take("]")
                found = self._read_index(found, index)
                continue
            name = self._take()
            if name.kind != "name":
                raise _UnknownSyntaxError
            if self._peek().text == "(":
                found = self._read_call(name, found)
            else:
                kinds = self._read_field(found, name.text)
                found = self._step_from(found, kinds, name.text)
        return found

    def _step_from(self, holder: _Operand, kinds: Kinds, field: str = "") -> _Operand:
        is_data = field in _DATA or (holder.is_data and field != "text")
        shown = self._shown_since(holder.start)
        return _Operand(kinds, shown, holder.start, is_data=is_data)

    def _read_primary(self) -> _Operand:
        token = self._take()
        if token.text == "(":
            found = self._read_expression()
            self._take(")")
            return _Operand(
                found.kinds, self._shown_since(token.start), token.start, is_data=found.is_data
            )
        if token.text == "[":
            items = [item.kinds for item in self._read_list("]")]
            kind = Kind("list", union(items) if items else None)
            return self._build_operand(frozenset({kind}), token.start)
        if token.text == "{":
            return self._read_mapping(token)
        if token.kind in ("raw", "text", "number"):
            return self._read_literal(token)
        if token.kind != "name" or token.text == "in":
            raise _UnknownSyntaxError
        if self._peek().text == "(":
            return self._read_call(token, None)
        return self._read_name(token)

    def _read_name(self, token: Token) -> _Operand:
        name = token.text
        if name in _LITERALS:
            return _Operand(_LITERALS[name], name, token.start, name)
        for own, kinds in reversed(self._own):
            if own == name:
                return _Operand(kinds, name, token.start)
        is_library = name in LIBRARIES and self._peek().text == "." and self._peek(2).text == "("
        if is_library:
            self._take()
            function = self._take()
            return self._read_call(Token("name", f"{name}.{function.text}", token.start), None)
        known = kinds_of_name(name, self._contracts) if name in self._names else ANY
        return _Operand(known, name, token.start, is_data=name in _DATA)

    def _read_literal(self, token: Token) -> _Operand:
        written, start = token.text, token.start
        if token.kind == "number":
            is_hex = written[:2].lower() == "0x"
            if not is_hex and written[-1] in "eE" and self._peek().text in ("+", "-"):
                self._take()
                self._take()
            is_double = not is_hex and (set(written) & set(".eE"))
            name = "uint" if written[-1] in "uU" else "double" if is_double else "int"
        else:
            before = re.split("['\"]", written, maxsplit=1)[0]
            name = "bytes" if "b" in before.lower() else "text"
        return _Operand(frozenset({Kind(name)}), self._shown_since(start), start, written)

    def _read_mapping(self, token: Token) -> _Operand:
        held: list[Kinds] = []
        while self._peek().text != "}":
            self._read_expression()
            self._take(":")
            held.append(self._read_expression().kinds)
            if self._peek().text != "}":
                self._take(",")
        self._take("}")
        kind = Kind("map", union(held) if held else None)
        return self._build_operand(frozenset({kind}), token.start)

    def _read_list(self, closing: str) -> list[_Operand]:
        found: list[_Operand] = []
        while self._peek().text != closing:
            found.append(self._read_expression())
            if self._peek().text != closing:
                self._take(",")
        self._take(closing)
        return found

    def _read_call(self, name: Token, receiver: _Operand | None) -> _Operand:
        function = name.text
        self._take("(")
        start = name.start if receiver is None else receiver.start
        if receiver is not None and function in MACROS and self._peek(1).text == ",":
            kinds = self._read_macro(function, receiver)
        else:
            given = self._read_list(")")
            kinds = self._check_call(function, receiver, given)
        shown = f"{function}(…)"
        is_data = receiver is not None and receiver.is_data
        return _Operand(kinds, shown, start, is_call=True, is_data=is_data)

    def _read_macro(self, function: str, receiver: _Operand) -> Kinds:
        if not receiver.names & {"list", "map", "object"}:
            told = describe_kinds(receiver.kinds)
            remedy = "It is for the items of a list and the keys of a mapping"
            self._refuse(f"calls {function} on {receiver.shown}, which is {told}", remedy)
        variable = self._take()
        self._own.append((variable.text, _items_of(receiver.kinds)))
        self._take(",")
        bodies = self._read_list(")")
        self._own.pop()
        *conditions, last = bodies or [_Operand(ANY, "", 0)]
        for condition in conditions if function == "map" else [*conditions, last]:
            self._check_truth(condition)
        if function == "map":
            return frozenset({Kind("list", last.kinds)})
        return (
            frozenset({Kind("list", _items_of(receiver.kinds))}) if function == "filter" else BOOL
        )

    def _read_field(self, holder: _Operand, field: str) -> Kinds:
        """Return what a field can be, or refuse one that nothing here has."""
        found: list[Kinds] = []
        for kind in holder.kinds:
            known = kinds_of_field(kind.owner, field) if kind.owner else kind.items or ANY
            if kind.name in ("map", "object") and known is not None:
                found.append(known)
        if not found:
            self._refuse_field(holder, field)
        return union(found)

    def _refuse_field(self, holder: _Operand, field: str) -> NoReturn:
        line = self._text.count("\n", 0, holder.start) + 1
        column = holder.start - self._text.rfind("\n", 0, holder.start)
        problem = f"reads {field!r} of {holder.shown} at line {line}, column {column}"
        known = _fields_of(holder.kinds)
        if not known:
            told = describe_kinds(holder.kinds)
            self._refuse(f"{problem}, which is {told} and has no fields", "Leave it out")
        other = _SAID_OTHERWISE.get(field)
        near = f" (did you mean {other!r}?)" if other in known else suggestion(field, known)
        remedy = f"Fields of {holder.shown} are: {', '.join(known)}"
        self._refuse(f"{problem}, which has no such field{near}", remedy)

    def _read_index(self, holder: _Operand, index: _Operand) -> _Operand:
        key = _KEY.fullmatch(index.literal or "")
        if key and holder.names & {"map", "object"}:
            kinds = self._read_field(holder, key["key"])
            return self._step_from(holder, kinds, key["key"])
        found: list[Kinds] = []
        for kind in holder.kinds:
            if kind.name == "list" and index.names & NUMBERS:
                found.append(kind.items or ANY)
            elif kind.name in ("map", "object"):
                is_text = kind.owner is not None or kind.keyed
                if not is_text or "text" in index.names:
                    found.append(ANY if kind.owner else kind.items or ANY)
        if not found:
            told = describe_kinds(holder.kinds)
            problem = f"reads [{index.shown}] of {holder.shown}, which is {told}"
            self._refuse(problem, _INDEX_REMEDY.get(told, "It has no items"))
        return self._step_from(holder, union(found))

    def _check_truth(self, operand: _Operand) -> None:
        if "bool" not in operand.names:
            told = describe_kinds(operand.kinds)
            problem = f"takes {operand.shown} for true or false, and it is {told}"
            self._refuse(problem, _COMPARE)

    def _check_operation(self, sign: str, left: _Operand, right: _Operand) -> Kinds:
        if sign in ("&&", "||"):
            self._check_truth(left)
            self._check_truth(right)
            return BOOL
        if sign == "in":
            self._check_membership(left, right)
            return BOOL
        if sign in ("==", "!="):
            if not are_comparable(left.kinds, right.kinds):
                self._refuse_comparison(left, right)
            return BOOL
        kinds = kinds_of_operation(sign, left.names, right.names)
        if not kinds and _RANKS[sign] == _RANKS["<"]:
            self._refuse_comparison(left, right)
        if not kinds:
            exact = bool(left.names & NUMBERS and right.names & NUMBERS)
            told = [describe_kinds(side.kinds, exact=exact) for side in (left, right)]
            problem = f"writes {left.shown} {sign} {right.shown}, which is {told[0]} and {told[1]}"
            self._refuse(problem, "CEL converts nothing: write string(x), int(x) or double(x)")
        return kinds

    def _refuse_comparison(self, left: _Operand, right: _Operand) -> NoReturn:
        one, other = (right, left) if left.literal and not right.literal else (left, right)
        problem = f"compares {one.shown} with {other.shown}, which it never is"
        if any(kind.owner is User for kind in one.kinds):
            self._refuse(problem, f"Compare one of its fields: {', '.join(field_names(User))}")
        rest = ": leave the rest out" if one.is_call and one.names == {"bool"} else ""
        self._refuse(problem, f"It is {describe_kinds(one.kinds)}{rest}")

    def _check_membership(self, what: _Operand, where: _Operand) -> None:
        """Refuse to look for something where it never is."""
        holders = [kind for kind in where.kinds if kind.name in ("list", "map", "object")]
        if not holders:
            told = describe_kinds(where.kinds)
            remedy = (
                in_text(what.shown, where.shown)
                if "text" in where.names
                else "`in` is for lists and keys"
            )
            self._refuse(f"looks for {what.shown} in {where.shown}, which is {told}", remedy)
        if not any(_may_hold(kind, what) for kind in holders):
            remedy = f"To search all text in it, write text({where.shown}).contains({what.shown})"
            if "text" not in what.names:
                remedy = f"What is looked for is {describe_kinds(what.kinds)}"
            problem = f"looks for {what.shown} in {where.shown}, which never holds it"
            self._refuse(problem, remedy)

    def _check_call(self, function: str, receiver: _Operand | None, given: list[_Operand]) -> Kinds:
        if function == "has":
            return BOOL
        signature = load_signatures().get(function)
        if signature is None:
            return ANY
        operands = given if receiver is None else [receiver, *given]
        self._check_count(function, signature, len(given), has_receiver=receiver is not None)
        for operand, wanted in zip(operands, signature.takes, strict=False):
            if not operand.names & wanted:
                self._refuse_argument(function, operand, wanted, is_receiver=operand is receiver)
        if receiver is not None and function in TEXT_FUNCTIONS:
            self._advise(function, receiver)
        return signature.gives

    def _check_count(
        self, function: str, signature: Signature, count: int, *, has_receiver: bool
    ) -> None:
        most = len(signature.takes) - has_receiver
        least = most - signature.spare
        if not least <= count <= most:
            many = f"{least}" if least == most else f"{least} to {most}"
            self._refuse(f"calls {function} with {count} arguments", f"It takes {many}")

    def _refuse_argument(
        self, function: str, operand: _Operand, wanted: frozenset[str], *, is_receiver: bool
    ) -> NoReturn:
        if is_receiver and function in TEXT_FUNCTIONS:
            remedy = f"Write {_text_call(operand.shown, function)}; for an item or a key, "
            problem = f"calls {function} on {operand.shown}, which is never a text"
            self._refuse(problem, f"{remedy}x in {operand.shown}")
        told = describe_kinds(operand.kinds)
        takes = describe_kinds(frozenset(map(Kind, wanted)))
        problem = f"calls {function} with {operand.shown}, which is {told}"
        self._refuse(problem, f"It takes {takes}")

    def _advise(self, function: str, receiver: _Operand) -> None:
        """Note a search in what may be no text."""
        is_text = receiver.kinds <= TEXT | NULL
        if receiver.is_data and not is_text and f"type({receiver.shown})" not in self._text:
            told = f"`when` searches {receiver.shown} as a text: where it is none, the hook fails"
            hint = f"write {_text_call(receiver.shown, function)}, which searches all text in it"
            self.advice.append((told, hint))


_INDEX_REMEDY = {
    "a list": "The items of a list have numbers, as in x[0]; x[-1] is the last",
    "a mapping": "Its keys are texts, as in x['a']",
    "an object": "Its fields have names, as in x.name",
}


def _numbers() -> Kinds:
    return frozenset({Kind("int"), Kind("double")})


def _items_of(kinds: Kinds) -> Kinds:
    """Return what a macro's name stands for: an item of a list, a key of a mapping."""
    found: list[Kinds] = []
    for kind in kinds:
        if kind.name == "list":
            found.append(kind.items or ANY)
        elif kind.name in ("map", "object"):
            found.append(TEXT if kind.keyed or kind.owner else ANY)
    return union(found)


def _may_hold(kind: Kind, what: _Operand) -> bool:
    if kind.name == "list":
        return kind.items is None or are_comparable(kind.items, what.kinds)
    if kind.owner is None:
        return not kind.keyed or "text" in what.names
    key = _KEY.fullmatch(what.literal or "")
    return key["key"] in field_names(kind.owner) if key else "text" in what.names


def _fields_of(kinds: Kinds) -> list[str]:
    owners = [kind.owner for kind in kinds if kind.owner]
    return list(dict.fromkeys(name for owner in owners for name in field_names(owner)))


def _text_call(shown: str, function: str) -> str:
    """Return how to search all text of what a text function was called on."""
    if shown.endswith(".content"):
        return f"{shown.removesuffix('.content')}.text.{function}(…)"
    return f"text({shown}).{function}(…)"
