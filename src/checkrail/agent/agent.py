"""`Agent`: a model with tools, and hooks that hold in everything it does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import uuid4

from checkrail.agent.conversation import Conversation
from checkrail.agent.events import Emit, HookCalled
from checkrail.agent.loop import Loop, Mark, OnEnd
from checkrail.agent.models.model import Model, named_model
from checkrail.agent.output import Output
from checkrail.agent.snapshot import LoopSnapshot
from checkrail.agent.stream import AgentStream
from checkrail.agent.toolbox import Toolbox
from checkrail.engine.dispatch_state import HOOKS_AT_WORK
from checkrail.engine.errors import CheckrailError
from checkrail.engine.event import LIVE
from checkrail.engine.frozen import freeze
from checkrail.engine.matchers import MODEL_NAMES
from checkrail.engine.registry import HookRegistry
from checkrail.engine.scope import Scope
from checkrail.engine.values import AgentResponse
from checkrail.llm.conversation import Message, Query, ReadOnlyView, freeze_history, user_message
from checkrail.llm.usage import Meter
from checkrail.styles.agent_status import Live
from checkrail.styles.fluent import On, on

if TYPE_CHECKING:
    from checkrail.engine.asks import AskHandler
    from checkrail.styles.decorators import Hooks


CURRENT_LOOP: ContextVar[Loop | None] = ContextVar("checkrail_loop", default=None)
"""The run whose work this is."""


def nest_scope(above: Loop | None, given: Scope | None) -> Scope | None:
    """Return the scope of a run: that of the run around it, and the one it was given.

    A run that is over still lends its hooks to what it began, but no ids: a task that outlives
    it may work for somebody else by now.
    """
    if above is None:
        return given
    outer = _without_ids(above.at) if above.over else above.at
    if given is None:
        return outer
    if all(level in given.levels for level in outer.levels):
        return given
    for level in given.levels:
        outer = level.scope(parent=outer)
    known = {name: getattr(given.context, name) for name in given.context.__slots__}
    return outer.bind(**{name: value for name, value in known.items() if value})


def _without_ids(scope: Scope) -> Scope:
    first, *further = scope.levels
    bare = first.scope()
    for level in further:
        bare = level.scope(parent=bare)
    return bare


T = TypeVar("T")

OWN = frozenset({"agent_name", "model", "provider", "iteration", "tool_call_id"})
"""What events say of an agent, which its caller cannot say for it."""


class Agent:
    """A model with tools.

    `hooks` are those of the levels around it, outermost first; what `on` says is the agent's own.
    `output_schema` is a type or a JSON Schema that the final answer has to fit. `ask` puts the
    questions of hooks to a person. `model_timeout` is for one answer, in seconds.
    """

    def __init__(  # noqa: PLR0917 - the first seven are what an agent is
        self,
        model: Model | str,
        tools: Iterable[Any] = (),
        system_prompt: str = "",
        hooks: Hooks | HookRegistry | Iterable[Hooks | HookRegistry] | None = None,
        output_schema: Any = None,
        max_iterations: int = 15,
        name: str = "agent",
        *,
        description: str = "",
        model_timeout: float | None = 600.0,
        ask: AskHandler | None = None,
    ) -> None:
        if max_iterations < 1:
            raise ValueError(f"max_iterations is {max_iterations}: an agent needs at least 1")
        self.name = name
        self.description = description
        self.model: Model = named_model(model) if isinstance(model, str) else model
        if isinstance(model, type) or not isinstance(self.model, Model):
            remedy = "give a Model, or a name such as openai/gpt-5"
            raise TypeError(f"{model!r} is no model: {remedy}")
        self.toolbox = Toolbox(name, tools)
        self.system_prompt = system_prompt
        self.output = None if output_schema is None else Output(output_schema)
        self.max_iterations = max_iterations
        self.model_timeout = model_timeout
        self.registry = HookRegistry(ask=ask)
        self._levels = (*_parse_registries(hooks), self.registry)

    def on(self, point: str) -> On:
        """Begin a hook of this agent: `agent.on(point).when(condition).handle(...)`."""
        return on(self.registry, point)

    async def run(
        self, query: Query, *, history: Sequence[Message] = (), **ids: Any
    ) -> AgentResponse:
        """Answer a query. Ids such as `session_id` and `user` are those that events carry."""
        return await self.run_loop(freeze_history(history), query, None, **ids)

    def stream(self, query: Query, *, history: Sequence[Message] = (), **ids: Any) -> AgentStream:
        """Answer a query as a stream of events."""
        messages = freeze_history(history)
        return AgentStream(lambda emit: self.run_loop(messages, query, emit, **ids))

    def run_sync(
        self, query: Query, *, history: Sequence[Message] = (), **ids: Any
    ) -> AgentResponse:
        """Answer a query where there is no event loop."""
        return self.run_in_new_loop(self.run(query, history=history, **ids))

    def conversation(
        self, thread_id: str | None = None, history: Sequence[Message] = ()
    ) -> Conversation:
        """Begin a conversation, or go on with one."""
        return Conversation(self, thread_id, history)

    async def run_loop(
        self,
        messages: list[Message],
        query: Query,
        emit: Emit | None,
        *,
        scope: Scope | None = None,
        meter: Meter | None = None,
        mark: Mark | None = None,
        memo: LoopSnapshot | None = None,
        on_end: OnEnd | None = None,
        **ids: Any,
    ) -> AgentResponse:
        """Run the loop on a conversation, which grows in place; `scope` is the outer run's.

        `meter` counts what models use, and `mark` is told when they are called and have answered;
        those of agents beneath are included. A loop that was left
        (`AnswerLater`) is entered again with its `memo`; its messages are the conversation.
        `on_end` is called with how this loop ends, and by which hook.
        """
        above = CURRENT_LOOP.get()
        live = Live(self, history=ReadOnlyView(messages))
        context = "chat" if above is None or above.over else above.context
        if scope is not None and scope.context.run_id is not None:
            context = scope.context.run_id
        context = ids.get("run_id") or context
        asked = freeze(user_message(query))
        bound = self._bind_scope(scope, above, emit, live, ids)
        if memo is None:
            messages.append(asked)
        else:
            messages[:] = memo.messages
        loop = Loop(
            self,
            bound,
            messages,
            emit,
            above,
            inside=HOOKS_AT_WORK.get(),
            context=context,
            meter=meter,
            mark=mark,
            memo=memo,
            on_end=on_end,
        )
        token = CURRENT_LOOP.set(loop)
        try:
            return await loop.run()
        finally:
            with suppress(ValueError):  # closed from another context, which never had it
                CURRENT_LOOP.reset(token)

    def _bind_scope(
        self,
        scope: Scope | None,
        above: Loop | None,
        emit: Emit | None,
        live: Live,
        ids: dict[str, Any],
    ) -> Scope:
        own: dict[str, Any] = {}
        if scope is None or scope.context.run_id is None:
            own["run_id"] = str(uuid4())
        if above is not None and not above.over and own:
            own["parent_run_id"] = above.at.context.run_id
        scope = nest_scope(above, scope)
        ids = own | ids
        if wrong := OWN.intersection(ids):
            told = f"{', '.join(sorted(wrong))} of an event is the agent's own"
            raise TypeError(f"{told}: say it where the agent is made")
        known = {} if scope is None else scope.context.metadata
        around = {name: said for name, said in known.items() if name not in MODEL_NAMES}
        metadata = {**around, **(ids.pop("metadata", None) or {}), LIVE: live}
        ids |= {"agent_name": self.name, "model": self.model.name, "provider": self.model.provider}
        first, *further = self._levels
        if emit is not None:
            further.append(HookRegistry(lambda record: emit(HookCalled(record))))
        bound = first.scope(parent=scope, **ids, metadata=metadata)
        for level in further:
            bound = level.scope(parent=bound)
        return bound

    @property
    def params(self) -> Mapping[str, Any]:
        """The parameters of every model call."""
        wanted = {} if self.output is None else self.output.params
        return {**self.model.params, **wanted}

    @property
    def system_message(self) -> Message | None:
        """The message that every conversation with the model begins with."""
        wanted = "" if self.output is None else self.output.instruction
        text = "\n\n".join(part for part in (self.system_prompt, wanted) if part)
        return {"role": "system", "content": text} if text else None

    def run_in_new_loop(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine of this agent in a new event loop, and close what it opened."""
        if _is_in_event_loop():
            work.close()
            raise CheckrailError("run_sync cannot be called in an event loop: await run() instead")
        return asyncio.run(self._run_and_close(work))

    async def _run_and_close(self, work: Coroutine[Any, Any, T]) -> T:
        around = CURRENT_LOOP.get()
        try:
            return await work
        finally:
            await self.leave()
            for level in () if around is None else around.at.levels:
                await level.aclose()  # observers that were started in this event loop

    async def leave(self) -> None:
        """Close what this agent has opened in the running event loop, which is about to end."""
        await self._close_all(self.toolbox.leave)

    async def aclose(self) -> None:
        """Close the connections of models and tools, and wait for hooks in the background."""
        await self._close_all(self.toolbox.aclose)

    async def _close_all(self, tools: Callable[[], Awaitable[None]]) -> None:
        close: Callable[[], Awaitable[Any]] | None = getattr(self.model, "aclose", None)
        async with AsyncExitStack() as closing:
            if close is not None:
                closing.push_async_callback(close)
            for level in self._levels:
                closing.push_async_callback(level.aclose)
            closing.push_async_callback(tools)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()


def _is_in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _parse_registries(hooks: Any) -> tuple[HookRegistry, ...]:
    """Return the registries among `hooks`: one, or several from the outermost in."""
    if hooks is None:
        return ()
    registry = hooks if isinstance(hooks, HookRegistry) else getattr(hooks, "registry", None)
    if isinstance(registry, HookRegistry):
        return (registry,)
    if isinstance(hooks, Iterable) and not isinstance(hooks, str):
        return tuple(found for item in hooks for found in _parse_registries(item))
    told = f"hooks of an agent are Hooks or a HookRegistry, not {type(hooks).__name__}"
    raise TypeError(f"{told}: make `hooks = Hooks()` and register there")
