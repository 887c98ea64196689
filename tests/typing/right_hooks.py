"""Hooks as users write them, in every style: a type checker has nothing to say about them."""

from collections.abc import Awaitable, Callable
from typing import Any, assert_type

from checkrail import (
    AgentResponse,
    Ask,
    AssistantMessage,
    Block,
    Continue,
    Event,
    Hook,
    HookRegistry,
    Hooks,
    ModelRequest,
    Replace,
    Retry,
    RunError,
    RunResult,
    Session,
    ToolCall,
    ToolResult,
)
from checkrail.hooks import Context, HookSpec, Lane, RunContext, RunHooks
from checkrail.styles import (
    AgentEvent,
    AgentStatus,
    HookContext,
    HookDecision,
    adapt,
    on,
)

hooks = Hooks(history="digest", max_retries=3)
given = Hooks(HookRegistry())


@hooks.before_tool_call
async def bare(event: Event[ToolCall], call: ToolCall) -> Block | None:
    assert_type(event.value, ToolCall)
    return Block("too much", status=402) if call.args["amount"] > 1000 else None


@hooks.before_tool_call(tools=["transfer"], lane="gate", name="limit", timeout=None)
async def with_options(event: Event[ToolCall], call: ToolCall) -> Block | None:
    return None


@hooks.before_tool_call(when="tool_call.args.amount > 1000", on_error={"timeout": "block"})
def with_expression(event: Event[ToolCall], call: ToolCall) -> Block:
    return Block()


@hooks.before_tool_call(when=lambda event: True)
def with_condition(event: Event[ToolCall]) -> Continue[ToolCall] | None:
    return Continue(event.value)


@hooks.before_tool_call(lane=Lane.GATE, mode="shadow", on_error="block", failure_mode="FailOpen")
def with_names(event: Event[ToolCall], call: ToolCall) -> Replace[ToolResult] | Ask | None:
    return Replace(ToolResult(call.id, call.name, "kept"))


@hooks.before_tool_call
def with_text(event: Event[ToolCall]) -> Continue[str] | Continue[ToolCall]:
    return Continue('{"amount": 1}')


@hooks.on_session_start
def only_going_on(event: Event[Session]) -> Continue | None:
    return Continue()


class ByMethods(Hook):
    def name(self) -> str:
        return "by methods"

    def points(self) -> list[str]:
        return ["before_tool_call"]

    def timeout(self) -> float:
        return 2

    def execute(self, event: Event[ToolCall]) -> Continue[ToolCall] | None:
        return Continue(event.value)


class ByAttributes(Hook):
    name = "by attributes"
    points = ("before_tool_call",)
    lane = "gate"
    timeout = 2
    on_error = "block"

    async def execute(self, event: Event[ToolCall], call: ToolCall) -> Block | None:
        return None


class WithIds(Hook):
    name = "with ids"
    points = ("on_session_end",)

    async def execute(self, event: Event[Session], ctx: Context) -> None:
        assert_type(ctx.session_id, str | None)


given.registry.register(WithIds())
given.registry.register(ByMethods())
given.registry.register(ByAttributes(), lane="observe")


@hooks.before_llm_call()
async def one_parameter(event: Event[ModelRequest]) -> None: ...


@hooks.after_llm_call
def sync_two(event: Event[AssistantMessage], message: AssistantMessage) -> Retry | None:
    return None


@hooks.query_end
async def may_be_none(event: Event[AgentResponse | None], response: AgentResponse | None) -> None:
    assert_type(event.original, AgentResponse | None)


@hooks.hook("on_run_finish")
def either(event: Event[RunResult | RunError]) -> None: ...


@hooks.on_run_error
def wider(event: Event[RunResult | RunError], ending: RunResult | RunError) -> None: ...


@hooks.before_run
async def any_data(event: Event[dict[str, Any]], parameters: dict[str, Any]) -> Continue:
    return Continue({**parameters, "checked": True})


@hooks.on_session_end
def with_any(event: Event[Any], session: Any) -> None: ...


@hooks.hook("on_session_start", "on_session_end", priority=1)
def several(event: Event[Session]) -> None: ...


class Limit:
    async def __call__(self, event: Event[ToolResult], result: ToolResult) -> None: ...


hooks.after_tool_call(Limit())

# What was decorated can still be called, in a test for example.
bare_type: Callable[[Event[ToolCall], ToolCall], Awaitable[Block | None]] = bare
sync_type: Callable[[Event[ToolCall], ToolCall], Block] = with_expression
several_type: Callable[[Event[Session]], None] = several

run_hooks = RunHooks()


@run_hooks.before_run
async def gate(ctx: RunContext) -> None:
    assert_type(ctx.run_id, str)
    assert_type(ctx.error, str | None)
    if ctx.extras.get("plan") != "paid":
        raise run_hooks.RejectRun("Active subscription required", status_code=402)


@run_hooks.after_run(timeout=2, name="report")
def report(ctx: RunContext) -> str:
    return ctx.user.identity


gate_type: Callable[[RunContext], Awaitable[None]] = gate
report_type: Callable[[RunContext], str] = report
run_specs: list[HookSpec] = run_hooks.register(hooks.registry, timeout=3)


async def missing_plan(status: AgentStatus) -> bool:
    return status.assistant_message is not None


def guide(status: AgentStatus) -> None:
    status.conversation_history.append({"role": "user", "content": "plan first"})


def shorten(status: AgentStatus, current: AssistantMessage) -> AssistantMessage:
    return AssistantMessage(current.content[:10])


said: HookSpec = (
    hooks.on(AgentEvent.BEFORE_FINAL_RESPONSE)
    .when(missing_plan)
    .when(lambda status: status.iteration == 1)
    .handle(decision=HookDecision.RETRY, effects=[guide], reason="plan first", priority=3)
)
on(hooks.registry, "after_llm_call").handle(value=shorten)


async def stamp(ctx: HookContext) -> HookContext:
    ctx.metadata["seen"] = ctx.model
    return ctx


def stamp_sync(ctx: HookContext) -> HookContext:
    return ctx


hooks.registry.register(adapt(stamp, {"verbose": True}), "pre_request")
hooks.before_llm_call(adapt(stamp_sync))
