"""`checkrail check` says whether a file is right, what it will do, and what is hardly meant."""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from inspect import unwrap
from pathlib import Path
from types import CodeType
from typing import TYPE_CHECKING, Any

import click
from rich.table import Table

from checkrail.actions.agent import UNSERVED
from checkrail.cli.extras import is_installed
from checkrail.cli.files import print_problems, read_config
from checkrail.cli.output import cell, console, new_table, print_table, to_json_text
from checkrail.config.gateway import NOT_SAID, public_upstreams
from checkrail.config.plan import build_hook_row
from checkrail.config.problems import Problem
from checkrail.engine.errors import suggestion
from checkrail.engine.hook_checks import fail_open_advice
from checkrail.engine.matchers import compile_pattern
from checkrail.engine.points import LOOP_POINTS, Decision, HookPoint
from checkrail.engine.registry import HookRegistry

if TYPE_CHECKING:
    from rich.console import Console

    from checkrail.config.agents import AgentConfig
    from checkrail.config.gateway import GatewayConfig, UpstreamConfig
    from checkrail.config.loader import Loaded
    from checkrail.engine.hook import HookSpec


def build_upstream_rows(upstreams: Iterable[UpstreamConfig]) -> dict[str, dict[str, Any]]:
    """Return upstreams in the order in which they are tried, without secrets."""
    rows: dict[str, dict[str, Any]] = {}
    for each in upstreams:
        key = "its own" if each.key else "caller's"
        told = {"format": [], "models": [*each.models], "key": key}
        rows.setdefault(each.name, told)["format"].append(each.format)
    return rows


def build_upstreams_table(rows: dict[str, dict[str, Any]]) -> Table:
    """Return a table of the upstreams, one a line."""
    table = new_table("  upstream", "speaks", "models", "key", folded={"models"})
    for name, row in rows.items():
        speaks, models = (cell(", ".join(row[key])) for key in ("format", "models"))
        table.add_row(cell(f"  {name}", "bold"), speaks, models, row["key"])
    return table


def build_gateway_row(config: GatewayConfig) -> dict[str, Any]:
    """Return who may call a gateway, and what it passes on unseen by hooks, without secrets."""
    said = config.pass_through
    unseen: Any = [str(each) for each in said] if isinstance(said, tuple) else said
    return {"keys": [*config.keys], "pass_through": not config.keys if unseen is None else unseen}


def describe_gateway(row: dict[str, Any]) -> str:
    """Return who may call a gateway, and what passes it, as two lines."""
    keys, unseen = row["keys"], row["pass_through"]
    passes = ", ".join(unseen) if isinstance(unseen, list) else ""
    passes = "everything else under /v1 and /v1beta" if unseen is True else passes or "nothing else"
    who = f"with a key: {', '.join(keys)}" if keys else "from this machine"
    return f"  called {who}\n  passed on without hooks: {passes}"


Plan = dict[str, list[dict[str, Any]]]


def build_plan(specs: Iterable[HookSpec]) -> tuple[Plan, list[str]]:
    """Return the hooks of one level by their points, in order, and those that are switched off."""
    specs = list(specs)
    registry = HookRegistry()
    registry.swap(specs)
    plan = {
        str(point): [build_hook_row(bound) for bound in registry.bound_hooks(point)]
        for point in HookPoint
        if registry.has(point)
    }
    return plan, [spec.name for spec in specs if spec.mode == "off"]


def build_agent_row(agent: AgentConfig) -> dict[str, Any]:
    """Return what is known of an agent before it runs, without secrets."""
    plan, off = build_plan(agent.hooks)
    return {
        "type": agent.kind,
        "model": agent.model.label if agent.model else None,
        "path": agent.path or None,
        "command": agent.command[0] if agent.command else None,
        "description": getattr(agent.description, "written", agent.description),
        "tools": [name for tool in agent.tools for name in tool.names or (tool.label,)],
        "mcp": [server.name for server in agent.mcp],
        "max_iterations": agent.max_iterations,
        "model_timeout": agent.model_timeout,
        "plan": plan,
        "off": off,
    }


def build_agents_table(rows: dict[str, dict[str, Any]]) -> Table:
    """Return a table of the agents, one a line."""
    table = new_table("  agent", "type", "model", "calls", folded={"calls"})
    for name, row in rows.items():
        model = row["model"] or row["path"] or row["command"] or ""
        calls = [*row["tools"], *(f"{server} (MCP)" for server in row["mcp"])]
        table.add_row(cell(f"  {name}", "bold"), row["type"], cell(model), cell(", ".join(calls)))
    return table


HEADING = "bold cyan"


@click.command(epilog="Example: checkrail check checkrail.yaml")
@click.argument("file", type=click.Path(path_type=Path), default=".")
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
def command(file: Path, *, as_data: bool) -> None:
    """Validate FILE and print the plan: each point, each hook in order, agents, upstreams.

    FILE is YAML, JSON or TOML, or the folder of a project; this folder unless given. All of its
    problems are told at once, with their lines.
    """
    loaded = read_config(file, as_data=as_data)
    if loaded.file is not None and file.is_dir():
        file /= loaded.file.name
    told_of = (*_relevant_warnings(loaded), *find_advice(loaded))
    notes = (*loaded.notes, *older_spellings(loaded))
    plan, off = build_plan(loaded.specs)
    agents = {name: build_agent_row(agent) for name, agent in loaded.agents.items()}
    upstreams = _find_upstreams(loaded)
    gateway = None if loaded.gateway is NOT_SAID else build_gateway_row(loaded.gateway)
    if as_data:
        warnings = [dataclasses.asdict(warning) for warning in told_of]
        told = {"file": str(file), "ok": True, "warnings": warnings, "plan": plan, "off": off}
        more: dict[str, Any] = {"agents": agents, "upstreams": upstreams, "gateway": gateway}
        more["notes"] = [dataclasses.asdict(note) for note in notes]
        click.echo(to_json_text(told | {name: rows for name, rows in more.items() if rows}))
        return
    print_problems(told_of, "yellow", "warning: ")
    print_problems(notes, "dim", "note: ")
    out = console()
    _print_plan(out, plan, off)
    _print_agents(out, agents)
    if gateway:
        out.print("gateway", style=HEADING)
        if upstreams:
            print_table(out, build_upstreams_table(upstreams))
        out.print(cell(describe_gateway(gateway)))
        out.print()
    out.print(f"{file}: {_count_hooks(plan, agents)}{_count_agents(agents)}")


def _relevant_warnings(loaded: Loaded) -> list[Problem]:
    """Return the warnings of a file, without those that only hold where no server runs."""
    served = bool(loaded.agents)
    return [each for each in loaded.warnings if not (served and UNSERVED in each.found)]


def _find_upstreams(loaded: Loaded) -> dict[str, dict[str, Any]]:
    """Return where a gateway would go, if the file configures one."""
    said = loaded.gateway.upstreams
    return {} if said == public_upstreams() else build_upstream_rows(said)


def _print_plan(out: Console, plan: Plan, off: list[str], agent: str = "") -> None:
    of, within = (f" of {agent}", f" in {agent}") if agent else ("", "")
    for point, rows in plan.items():
        out.print(cell(point, HEADING) + cell(of))
        print_table(out, build_plan_table(rows))
        out.print()
    if off:
        out.print(cell(f"switched off{within}: {', '.join(off)}", "dim"))


def _print_agents(out: Console, agents: dict[str, dict[str, Any]]) -> None:
    if not agents:
        return
    out.print("agents", style=HEADING)
    print_table(out, build_agents_table(agents))
    out.print()
    for name, row in agents.items():
        _print_plan(out, row["plan"], row["off"], name)


def _count_hooks(plan: Plan, agents: dict[str, dict[str, Any]]) -> str:
    """Return how many hooks the file and its agents have, each counted once."""
    plans = [plan, *(row["plan"] for row in agents.values())]
    count = sum(len({row["name"] for rows in each.values() for row in rows}) for each in plans)
    points = {point for each in plans for point in each}
    noun = "hook" if count == 1 else "hooks"
    return f"{count} {noun} at {len(points)} of {len(HookPoint)} points"


def _count_agents(agents: dict[str, dict[str, Any]]) -> str:
    noun = "agent" if len(agents) == 1 else "agents"
    return f", {len(agents)} {noun}" if agents else ""


Told = tuple[str, str]
"""What was found, and what to do about it."""


def graph_advice(loaded: Loaded, agent: AgentConfig) -> Iterator[Told]:
    """Import a graph as the server would, and yield what is wrong with it."""
    if not is_installed("langgraph.pregel"):
        yield "it needs the package langgraph, which is not installed here", _EXTRA
        return
    from checkrail.adapters.langchain import out_of_reach
    from checkrail.config.problems import ConfigError
    from checkrail.runs.graphs.factories import GraphError, GraphFactory
    from checkrail.runs.graphs.loader import prepare_graph

    label = f"the graph {agent.name!r}"
    try:
        found = loaded.load_object(agent.path, label)
        graph = asyncio.run(prepare_graph(found, agent.name))
    except ConfigError as error:
        yield from ((str(problem), "the server will not start so") for problem in error.problems)
    except GraphError as error:
        yield loaded.scrub(str(error)), "the server will not start so"
    else:
        if isinstance(graph, GraphFactory):
            yield f"{agent.path} makes a graph for each run: what is in it was not looked at", _DOCS
            return
        yield from ((f"out of the hooks' reach: {each}", _DOCS) for each in out_of_reach(graph))


_EXTRA = 'pip install "checkrail[server]"'
_DOCS = "see docs/run-hooks.md"


_READ = ("read", "search")


def auth_advice(loaded: Loaded) -> Iterator[tuple[str, str]]:
    """Yield handlers that let all users see all threads, and what gives each their own."""
    said = loaded.server.auth
    if said is None or not said.path or said.isolate or not is_installed("langgraph_sdk"):
        return
    from langgraph_sdk import Auth

    from checkrail.config.problems import ConfigError
    from checkrail.server.auth.handlers import find_authorization_handler

    try:
        auth = loaded.load_object(said.path, "auth.path", Auth)
    except ConfigError as error:
        yield from ((str(problem), "the server will not start so") for problem in error.problems)
        return
    asked = (find_authorization_handler(auth, "threads", action) for action in _READ)
    handlers = {id(each): each for each in asked if each is not None and never_filters(each)}
    for handler in handlers.values():
        name = getattr(handler, "__name__", type(handler).__name__)
        yield (
            f"{name!r} in {said.path} returns no filter: users may read each other's threads",
            "return one, as in {'owner': ctx.user.identity}, or say auth: {isolate: owner}",
        )


def never_filters(handler: Callable[..., Any]) -> bool:
    """Return whether a handler's code can be seen to answer only yes or no."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(inspect.unwrap(handler))))
    except (OSError, TypeError, SyntaxError):
        return False
    if not tree.body or not isinstance(tree.body[0], (ast.FunctionDef, ast.AsyncFunctionDef)):
        return False
    values = (node.value for node in _iter_statements(tree.body[0]) if isinstance(node, ast.Return))
    return all(value is None or isinstance(value, ast.Constant) for value in values)


def _iter_statements(function: ast.AST) -> Iterator[ast.AST]:
    """Yield what a function consists of, without the functions inside it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            yield child
            yield from _iter_statements(child)


EXTRAS = {"openai": "checkrail[openai]", "anthropic": "checkrail[anthropic]", "litellm": "litellm"}


def find_advice(loaded: Loaded) -> tuple[Problem, ...]:
    """Return what is no mistake in a file, but hardly what was meant."""
    agents = loaded.agents.values()
    known = _tool_names(loaded)
    specs = (*loaded.specs, *(spec for agent in agents for spec in agent.hooks))
    holding = [agent.name for agent in agents if _has_unresumable_work(agent)]
    of_hooks = (problem for spec in specs for problem in _hook_advice(spec, known, holding))
    of_agents = (problem for agent in agents for problem in _agent_advice(agent))
    of_graphs = (*_graphs_advice(loaded), *_unfired_hooks_advice(loaded))
    restoring = _restore_advice(loaded)
    of_places = (*_server_advice(loaded), *_gateway_advice(loaded))
    return (*of_hooks, *restoring, *of_agents, *of_graphs, *of_places)


def _restore_advice(loaded: Loaded) -> Iterator[Problem]:
    """Yield which redactions are not taken back in the agents of a file."""
    for spec in loaded.specs if loaded.agents else ():
        if spec.restores:
            found = "`restore` holds at the gateway: in the agents of this file nothing is put back"
            hint = "a tool that needs the secret gets [redacted] there"
            yield _build_problem(spec, found, hint)


OLDER = {"timeout_seconds": "timeout", "enabled": 'mode="off"', "failure_mode": "on_error"}
"""Options of hooks in Python that are accepted, and what they are called now."""


def older_spellings(loaded: Loaded) -> tuple[Problem, ...]:
    """Return which hooks in Python say an option in an older word."""
    agents = loaded.agents.values()
    specs = (*loaded.specs, *(spec for agent in agents for spec in agent.hooks))
    return tuple(
        _build_problem(spec, f"`{key}` is an older spelling", f"write {current}")
        for spec in specs
        if spec.source.rpartition(":")[0].endswith(".py")
        for key, current in OLDER.items()
        if key in spec.said and not (key == "failure_mode" and _is_lifecycle(spec))
    )


def _is_lifecycle(spec: HookSpec) -> bool:
    """Return whether a hook is of the style whose own word `failure_mode` is."""
    called: Any = spec.fn
    while not hasattr(called, "__self__") and hasattr(called, "func"):
        called = called.func
    return "failure_mode" in getattr(getattr(called, "__self__", None), "hook_options", {})


def _server_advice(loaded: Loaded) -> Iterator[Problem]:
    """Yield what the server's settings mean on this machine, and for its users."""
    file = loaded.file.name if loaded.file is not None else "the config"
    for found, hint in auth_advice(loaded):
        yield Problem(file, None, "auth", found, hint=hint)
    if loaded.server.store.index:
        from checkrail.runs.graphs.checkpoints import NO_INDEX, can_index

        if not can_index(loaded.server.database):
            found, _, hint = NO_INDEX.partition(". ")
            yield Problem(file, None, "store", found, hint=hint)


ASKING_AT = {HookPoint.BEFORE_LLM_CALL, HookPoint.AFTER_LLM_CALL, HookPoint.BEFORE_TOOL_CALL}
"""Points of a gateway at which a hook may ask."""


def _gateway_advice(loaded: Loaded) -> Iterator[Problem]:
    """Yield advice on hooks that ask, in a file for a gateway that runs alone."""
    if loaded.gateway == NOT_SAID or loaded.agents:
        return
    for spec in loaded.specs:
        points = {place.point for place in spec.places} & ASKING_AT
        if points and Decision.ASK in (spec.decisions or ()) and spec.mode == "enforce":
            at = ", ".join(sorted(map(str, points)))
            found = f"it asks at {at}, where `checkrail gateway` and `with` have nobody to ask"
            yield _build_problem(spec, found, "start the gateway with --approvals, or use serve")


def _graphs_advice(loaded: Loaded) -> Iterator[Problem]:
    for agent in loaded.agents.values():
        if agent.kind == "graph" and agent.path:
            for found, hint in graph_advice(loaded, agent):
                yield _build_problem(agent, found, hint)


def _has_unresumable_work(agent: AgentConfig) -> bool:
    """Return whether there is work in an agent that cannot be left and entered again."""
    calls_agents = any(tool.agent is not None for tool in agent.tools)
    return calls_agents or (agent.kind == "procedural" and bool(agent.path))


def _hook_advice(spec: HookSpec, known: list[str], holding: list[str]) -> Iterator[Problem]:
    for pattern in spec.match.get("tools", ()) if known else ():
        if not any(compile_pattern(pattern)(name) for name in known):
            written = str(getattr(pattern, "written", getattr(pattern, "pattern", pattern)))
            hint = suggestion(written, known).strip(" ()") or f"they have: {', '.join(known)}"
            yield _build_problem(spec, f"no agent of this file has a tool {written!r}", hint)
    for found, hint in getattr(spec.when, "advice", ()):
        yield _build_problem(spec, found, hint)
    points = {place.point for place in spec.places}
    if holding and Decision.ASK in (spec.decisions or ()) and points & LOOP_POINTS:
        at, names = ", ".join(sorted(map(str, points & LOOP_POINTS))), ", ".join(holding)
        found = f"a run that asks at {at} is held by its process until it is answered"
        where = f"inside a function, or an agent that is a tool ({names})"
        yield _build_problem(spec, f"{found}, {where}", "elsewhere it waits as a row")
    if spec.redacts and HookPoint.BEFORE_FINAL_RESPONSE in points and known:
        hint = "at after_llm_call it sees every answer"
        yield _build_problem(
            spec, "it does not see the text beside tool calls, which is kept too", hint
        )

    yield from _open_lane_advice(spec)
    if (blocking := _blocking_call(spec)) is not None:
        found = f"it calls {blocking} inline, and meanwhile nothing else goes on in its process"
        yield _build_problem(
            spec, found, "make it a plain def and say thread: true, or await instead"
        )


def _open_lane_advice(spec: HookSpec) -> Iterator[Problem]:
    """Yield advice on a Python hook that refuses, but lets everything pass when it fails."""
    registry = HookRegistry()
    registry.swap([spec])
    bounds = (bound for place in spec.places for bound in registry.bound_hooks(place.point))
    found = next(filter(None, map(fail_open_advice, bounds)), None)
    if found is not None:
        problem, option, word = found
        in_python = spec.source.rpartition(":")[0].endswith(".py")
        yield _build_problem(
            spec, problem, f'say {option}="{word}"' if in_python else f"say {option}: {word}"
        )


BLOCKING = {
    "requests": ("delete", "get", "head", "patch", "post", "put", "request", "Session"),
    "subprocess": ("Popen", "call", "check_call", "check_output", "run"),
    "time": ("sleep",),
    "urllib": ("urlopen",),
}
"""Functions that wait without letting anybody else go on, by the modules they are called by."""


def _blocking_call(spec: HookSpec) -> str | None:
    """Return what a hook calls that would stall the event loop, as far as its code tells."""
    code = getattr(unwrap(spec.fn), "__code__", None)
    if spec.thread or not isinstance(code, CodeType):
        return None
    for module, names in BLOCKING.items():
        called = next((name for name in names if name in code.co_names), None)
        if module in code.co_names and called is not None:
            return f"{module}.{called}"
    return None


UNFIRED = {HookPoint.BEFORE_FINAL_RESPONSE, HookPoint.QUERY_END}
"""Points of Checkrail's own loop, which a graph does not come by."""


def _unfired_hooks_advice(loaded: Loaded) -> Iterator[Problem]:
    """Yield advice on hooks that no agent of the file will ever fire."""
    kinds = {agent.kind for agent in loaded.agents.values()}
    for spec in loaded.specs if kinds == {"graph"} else ():
        points = {place.point for place in spec.places}
        if points and points <= UNFIRED:
            at = ", ".join(sorted(map(str, points)))
            yield _build_problem(spec, f"no graph fires {at}", "use after_llm_call or on_result")


def _build_problem(of: HookSpec | AgentConfig, found: str, hint: str) -> Problem:
    file, _, line = of.source.rpartition(":")
    if not line.isdigit():
        file, line = of.source, ""
    return Problem(file, int(line) if line else None, repr(of.name), found, hint=hint)


def _tool_names(loaded: Loaded) -> list[str]:
    """Return the tools of all agents; none if some of them are only known when they run."""
    agents = loaded.agents.values()
    if any(agent.mcp or agent.path or agent.kind != "autonomous" for agent in agents):
        return []
    return [name for agent in agents for tool in agent.tools for name in tool.names]


def _agent_advice(agent: AgentConfig) -> Iterator[Problem]:
    provider = agent.model.provider if agent.model is not None else ""
    needed = {provider: EXTRAS[provider]} if provider in EXTRAS else {}
    if agent.mcp:
        needed["mcp"] = "checkrail[mcp]"
    for package, extra in needed.items():
        if find_spec(package) is None:
            found = f"it needs the package {package}, which is not installed here"
            yield _build_problem(agent, found, f'pip install "{extra}"')


TITLES = ("  #", "hook", "does", "lane", "priority", "matches", "timeout", "on_error", "mode")
FOLDED = frozenset({"does", "matches", "on_error"})


def build_plan_table(rows: Iterable[dict[str, Any]]) -> Table:
    """Return a table of the hooks of one point in the order in which they run."""
    table = new_table(*TITLES, folded=FOLDED)
    for number, row in enumerate(rows, 1):
        table.add_row(
            f"  {number}",
            cell(row["name"], "bold"),
            cell(_describe_target(row)),
            row["lane"] + _describe_mode(row),
            str(row["priority"]),
            cell(_describe_matchers(row) or "everything"),
            "none" if row["timeout"] is None else f"{row['timeout']:g} s",
            _describe_on_error(row["on_error"], over=row["declared"] == "on_run_finish"),
            cell(row["mode"], "" if row["mode"] == "enforce" else "yellow"),
        )
    return table


def _describe_target(row: dict[str, Any]) -> str:
    """Return what a hook calls, or what a rule may decide."""
    return f"rule: {', '.join(row['may'])}" if row["type"] == "rule" else str(row["target"])


def _describe_mode(row: dict[str, Any]) -> str:
    """Return how a hook stands in its lane, if not in the usual way."""
    if row["background"]:
        return " (background)"
    return "" if row["stream"] == "whole" else f" ({row['stream']})"


def _describe_matchers(row: dict[str, Any]) -> str:
    parts = [f"{field}: {', '.join(found)}" for field, found in row["match"].items()]
    if row["when"]:
        parts.append(f"when: {row['when']}" if isinstance(row["when"], str) else "when: (code)")
    return "; ".join(parts)


def _describe_on_error(policy: dict[str, str], *, over: bool) -> str:
    """Return what failures do; where a run is `over`, a block can only be logged."""
    usual = policy["error"]
    others = [f"{kind}: {what}" for kind, what in policy.items() if what != usual]
    text = ", ".join([usual, *others])
    return f"{text} (logged as an error: the run is over)" if over and "block" in text else text
