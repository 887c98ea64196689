"""A run that is ready to be executed, and what its body tells."""

import pytest

from checkrail import HookRegistry
from checkrail.config import AgentConfig
from checkrail.engine.values import User
from checkrail.runs.execute.job import Job
from checkrail.runs.execute.live_run import EventLimitError
from checkrail.runs.jsons import dumps, jsonable
from checkrail.store.events import RunEvent


class Told:
    """Keeps what a body tells, up to a limit."""

    def __init__(self, most):
        self.events = []
        self.most = most

    def emit(self, event, ns, data):
        if self.most is not None and len(self.events) >= self.most:
            raise EventLimitError("the run told too much")
        assert ns == ()
        self.events.append((event, jsonable(data)))

    def of(self, event, type=None):
        found = [data for name, data in self.events if name == event]
        return found if type is None else [data for data in found if data["type"] == type]

    def text(self, type="text_delta"):
        return "".join(data["text"] for data in self.of("custom", type))

    @property
    def stored(self):
        numbered = enumerate(self.events, 1)
        return [RunEvent(seq, event, (), raw=dumps(data)) for seq, (event, data) in numbered]


@pytest.fixture
def make_work():
    """Make a run; `agent` says what its config has, `most` how much it may tell."""

    def made(parameters=None, *, scope=None, agent=None, most=None, **more):
        told = Told(most)
        ids = {"run_id": "r-1", "thread_id": "t-1", "session_id": "s-1", "attempt": 2}
        ids |= {name: more.pop(name) for name in ids.keys() & more.keys()}
        user = User("ann")
        work = Job(
            **ids,
            agent=AgentConfig("helper", "checkrail.yaml", **(agent or {})),
            parameters=parameters,
            scope=(scope or HookRegistry().scope()).bind(**ids, user=user),
            emit=told.emit,
            user=user,
            **more,
        )
        return work, told

    return made
