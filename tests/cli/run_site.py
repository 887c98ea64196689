"""A project whose runs go well, wait, fail and are blocked, and its server."""

import json
import textwrap

import httpx2

PROJECT = """
    agents:
      echo: ./graphs.py:echo
      held: ./graphs.py:held
      failing: ./graphs.py:failing
      asking: ./graphs.py:asking
    auth: { keys: true }
    hooks:
      before_run:
        - { name: stamp, path: "./own.py:stamp" }
        - { name: closed, when: parameters.text == "closed", block: We are closed }
      on_run_start:
        - name: limit
          when: has(parameters.amount) && parameters.amount > 1000
          block: Transfers over 1000 need the finance desk
      on_result:
        - { name: nap, path: "./own.py:nap" }
      after_run:
        - { name: report, path: "./own.py:report" }
"""

OWN = """
    import asyncio
    from checkrail import Continue

    def stamp(event, value):
        return Continue({**value, "stamped": True})

    async def nap(event):
        await asyncio.sleep(0.05)

    def report(event):
        raise ValueError("\\x1b[31mnobody listens")
"""

GRAPHS = """
    import asyncio
    from operator import add
    from pathlib import Path
    from typing import Annotated
    from langgraph.graph import START, StateGraph
    from langgraph.types import interrupt
    from typing_extensions import TypedDict

    class State(TypedDict, total=False):
        text: str
        amount: int
        stamped: bool
        until: str
        log: Annotated[list[str], add]

    async def hold(state):
        while not Path(state["until"]).exists():
            await asyncio.sleep(0.01)
        return {"log": ["let go"]}

    def fail(state):
        raise ValueError("the tank is empty [/red]")

    def ask(state):
        return {"log": [interrupt("sure?")]}

    def graph(node):
        return StateGraph(State).add_node("node", node).add_edge(START, "node").compile()

    echo = graph(lambda state: {"log": [state["text"]]})
    held, failing, asking = graph(hold), graph(fail), graph(ask)
"""


def made_project(folder):
    for name, text in (("checkrail.yaml", PROJECT), ("own.py", OWN), ("graphs.py", GRAPHS)):
        (folder / name).write_text(textwrap.dedent(text).lstrip("\n"))
    return folder / "checkrail.yaml"


class Site:
    """A server, and whoever has a key to it."""

    def __init__(self, served):
        self.served = served
        self.key = self.key_for("root", "admin")

    @property
    def url(self):
        return self.served.url

    def key_for(self, name, role):
        told = self.served.run("keys", "create", name, "--role", role, "--json")
        return json.loads(told)["key"]

    def ask(self, path="/runs", agent="echo", key=None, **input):
        """Ask for a run, and give the answer."""
        headers = {"x-api-key": key or self.key}
        body = {"assistant_id": agent, "input": {"text": "hello", **input}}
        return httpx2.post(f"{self.url}{path}", json=body, headers=headers, timeout=60)

    def ended(self, agent="echo", key=None, **input):
        """Carry out a run, and give its id."""
        answer = self.ask("/runs/wait", agent, key, **input)
        if answer.status_code != 200:
            return answer.json()["info"]["run_id"]
        return answer.headers["content-location"].rpartition("/")[2]

    def begun(self, until, key=None):
        """Begin a run that goes on until there is a file, and give its id."""
        return self.ask("/runs", "held", key, until=str(until)).json()["run_id"]
