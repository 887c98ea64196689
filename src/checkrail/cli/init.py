"""`checkrail init` makes a project that runs, offline and without keys."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from checkrail.cli.app import REFUSED_FILE
from checkrail.cli.extras import PACKAGES, is_installed
from checkrail.cli.output import console, to_json_text

SCHEMA = "checkrail.schema.json"

CONFIG = f"""\
# yaml-language-server: $schema=./{SCHEMA}
agents:
  agent: ./agent.py:graph # a LangGraph graph
hooks:
  path: ./hooks.py:hooks # hooks around every run, in Python
  before_tool_call: # a rule without code: the model is told why
    - name: order_numbers
      tools: [lookup]
      when: '!text(tool_call.args.order).startsWith("A-")'
      block: Order numbers begin with A-
"""

AGENT = '''\
"""A LangGraph agent that runs offline: a model that follows a script, and one tool."""

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def lookup(order: str) -> str:
    """Look up an order by its number."""
    return f"Order {order} is on its way."


class ScriptedModel(BaseChatModel):
    """Asks for the tool, then says what the tool said. Put a real model in its place."""

    @property
    def _llm_type(self):
        return "scripted"

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        last = messages[-1]
        if isinstance(last, ToolMessage):
            answer = AIMessage(last.content)
        else:
            order = str(last.content).split()[-1].strip("?!.") if last.content else ""
            call = {"name": "lookup", "args": {"order": order}, "id": f"call-{len(messages)}"}
            answer = AIMessage("", tool_calls=[call])
        return ChatResult(generations=[ChatGeneration(message=answer)])


model = ScriptedModel()


def ask(state: MessagesState):
    return {"messages": [model.invoke(state["messages"])]}


builder = StateGraph(MessagesState)
builder.add_node("model", ask)
builder.add_node("tools", ToolNode([lookup]))
builder.add_edge(START, "model")
builder.add_conditional_edges("model", tools_condition)
builder.add_edge("tools", "model")
graph = builder.compile()
'''

HOOKS = '''\
"""Hooks around every run. The graph knows nothing of them."""

import logging

from checkrail.hooks import RunContext, RunHooks

log = logging.getLogger("audit")
EXPIRED = {"bob"}

hooks = RunHooks()


@hooks.before_run
async def subscription(ctx: RunContext):
    """Refuse a run before it is queued: the client gets this status, and the reason."""
    if ctx.user.identity in EXPIRED:
        raise hooks.RejectRun("Active subscription required", status_code=402)


@hooks.after_run
async def completed(ctx: RunContext):
    log.info("run %s of %s: %s", ctx.run_id, ctx.graph_id, ctx.status)


@hooks.on_run_error
async def failed(ctx: RunContext):
    log.error("run %s of %s: %s", ctx.run_id, ctx.graph_id, ctx.error)
'''

README = """\
# An agent with hooks

    pip install "checkrail[server]"
    checkrail check checkrail.yaml
    checkrail dev

The server is then at http://127.0.0.1:2024. Ask it something:

```python
from langgraph_sdk import get_sync_client

client = get_sync_client(url="http://127.0.0.1:2024")
thread = client.threads.create()
question = {"messages": [{"role": "user", "content": "Where is order A-17?"}]}
print(client.runs.wait(thread["thread_id"], "agent", input=question)["messages"][-1]["content"])
```

Ask for order B-17 to see the rule in `checkrail.yaml` at work, beside the hooks in `hooks.py`.
`agent.py` is the graph: put a real model into it when you have seen enough of the script.

Editors that know JSON Schema complete and check `checkrail.yaml` by `checkrail.schema.json`. After
an upgrade, `checkrail schema --file > checkrail.schema.json` writes it anew.
"""

IGNORED = """\
.checkrail/
.env
.venv/
__pycache__/
"""

OWN = {"checkrail.yaml": CONFIG, "agent.py": AGENT, "hooks.py": HOOKS}
"""Files that are the project; the schema of the first is made when it is written."""

SHARED = {".gitignore": IGNORED, "README.md": README}
"""Files that a folder may well have already: then it keeps its own."""


@click.command(epilog="Example: checkrail init my-project")
@click.argument("folder", metavar="[DIR]", default=".", type=click.Path(path_type=Path))
@click.option("--json", "as_data", is_flag=True, help="Print the result as JSON.")
def command(folder: Path, *, as_data: bool) -> None:
    """Make a project in DIR that runs: a file, a graph, hooks. Nothing is overwritten.

    The graph asks a model that follows a script, so it needs no key and no network.
    """
    if problem := _find_problem(folder):
        _refuse_folder(folder, problem, as_data=as_data)
    try:
        created = _write_files(folder)
    except OSError as error:
        _refuse_folder(folder, f"cannot be written to: {error.strerror or error}", as_data=as_data)
    kept = [name for name in SHARED if name not in created]
    steps = _next_steps(folder)
    if as_data:
        told = {"folder": str(folder), "ok": True, "created": created, "kept": kept, "next": steps}
        click.echo(to_json_text(told))
        return
    out = console()
    out.print(f"{folder}: made {', '.join(created)}")
    if kept:
        out.print(f"kept as they were: {', '.join(kept)}", style="dim")
    out.print("\nNext:")
    for step in steps:
        out.print(f"  {step}", style="bold")


def _find_problem(folder: Path) -> str:
    """Return why no project can be made in a folder, if so."""
    from checkrail.config.project import OTHER_FILES, OWN_FILES

    if folder.exists() and not folder.is_dir():
        return "is a file, and no folder"
    there = [name for name in (*OWN_FILES, *OTHER_FILES) if (folder / name).exists()]
    if there:
        return f"has {there[0]} already: start it with `checkrail dev`"
    taken = [name for name in (*OWN, SCHEMA) if (folder / name).exists()]
    if taken:
        return f"has {' and '.join(taken)} already: choose another folder, or move them"
    return ""


def _refuse_folder(folder: Path, problem: str, *, as_data: bool) -> None:
    if as_data:
        click.echo(to_json_text({"folder": str(folder), "ok": False, "problem": problem}))
    else:
        told = f"{folder} {problem}. Nothing was written."
        console(stderr=True).print(told, style="bold red")
    sys.exit(REFUSED_FILE)


def _write_files(folder: Path) -> list[str]:
    """Write the files, and never over another."""
    from checkrail.config.json_schema import file_schema

    folder.mkdir(parents=True, exist_ok=True)
    shared = {name: text for name, text in SHARED.items() if not (folder / name).exists()}
    files = {**OWN, SCHEMA: f"{json.dumps(file_schema(), indent=2)}\n", **shared}
    for name, text in files.items():
        with (folder / name).open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    return [*files]


def _next_steps(folder: Path) -> list[str]:
    steps = [] if folder.resolve() == Path.cwd() else [f"cd {folder}"]
    if not all(map(is_installed, PACKAGES["server"])):
        steps.append('pip install "checkrail[server]"')
    return [*steps, "checkrail check checkrail.yaml", "checkrail dev"]
