"""The smallest server of the event protocol: graphs and threads in memory, and our views."""

import asyncio
import contextlib
import socket
import threading
import uuid
from dataclasses import dataclass, field

import uvicorn
from langgraph.types import Command
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocketDisconnect

from checkrail.runs.jsons import dumps, jsonable
from checkrail.server.streams.channels import Subscription
from checkrail.server.streams.commands import error_reply, parse_command, success_reply
from checkrail.server.streams.errors import ProtocolError
from checkrail.server.streams.protocol import ProtocolView, cursor_of
from checkrail.server.streams.sse import HEARTBEAT, SseView, encode_frame
from checkrail.server.streams.threads import StreamedRun, ThreadCursor, ThreadView
from checkrail.server.thread_streams import ThreadFacts, replay_from

from .support import streamed


@dataclass(eq=False)
class Run:
    id: str
    base_seq: int
    events: list = field(default_factory=list)

    @property
    def live(self):
        return not self.events or self.events[-1].event != "end"


@dataclass(eq=False)
class Thread:
    id: str
    graph: object
    runs: list = field(default_factory=list)
    watchers: int = 0
    watched: Run | None = None
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def last_seq(self):
        return self.runs[-1].base_seq + len(self.runs[-1].events) if self.runs else 0

    def facts(self):
        newest = self.runs[-1] if self.runs else None
        return ThreadFacts(
            last_seq=self.last_seq,
            newest_base=newest and newest.base_seq,
            live=newest is not None and newest.live,
            watched=newest is not None and self.watched is newest,
        )

    async def execute(self, run, given):
        async for event in streamed(self.graph, given, thread=self.id, run_id=run.id):
            async with self.changed:
                run.events.append(event)
                if event.event == "end" and self.watchers:
                    self.watched = run
                self.changed.notify_all()

    async def envelopes(self, subscription):
        """Serve a subscription for as long as somebody listens; None is a heartbeat."""
        cursor = replay_from(subscription, self.facts())
        self.watchers += subscription.is_watcher
        if subscription.is_watcher and self.runs and not self.runs[-1].live:
            self.watched = self.runs[-1]
        view = None
        try:
            async for run, event in self.stored():
                if event is None:
                    yield None
                    continue
                if view is None or view.run_id != run.id:
                    view = ProtocolView(run.id, base_seq=run.base_seq, graph_name="main")
                for envelope in view.feed(event):
                    if envelope["seq"] > cursor and subscription.wants(envelope):
                        yield envelope
        finally:
            self.watchers -= subscription.is_watcher

    async def stored(self):
        """Every event of every run from the first, and None when nothing has come for a while."""
        at = place = 0
        while True:
            if at < len(self.runs) and place < len(self.runs[at].events):
                run, event = self.runs[at], self.runs[at].events[place]
                place += 1
                if event.event == "end":
                    at, place = at + 1, 0
                yield run, event
                continue
            async with self.changed:
                if at < len(self.runs) and place < len(self.runs[at].events):
                    continue
                try:
                    async with asyncio.timeout(0.2):
                        await self.changed.wait()
                except TimeoutError:
                    yield None, None


class Served:
    """Threads of one graph over HTTP."""

    def __init__(self, graph, *, quick=False):
        self.graph = graph
        self.quick = quick
        self.threads = {}
        self.running = set()
        self.app = Starlette(routes=[
            Route("/threads/{id}/commands", self.commands, methods=["POST"]),
            Route("/threads/{id}/stream/events", self.events, methods=["POST"]),
            WebSocketRoute("/threads/{id}/stream/events", self.socket),
            Route("/threads/{id}/state", self.state),
            Route("/threads/{id}/stream", self.thread_stream),
            Route("/threads/{id}/runs/{run_id}/stream", self.run_stream),
        ])  # fmt: skip

    def thread(self, id):
        if id not in self.threads:
            self.threads[id] = Thread(id, self.graph)
        return self.threads[id]

    async def commands(self, request):
        thread = self.thread(request.path_params["id"])
        try:
            command = parse_command(await request.json())
        except ProtocolError as error:
            return JSONResponse(error_reply(error.id, error.code, error.message), error.status)
        params = command.params
        given = params.input if command.method == "run.start" else self.resumed(params)
        run = Run(str(uuid.uuid4()), thread.last_seq)
        thread.runs.append(run)
        task = asyncio.create_task(thread.execute(run, given))
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        if self.quick:  # the run is over before its client has the answer
            await asyncio.wait([task])
        through = cursor_of(run.base_seq)
        return JSONResponse(success_reply(command.id, {"run_id": run.id}, applied_through=through))

    def resumed(self, params):
        return Command(resume=params.to_command["resume"])

    async def events(self, request):
        thread = self.thread(request.path_params["id"])
        try:
            subscription = Subscription.parse(await request.json())
        except ProtocolError as error:
            return JSONResponse(error_reply(None, error.code, error.message), error.status)
        return StreamingResponse(self.framed(thread, subscription), media_type="text/event-stream")

    async def framed(self, thread, subscription):
        yield HEARTBEAT
        async for one in thread.envelopes(subscription):
            yield HEARTBEAT if one is None else encode_frame(one["event_id"], one["method"], one)

    async def socket(self, websocket):
        thread = self.thread(websocket.path_params["id"])
        await websocket.accept()
        command = parse_command(await websocket.receive_json())
        answer = success_reply(command.id, {"subscription_id": "s1"})
        await websocket.send_text(dumps(answer).decode())
        sending = asyncio.create_task(self.sent(websocket, thread.envelopes(command.params)))
        try:
            while True:
                await websocket.receive_text()
        except WebSocketDisconnect:
            sending.cancel()
            await asyncio.wait([sending])

    async def sent(self, websocket, envelopes):
        async with contextlib.aclosing(envelopes):
            async for one in envelopes:
                if one is not None:
                    await websocket.send_text(dumps(one).decode())

    async def state(self, request):
        config = {"configurable": {"thread_id": request.path_params["id"]}}
        found = await self.graph.aget_state(config)
        tasks = [{"id": task.id, "name": task.name} for task in found.tasks]
        state = {"values": jsonable(found.values), "next": [*found.next], "tasks": tasks}
        return JSONResponse(state)

    async def run_stream(self, request):
        thread = self.thread(request.path_params["id"])
        run = next(run for run in thread.runs if run.id == request.path_params["run_id"])
        modes = request.query_params.getlist("stream_mode")
        after = int(request.headers.get("last-event-id", 0))
        view = SseView(modes, subgraphs=True, after=after)
        told = (encode_frame(*one) for event in run.events for one in view.feed(event))
        return StreamingResponse(told, media_type="text/event-stream")

    async def thread_stream(self, request):
        thread = self.thread(request.path_params["id"])
        modes = request.query_params.getlist("stream_mode")
        after = ThreadCursor.parse(request.headers.get("last-event-id", "0"))
        view = ThreadView(thread.id, modes, after=after)
        told = (
            encode_frame(*one)
            for run in thread.runs
            for event in run.events
            for one in view.feed(StreamedRun(run.id, run.base_seq), event)
        )
        return StreamingResponse(told, media_type="text/event-stream")


@contextlib.contextmanager
def serving(graph, **options):
    """Serve a graph on a port of this machine, and give the server and its address."""
    served = Served(graph, **options)
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        served.app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield served, f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
