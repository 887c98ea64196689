"""Hooks without code: block, ask, set, redact, replace and their kin, said in a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from checkrail.actions.errors import ActionError
from checkrail.actions.fields import kind_of
from checkrail.actions.paths import Path, assign, fits, parse, within
from checkrail.engine.errors import InvalidOutcomeError
from checkrail.engine.event import Event
from checkrail.engine.frozen import freeze
from checkrail.engine.outcomes import (
    Ask,
    Block,
    Continue,
    Fail,
    Outcome,
    Replace,
    Retry,
    Stop,
)
from checkrail.engine.points import CONTRACTS, LOOP_POINTS, Contract, Decision, HookPoint, places
from checkrail.engine.values import Value, plain
from checkrail.turns import in_turn_or_thread

if TYPE_CHECKING:
    from checkrail.actions.models import RedactFields, RuleFields

Answer = Outcome | None
Rule = Callable[[Event[Any]], Answer | Awaitable[Answer]]

DECIDING = ("block", "ask", "retry", "fail", "replace", "stop")
CHANGING = ("set", "redact", "last")


def rule(spec: Mapping[str, Any], points: Iterable[str]) -> tuple[Rule, frozenset[Decision]]:
    """Make a hook of a rule, and say which decisions it can take."""
    contracts = [CONTRACTS[place.point] for name in points for place in places(name)]
    fields = _read(spec)
    said = [name for name in DECIDING if name in fields.model_fields_set]
    _check_combination(fields.model_fields_set, said)
    if said:
        decision = Decision(said[0])
        return _deciding(fields, decision, contracts), frozenset({decision})
    return _changing(fields, contracts), frozenset({Decision.CONTINUE})


def _read(spec: Mapping[str, Any]) -> RuleFields:
    from pydantic import ValidationError

    from checkrail.actions.models import RuleFields
    from checkrail.actions.shapes import explain

    for key, said in spec.items():
        if said is None and key not in ("replace", "stop"):
            raise ActionError(f"the rule says `{key}` and nothing after it", "Say what it is to do")
    try:
        return RuleFields.model_validate(dict(spec))
    except ValidationError as error:
        told = explain(error, spec, RuleFields.model_fields)
        keys = ", ".join(sorted(RuleFields.model_fields))
        raise ActionError(f"the rule is wrong {told}", f"Its keys can be: {keys}") from None


def _check_combination(given: AbstractSet[str], said: list[str]) -> None:
    if not said and not given & {*CHANGING, "inject"}:
        remedy = f"Give it one of: {', '.join([*DECIDING, *CHANGING, 'inject'])}"
        raise ActionError("the rule does nothing", remedy)
    if len(said) > 1:
        remedy = "A rule decides one thing: make two rules of it, each with its own `when`"
        raise ActionError(f"the rule says both {said[0]} and {said[1]}", remedy)
    lost = given & {*CHANGING, *(() if said == ["retry"] else ("inject",))}
    if said and lost:
        remedy = f"After {said[0]} there is nothing to go on with: leave one of them out"
        raise ActionError(f"the rule says both {said[0]} and {min(lost)}", remedy)
    stray = given & {"status", "code"}
    if stray and said not in (["block"], ["fail"]):
        raise ActionError(f"the rule has a {min(stray)}, but refuses nothing", "Add block or fail")
    if "retry_after" in given and said != ["block"]:
        raise ActionError("the rule has a retry_after, but blocks nothing", "Add block")


def _deciding(fields: RuleFields, decision: Decision, contracts: list[Contract]) -> Rule:
    if decision in (Decision.REPLACE, Decision.STOP):
        return _bringing(fields, decision, contracts)
    told = getattr(fields, decision)
    options: dict[str, Any] = {"reason": "" if told is True else told}
    for name in fields.model_fields_set & {"status", "code", "retry_after"}:
        options[name] = getattr(fields, name)
    if fields.inject is not None:
        options["inject"] = _messages(fields.inject, contracts)
    kinds = {Decision.BLOCK: Block, Decision.ASK: Ask, Decision.RETRY: Retry, Decision.FAIL: Fail}
    outcome = kinds[decision](**options)
    return lambda _event: outcome


def _bringing(fields: RuleFields, decision: Decision, contracts: list[Contract]) -> Rule:
    from checkrail.actions.shapes import brought, result_type

    kind = Replace if decision is Decision.REPLACE else Stop
    told = {
        contract.point: _result(wanted, decision, getattr(fields, decision))
        for contract in contracts
        if (wanted := result_type(contract, decision)) is not None
    }

    def bring(event: Event[Any]) -> Outcome:
        contract = CONTRACTS[event.point]
        return kind(brought(contract, decision, told[event.point], event.value))

    return bring


def _result(wanted: type, decision: Decision, data: Any) -> Any:
    """Check what a `replace` or `stop` is to bring, before anybody needs it."""
    if wanted is str and not isinstance(data, str):
        raise ActionError(f"`{decision}` brings a text, not {kind_of(data)}", "Quote it")
    if isinstance(data, str) or not issubclass(wanted, Value):
        return freeze(data)
    return _checked(wanted, data, f"`{decision}`")


def _checked(kind: type, data: Any, what: str) -> Any:
    from checkrail.actions.shapes import check

    try:
        return check(kind, data, what)
    except InvalidOutcomeError as error:
        raise ActionError(str(error), f"It is a {kind.__name__}: mend it there") from None


def _messages(told: str | list[dict[str, Any]], contracts: list[Contract]) -> Any:
    for contract in contracts:
        if not contract.inject:
            problem = f"the rule injects messages, but {contract.point} is not in the agent loop"
            raise ActionError(problem, f"Use one of: {', '.join(sorted(LOOP_POINTS))}")
    return freeze([{"role": "system", "content": told}] if isinstance(told, str) else told)


def _changing(fields: RuleFields, contracts: list[Contract]) -> Rule:
    for contract in contracts:
        if not contract.change and (fields.model_fields_set & {*CHANGING}):
            problem = f"the rule changes the value, which {contract.point} does not allow"
            raise ActionError(problem, "Use a point where it can be changed, such as before_run")
    inject = () if fields.inject is None else _messages(fields.inject, contracts)
    changes = {contract.point: change for contract, change in _changes(fields, contracts)}
    plain_answer = Continue(last=bool(fields.last), inject=inject)

    def change(event: Event[Any]) -> Answer | Awaitable[Answer]:
        def work(inline: bool) -> Answer:  # noqa: FBT001 - see `in_turn_or_thread`
            value, redacted = changes[event.point](event.value, inline=inline)
            if redacted or value != event.value:
                return dataclasses.replace(plain_answer, value=value, redacted=redacted)
            return plain_answer if plain_answer.last or inject else None

        return in_turn_or_thread(work)

    return change


@dataclasses.dataclass(frozen=True, slots=True)
class _Change:
    """What a rule does to the values of one point."""

    contract: Contract
    sets: tuple[tuple[Path, Any], ...]
    redact: Callable[..., Any] | None

    def __call__(self, value: Any, *, inline: bool) -> tuple[Any, bool]:
        """Return the value as it is to be, and whether something was redacted."""
        if value is None and self.contract.point is HookPoint.QUERY_END:
            return value, False
        new = value
        for path, to in self.sets:
            new = assign(new, path, to)
        if self.sets and isinstance(value, Value):
            new = _typed(type(value), new, value)
        if self.redact is None:
            return new, False
        redacted = self.redact(new, inline=inline)
        return redacted, redacted is not new


def _typed(kind: type[Value], new: Any, old: Value) -> Any:
    """Check the fields that were set, and make the value of them again."""
    from checkrail.actions.shapes import check

    names = [name for name in kind.__slots__ if getattr(new, name) is not getattr(old, name)]
    data = {name: plain(getattr(new, name)) for name in names}
    check(kind, data, "what `set` made")
    return dataclasses.replace(old, **{name: getattr(new, name) for name in names})  # type: ignore[type-var]


def _changes(fields: RuleFields, contracts: list[Contract]) -> Iterator[tuple[Contract, _Change]]:
    sets = [(parse(text), freeze(to)) for text, to in (fields.set or {}).items()]
    redacting = _redacting(fields)
    for contract in contracts:
        own = tuple((within(path, contract), to) for path, to in sets)
        if issubclass(contract.value, Value):
            _check_sets(contract.value, own)
        yield contract, _Change(contract, own, _redactor(redacting, contract, contracts))


def _check_sets(kind: type[Value], sets: tuple[tuple[Path, Any], ...]) -> None:
    """Refuse what can be seen now to fit no value; the rest is seen when there is one."""
    for path, to in sets:
        if not path.steps:
            problem = f"`set` cannot set {path} as a whole"
            raise ActionError(problem, f"Set its fields: {', '.join(kind.__slots__)}")
        if len(path.steps) == 1:
            _checked(kind, {path.steps[0]: to}, f"`set` of {path}")


def _redacting(fields: RuleFields) -> RedactFields | None:
    from checkrail.actions.models import RedactFields

    told = fields.redact
    if told is None or isinstance(told, RedactFields):
        return told
    return RedactFields(patterns=[told] if isinstance(told, str) else told)


def _redactor(
    told: RedactFields | None,
    contract: Contract,
    contracts: list[Contract],
) -> Callable[..., Any] | None:
    if told is None:
        return None
    from checkrail.actions.redaction import Redactor

    if told.fields_ is None:
        return Redactor(told.patterns, told.mask)
    paths = [parse(text, wild=True) for text in told.fields_]
    for path in paths:
        if not any(fits(path, other) for other in contracts):
            within(path, contract)
    here = [within(path, contract) for path in paths if fits(path, contract)]
    whole = not all(path.steps for path in here)
    return Redactor(told.patterns, told.mask, () if whole else here) if here else None
