"""Agents from files: what was read there, made into agents that run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from checkrail.agent.agent import Agent
from checkrail.agent.models.model import PROVIDERS, named_model
from checkrail.agent.models.scripted_model import ScriptedModel
from checkrail.agent.toolbox import Toolbox
from checkrail.engine.errors import CheckrailError, suggestion
from checkrail.engine.registry import HookRegistry

if TYPE_CHECKING:
    from checkrail.agent.models.model import Model
    from checkrail.config.agent_models import ModelConfig
    from checkrail.config.agent_tools import McpConfig, ToolConfig
    from checkrail.config.agents import AgentConfig
    from checkrail.config.loader import Loaded
    from checkrail.engine.asks import AskHandler
    from checkrail.engine.scope import Sink


class AgentBuilder:
    """Builds the agents of a file, each once.

    `hooks` is the level around all of them, that of the file's own hooks; each agent's are within.
    Give one to have it shared or reloaded, else it is made of the file; `ask` and `sink` are for
    the one that is made. `levels` are those of agents whose own hooks are kept elsewhere: they
    stand in the place of the file's.
    """

    def __init__(
        self,
        loaded: Loaded,
        *,
        hooks: HookRegistry | None = None,
        levels: Mapping[str, HookRegistry] | None = None,
        ask: AskHandler | None = None,
        sink: Sink | None = None,
    ) -> None:
        self.loaded = loaded
        self.hooks = _build_registry(loaded, ask, sink) if hooks is None else hooks
        self.levels = levels or {}
        self.made: dict[str, Agent] = {}

    def build(self, name: str) -> Agent:
        """Build an agent, and those that it calls."""
        if name not in self.made:
            self.made[name] = self._build_agent(self._find_config(name))
        return self.made[name]

    async def wait_for_background_hooks(self) -> None:
        """Wait for the background hooks of all agents."""
        own = (agent.registry for agent in self.made.values())
        for level in (self.hooks, *self.levels.values(), *own):
            await level.aclose()

    def _find_config(self, name: str) -> AgentConfig:
        known = self.loaded.agents
        if name not in known:
            told = f"there is no agent {name!r}{suggestion(name, known)}"
            raise CheckrailError(f"{told}. The agents are: {', '.join(known) or 'none'}")
        config = known[name]
        if config.model is None:
            raise CheckrailError(f"{config.source}: agents of type {config.kind} cannot run here")
        return config

    def _build_agent(self, config: AgentConfig) -> Agent:
        limits = {"max_iterations": config.max_iterations, "model_timeout": config.model_timeout}
        options: dict[str, Any] = {name: said for name, said in limits.items() if said is not None}
        tools = [*self._build_tools(config.tools)]
        own = self.levels.get(config.name)
        try:
            agent = Agent(
                _build_model(config.model),  # type: ignore[arg-type]
                [*tools, *map(_build_server, config.mcp)],
                config.system_prompt,
                self.hooks if own is None else (self.hooks, own),
                config.output_schema,
                name=config.name,
                description=config.description,
                **options,
            )
        except (CheckrailError, TypeError, ValueError) as error:
            raise CheckrailError(f"{config.source}: {error}") from error
        if own is None:
            agent.registry.swap(config.hooks)
        return agent

    def _build_tools(self, tools: Sequence[ToolConfig]) -> Iterator[Any]:
        for tool in tools:
            if tool.agent is not None:
                yield self.build(tool.agent)
            yield from tool.given


def build_agent(loaded: Loaded, name: str, *, ask: AskHandler | None = None) -> Agent:
    """Build an agent of a file; `ask` puts the questions of hooks to a person."""
    return AgentBuilder(loaded, ask=ask).build(name)


def check_tools(owner: str, given: Sequence[Any]) -> list[str]:
    """Return the names of tools, or raise what is wrong with one of them."""
    Toolbox(owner, given)
    return [name for item in given if (name := _tool_name(item))]


def _tool_name(tool: Any) -> str:
    """Return the name of a tool; those of a source are not known before it is connected."""
    return str(getattr(tool, "name", None) or getattr(tool, "__name__", ""))


def _build_registry(loaded: Loaded, ask: AskHandler | None, sink: Sink | None) -> HookRegistry:
    settings = loaded.settings
    options = {"history": settings.history, "max_retries": settings.max_retries}
    said: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    level = HookRegistry(sink, ask=ask, **said)
    level.swap(loaded.specs)
    return level


def _build_model(config: ModelConfig) -> Model:
    if config.given is not None:
        return config.given  # type: ignore[no-any-return]
    if config.provider not in PROVIDERS:
        return ScriptedModel(config.replies, name=config.name)
    return named_model(f"{config.provider}/{config.name}", **config.options)


def _build_server(config: McpConfig) -> Any:
    from checkrail.agent.tools.mcp import mcp_http, mcp_stdio

    if config.url:
        return mcp_http(config.url, **config.options)
    return mcp_stdio(*config.command, **config.options)
