"""Hooks without code: block, ask, set, redact, replace and their kin, said in a file."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from checkrail.actions.errors import ActionError
from checkrail.actions.expression_fields import kind_of
from checkrail.actions.paths import Path, assign_path, is_valid_at, parse_path, relative_path
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
from checkrail.engine.points import (
    CONTRACTS,
    LOOP_POINTS,
    Contract,
    Decision,
    HookPoint,
    find_places,
)
from checkrail.engine.values import Value, plain
from checkrail.turns import Steps, run_in_slices

if TYPE_CHECKING:
    from checkrail.actions.models import RedactFields, RuleFields

Answer = Outcome | None
Rule = Callable[[Event[Any]], Answer | Awaitable[Answer]]
Redact = Callable[[Event[Any], Any], Steps[Any]]

DECIDING = ("block", "ask", "retry", "fail", "replace", "stop")
CHANGING = ("set", "prepend", "append", "redact", "last")


def rule(spec: Mapping[str, Any], points: Iterable[str]) -> tuple[Rule, frozenset[Decision]]:
    """Build a hook from a rule, and return it with the decisions that it can take."""
    contracts = [CONTRACTS[place.point] for name in points for place in find_places(name)]
    fields = _parse_fields(spec)
    said = [name for name in DECIDING if name in fields.model_fields_set]
    _check_combination(fields.model_fields_set, said)
    if said:
        decision = Decision(said[0])
        return _build_deciding_rule(fields, decision, contracts), frozenset({decision})
    return _build_changing_rule(fields, contracts), frozenset({Decision.CONTINUE})


def _parse_fields(spec: Mapping[str, Any]) -> RuleFields:
    from pydantic import ValidationError

    from checkrail.actions.models import RuleFields
    from checkrail.actions.value_models import explain_error

    for key, said in spec.items():
        if said is None and key not in ("replace", "stop"):
            problem = f"the rule says `{key}` and nothing after it"
            raise ActionError(problem, "Say what it is to do", key=key)
    try:
        return RuleFields.model_validate(dict(spec))
    except ValidationError as error:
        told = explain_error(error, spec, RuleFields.model_fields)
        keys = ", ".join(sorted(RuleFields.model_fields))
        raise ActionError(f"the rule is wrong {told}", f"Its keys can be: {keys}") from None


def _check_combination(given: AbstractSet[str], said: list[str]) -> None:
    if not said and not given & {*CHANGING, "inject"}:
        remedy = f"Give it one of: {', '.join([*DECIDING, *CHANGING, 'inject'])}"
        raise ActionError("the rule does nothing", remedy)
    if len(said) > 1:
        remedy = "A rule decides one thing: make two rules of it, each with its own `when`"
        problem = f"the rule says both {said[0]} and {said[1]}"
        raise ActionError(problem, remedy, key=said[0])
    lost = given & {*CHANGING, *(() if said == ["retry"] else ("inject",))}
    if said and lost:
        remedy = f"After {said[0]} there is nothing to go on with: leave one of them out"
        problem = f"the rule says both {said[0]} and {min(lost)}"
        raise ActionError(problem, remedy, key=said[0])
    stray = given & {"status", "code"}
    if stray and said not in (["block"], ["fail"]):
        problem = f"the rule has a {min(stray)}, but refuses nothing"
        raise ActionError(problem, "Add block or fail", key=min(stray))
    if "retry_after" in given and said != ["block"]:
        problem = "the rule has a retry_after, but blocks nothing"
        raise ActionError(problem, "Add block", key="retry_after")


def _build_deciding_rule(fields: RuleFields, decision: Decision, contracts: list[Contract]) -> Rule:
    if decision in (Decision.REPLACE, Decision.STOP):
        return _build_result_rule(fields, decision, contracts)
    told = getattr(fields, decision)
    options: dict[str, Any] = {"reason": "" if told is True else told}
    for name in fields.model_fields_set & {"status", "code", "retry_after"}:
        options[name] = getattr(fields, name)
    if fields.inject is not None:
        options["inject"] = _build_messages(fields.inject, contracts)
    kinds = {Decision.BLOCK: Block, Decision.ASK: Ask, Decision.RETRY: Retry, Decision.FAIL: Fail}
    outcome = kinds[decision](**options)
    return lambda _event: outcome


def _build_result_rule(fields: RuleFields, decision: Decision, contracts: list[Contract]) -> Rule:
    from checkrail.actions.value_models import build_result, result_type

    kind = Replace if decision is Decision.REPLACE else Stop
    told = {
        contract.point: _check_result(wanted, decision, getattr(fields, decision))
        for contract in contracts
        if (wanted := result_type(contract, decision)) is not None
    }

    def bring_result(event: Event[Any]) -> Outcome:
        contract = CONTRACTS[event.point]
        return kind(build_result(contract, decision, told[event.point], event.value))

    return bring_result


def _check_result(wanted: type, decision: Decision, data: Any) -> Any:
    """Check what a `replace` or `stop` is to bring, before anybody needs it."""
    if wanted is str and not isinstance(data, str):
        problem = f"`{decision}` brings a text, not {kind_of(data)}"
        raise ActionError(problem, "Quote it", key=decision)
    if isinstance(data, str) or not issubclass(wanted, Value):
        return freeze(data)
    return _check_data(wanted, data, f"`{decision}`", key=decision)


def _check_data(kind: type, data: Any, what: str, *, key: str) -> Any:
    from checkrail.actions.value_models import check_data

    try:
        return check_data(kind, data, what)
    except InvalidOutcomeError as error:
        remedy = f"It is a {kind.__name__}: mend it there"
        raise ActionError(str(error), remedy, key=key) from None


def _build_messages(told: str | list[dict[str, Any]], contracts: list[Contract]) -> Any:
    for contract in contracts:
        if not contract.inject:
            problem = f"the rule injects messages, but {contract.point} is not in the agent loop"
            remedy = f"Use one of: {', '.join(sorted(LOOP_POINTS))}"
            raise ActionError(problem, remedy, key="inject")
    return freeze([{"role": "system", "content": told}] if isinstance(told, str) else told)


def _build_changing_rule(fields: RuleFields, contracts: list[Contract]) -> Rule:
    for contract in contracts:
        if not contract.change and (fields.model_fields_set & {*CHANGING}):
            problem = f"the rule changes the value, which {contract.point} does not allow"
            raise ActionError(problem, "Use a point where it can be changed, such as before_run")
    inject = () if fields.inject is None else _build_messages(fields.inject, contracts)
    changes = {contract.point: change for contract, change in _build_changes(fields, contracts)}
    plain_answer = Continue(last=bool(fields.last), inject=inject)

    def change(event: Event[Any]) -> Answer | Awaitable[Answer]:
        def compute_answer() -> Steps[Answer]:
            value, redacted = yield from changes[event.point](event)
            if redacted or value != event.value:
                return dataclasses.replace(plain_answer, value=value, redacted=redacted)
            return plain_answer if plain_answer.last or inject else None

        return run_in_slices(compute_answer())

    return change


@dataclasses.dataclass(frozen=True, slots=True)
class _Change:
    """What a rule does to the values of one point."""

    contract: Contract
    sets: tuple[tuple[Path, Any], ...]
    before: str
    after: str
    redact: Redact | None

    def __call__(self, event: Event[Any]) -> Steps[tuple[Any, bool]]:
        """Return the value as it is to be, and whether something was redacted."""
        value = event.value
        if value is None and self.contract.point is HookPoint.QUERY_END:
            return value, False
        new = value
        for path, to in self.sets:
            new = assign_path(new, path, to)
        if self.sets and isinstance(value, Value):
            new = _check_typed(type(value), new, value)
        if self.before or self.after:
            new = dataclasses.replace(new, content=self._extend_content(new.content))
        if self.redact is None:
            return new, False
        redacted = yield from self.redact(event, new)
        return redacted, redacted is not new

    def _extend_content(self, content: Any) -> Any:
        """Return a content with texts around it: a text, or parts."""
        if content is None or isinstance(content, str):
            return f"{self.before}{content or ''}{self.after}"
        if not isinstance(content, (list, tuple)):
            problem = f"the content is {kind_of(content)}, and no text can stand around it"
            raise ActionError(problem, "Guard the rule with `when`, or use `set`")
        parts = [
            {"type": "text", "text": text} if text else None for text in (self.before, self.after)
        ]
        return [part for part in (parts[0], *content, parts[1]) if part is not None]


def _check_typed(kind: type[Value], new: Any, old: Value) -> Any:
    """Check the fields that were set, and make the value of them again."""
    from checkrail.actions.value_models import check_data

    names = [name for name in kind.__slots__ if getattr(new, name) is not getattr(old, name)]
    data = {name: plain(getattr(new, name)) for name in names}
    check_data(kind, data, "what `set` made")
    return dataclasses.replace(old, **{name: getattr(new, name) for name in names})  # type: ignore[type-var]


def _build_changes(
    fields: RuleFields, contracts: list[Contract]
) -> Iterator[tuple[Contract, _Change]]:
    sets = [(parse_path(text), freeze(to)) for text, to in (fields.set or {}).items()]
    redacting = _redact_fields(fields)
    for contract in contracts:
        own = tuple((relative_path(path, contract), to) for path, to in sets)
        if issubclass(contract.value, Value):
            _check_sets(contract.value, own)
        before, after = fields.prepend or "", fields.append or ""
        if before or after:
            _check_content(contract, "prepends" if before else "appends")
        redactor = _build_redactor(redacting, contract, contracts)
        yield contract, _Change(contract, own, before, after, redactor)


def _check_content(contract: Contract, what: str) -> None:
    """Refuse a point whose values have no content that a text could stand around."""
    if not _has_content(contract):
        problem = f"the rule {what} a text, but what flows through {contract.point} has no content"
        able = [point for point, other in CONTRACTS.items() if _has_content(other)]
        raise ActionError(problem, f"Use one of: {', '.join(able)}")


def _check_sets(kind: type[Value], sets: tuple[tuple[Path, Any], ...]) -> None:
    """Refuse what can be seen now to fit no value; the rest is seen when there is one."""
    for path, to in sets:
        if not path.steps:
            problem = f"`set` cannot set {path} as a whole"
            raise ActionError(problem, f"Set its fields: {', '.join(kind.__slots__)}", key="set")
        if len(path.steps) == 1:
            _check_data(kind, {path.steps[0]: to}, f"`set` of {path}", key="set")


def _has_content(contract: Contract) -> bool:
    return contract.change and "content" in getattr(contract.value, "__slots__", ())


def _redact_fields(fields: RuleFields) -> RedactFields | None:
    from checkrail.actions.models import RedactFields

    told = fields.redact
    if told is None or isinstance(told, RedactFields):
        return told
    return RedactFields(patterns=[told] if isinstance(told, str) else told)


def _build_redactor(
    told: RedactFields | None,
    contract: Contract,
    contracts: list[Contract],
) -> Redact | None:
    if told is None:
        return None
    from checkrail.actions.redaction import Redactor

    if told.restore is not None and contract.point is not HookPoint.BEFORE_LLM_CALL:
        problem = (
            f"`restore` puts back what a request to a model had, not what {contract.point} has"
        )
        raise ActionError(problem, f"Use it at {HookPoint.BEFORE_LLM_CALL}", key="redact")
    patterns = [*(told.kinds or ()), *(told.patterns or ())]
    if told.fields_ is None:
        return Redactor(patterns, told.mask, restore=told.restore)
    paths = [parse_path(text, wild=True) for text in told.fields_]
    for path in paths:
        if not any(is_valid_at(path, other) for other in contracts):
            relative_path(path, contract)
    here = [relative_path(path, contract) for path in paths if is_valid_at(path, contract)]
    whole = not all(path.steps for path in here)
    where = () if whole else here
    return Redactor(patterns, told.mask, where, told.restore) if here else None
