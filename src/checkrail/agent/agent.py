"""`Agent`: a model with tools, and hooks that hold in everything it does."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar
from uuid import uuid4

from checkrail.agent.around import AROUND, beneath
from checkrail.agent.conversation import Conversation
from checkrail.agent.events import Emit, HookCalled
from checkrail.agent.loop import Loop
from checkrail.agent.memo import Memo
from checkrail.agent.messages import Message, Query, View, said, user_message
from checkrail.agent.models.model import Model
from checkrail.agent.models.named import named_model
from checkrail.agent.output import Output
from checkrail.agent.streaming import AgentStream
from checkrail.agent.toolbox import Toolbox
from checkrail.agent.usage import Meter
from checkrail.engine.chain import pinned
from checkrail.engine.errors import CheckrailError
from checkrail.engine.event import LIVE
from checkrail.engine.frozen import freeze
from checkrail.engine.matchers import MODEL_NAMES
from checkrail.engine.registry import HookRegistry
from checkrail.engine.scope import Scope
from checkrail.engine.values import AgentResponse
from checkrail.styles.agent_status import Live
from checkrail.styles.fluent import On, on

if TYPE_CHECKING:
    from checkrail.engine.asks import AskHandler
    from checkrail.styles.decorators import Hooks

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
        self._levels = (*_registries(hooks), self.registry)

    def on(self, point: str) -> On:
        """Begin a hook of this agent: `agent.on(point).when(condition).handle(...)`."""
        return on(self.registry, point)

    async def run(
        self, query: Query, *, history: Sequence[Message] = (), **ids: Any
    ) -> AgentResponse:
        """Answer a query. Ids such as `session_id` and `user` are those that events carry."""
        return await self.loop(said(history), query, None, **ids)

    def stream(self, query: Query, *, history: Sequence[Message] = (), **ids: Any) -> AgentStream:
        """Answer a query, and tell what happens as it does."""
        messages = said(history)
        return AgentStream(lambda emit: self.loop(messages, query, emit, **ids))

    def run_sync(
        self, query: Query, *, history: Sequence[Message] = (), **ids: Any
    ) -> AgentResponse:
        """Answer a query where there is no event loop."""
        return self.at_once(self.run(query, history=history, **ids))

    def conversation(
        self, thread_id: str | None = None, history: Sequence[Message] = ()
    ) -> Conversation:
        """Begin a conversation, or go on with one."""
        return Conversation(self, thread_id, history)

    async def loop(
        self,
        messages: list[Message],
        query: Query,
        emit: Emit | None,
        *,
        scope: Scope | None = None,
        meter: Meter | None = None,
        memo: Memo | None = None,
        **ids: Any,
    ) -> AgentResponse:
        """Run the loop on a conversation, which grows in place; `scope` is that of a run around.

        `meter` counts what models use, those of agents beneath included. A loop that was left
        (`AnswerLater`) is entered again with its `memo`; its messages are the conversation.
        """
        above = AROUND.get()
        live = Live(self, history=View(messages))
        context = "chat" if above is None or above.over else above.context
        if scope is not None and scope.context.run_id is not None:
            context = scope.context.run_id
        asked = freeze(user_message(query))
        bound = self._scope(scope, above, emit, live, ids)
        if memo is None:
            messages.append(asked)
        else:
            messages[:] = memo.messages
        with pinned() as inside:
            loop = Loop(
                self,
                bound,
                messages,
                emit,
                above,
                inside=inside,
                context=context,
                meter=meter,
                memo=memo,
            )
            token = AROUND.set(loop)
            try:
                return await loop.run()
            finally:
                with suppress(ValueError):  # closed from another context, which never had it
                    AROUND.reset(token)

    def _scope(
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
        scope = beneath(above, scope)
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
        """What is asked of the model each time."""
        wanted = {} if self.output is None else self.output.params
        return {**self.model.params, **wanted}

    @property
    def system_message(self) -> Message | None:
        """What the model is told first."""
        wanted = "" if self.output is None else self.output.instruction
        text = "\n\n".join(part for part in (self.system_prompt, wanted) if part)
        return {"role": "system", "content": text} if text else None

    def at_once(self, work: Coroutine[Any, Any, T]) -> T:
        """Do some work of this agent in an event loop of its own, and close what it opened."""
        if _in_event_loop():
            work.close()
            raise CheckrailError("run_sync cannot be called in an event loop: await run() instead")
        return asyncio.run(self._closing(work))

    async def _closing(self, work: Coroutine[Any, Any, T]) -> T:
        around = AROUND.get()
        try:
            return await work
        finally:
            await self.leave()
            for level in () if around is None else around.at.levels:
                await level.aclose()  # observers that were started in this event loop

    async def leave(self) -> None:
        """Close what this agent has in this event loop, which is about to end."""
        await self._closed(self.toolbox.leave)

    async def aclose(self) -> None:
        """Close the connections of models and tools, and wait for hooks in the background."""
        await self._closed(self.toolbox.aclose)

    async def _closed(self, tools: Callable[[], Awaitable[None]]) -> None:
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


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _registries(hooks: Any) -> tuple[HookRegistry, ...]:
    """Read what was given as hooks: one set, or several from the outermost in."""
    if hooks is None:
        return ()
    registry = hooks if isinstance(hooks, HookRegistry) else getattr(hooks, "registry", None)
    if isinstance(registry, HookRegistry):
        return (registry,)
    if isinstance(hooks, Iterable) and not isinstance(hooks, str):
        return tuple(found for item in hooks for found in _registries(item))
    told = f"hooks of an agent are Hooks or a HookRegistry, not {type(hooks).__name__}"
    raise TypeError(f"{told}: make `hooks = Hooks()` and register there")
