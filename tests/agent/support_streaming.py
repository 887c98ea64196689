"""What the tests of streaming share: a model that is let to talk, and ears that listen."""

import asyncio
import re

from checkrail.agent import Finished, HookCalled, TextDelta
from checkrail.engine.outcomes import Continue
from checkrail.engine.values import AssistantMessage
from checkrail.testing import ScriptedModel

SECRET = "B-123456"
HIDDEN = "[badge]"


class PacedModel(ScriptedModel):
    """Streams its pieces, then waits until it may finish; what it does after that is scripted.

    `said` is set when all pieces were taken, `closed` says that its stream was closed.
    """

    def __init__(self, *pieces, calls=(), then=("done",)):
        super().__init__(["", *then])
        self.pieces = pieces
        self.answer = AssistantMessage("".join(pieces), tool_calls=calls, usage={})
        self.said = asyncio.Event()
        self.may_finish = asyncio.Event()
        self.closed = False

    async def stream(self, request):
        if self.requests:
            async for piece in super().stream(request):
                yield piece
            return
        self.requests.append(request)
        try:
            for piece in self.pieces:
                yield piece
            self.said.set()
            await self.may_finish.wait()
            yield self.answer
        finally:
            self.closed = True


class CharModel(ScriptedModel):
    """Streams character by character, or in pieces of some other size."""

    def __init__(self, replies, size=1):
        super().__init__(replies)
        self.size = size

    async def stream(self, request):
        message = await self.complete(request)
        text = message.content
        for start in range(0, len(text), self.size):
            yield text[start : start + self.size]
        yield message


class Listener:
    """Listens to a stream in a task of its own, and keeps what it hears."""

    def __init__(self, stream):
        self.events = []
        self.task = asyncio.create_task(self._listen(stream))

    async def _listen(self, stream):
        async for event in stream:
            self.events.append(event)

    @property
    def text(self):
        return text_of(self.events)


async def settled():
    """Let everything happen that can happen without anybody's help."""
    for _ in range(100):
        await asyncio.sleep(0)


async def heard_midway(agent, **ids):
    """Give what a listener has heard when the model has said its text, but is not done."""
    model = agent.model
    async with asyncio.timeout(10), agent.stream("Hello?", **ids) as stream:
        listener = Listener(stream)
        await model.said.wait()
        await settled()
        heard = listener.text
        model.may_finish.set()
        await listener.task
    return heard


async def collected(stream):
    """Give all events of a stream, to its end."""
    return [event async for event in stream]


async def ended(stream):
    """Give the events of a stream, and what it raised at last, if anything."""
    listener = Listener(stream)
    await asyncio.wait([listener.task])
    return listener.events, listener.task.exception()


def text_of(events, iteration=None):
    """Give the text that was streamed, all of it or that of one iteration."""
    return "".join(
        event.text
        for event in events
        if isinstance(event, TextDelta) and iteration in (None, event.iteration)
    )


def kinds(events):
    """Name the events in order; text that came in pieces counts once."""
    names = [type(event).__name__ for event in events]
    return [name for i, name in enumerate(names) if (name, *names[:i][-1:]) != ("TextDelta",) * 2]


def records(events):
    """Give the records of the hooks that were called."""
    return [event.record for event in events if isinstance(event, HookCalled)]


def response_of(events):
    """Give what the last event says came of the run."""
    last = events[-1]
    assert isinstance(last, Finished)
    return last.response


def others():
    """Give the tasks that are there beside the caller's."""
    return asyncio.all_tasks() - {asyncio.current_task()}


def hide(_event, message):
    """Redact the badge in a message: a hook."""
    return Continue(re.sub(r"B-\d{6}", HIDDEN, message.content), redacted=True)
