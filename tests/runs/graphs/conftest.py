"""A way to run graphs that keeps what they tell."""

import uuid

import pytest

from checkrail.runs.graphs.execution import GraphRequest, execute_graph
from checkrail.runs.jsons import jsonable


class Ran:
    """What an execution told, and what it came to."""

    def __init__(self, run_id):
        self.run_id = run_id
        self.events = []
        self.outcome = None

    def of(self, event):
        return [data for name, _, data in self.events if name == event]

    def emit(self, event, ns, data):
        self.events.append((event, ns, jsonable(data)))


@pytest.fixture
def thread_id():
    return str(uuid.uuid4())


@pytest.fixture
def run(thread_id):
    """Run a graph on the test's thread, and give what it told."""

    async def run(graph, input=None, *, modes=("values",), run_id=None, **options):
        ran = Ran(run_id or str(uuid.uuid4()))
        request = GraphRequest(
            thread_id=options.pop("thread_id", thread_id),
            run_id=ran.run_id,
            input=input,
            modes=frozenset(modes),
            **options,
        )
        ran.outcome = await execute_graph(graph, request, ran.emit)
        return ran

    return run
