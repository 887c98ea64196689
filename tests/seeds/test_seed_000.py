"""Run lifecycle hooks, as users of the server in seed 000 know them: same inputs, same answers."""

import asyncio
import dataclasses
import json
import logging
import textwrap
from pathlib import Path

import httpx
import pytest
from langgraph_sdk import get_sync_client
from langgraph_sdk.errors import APIStatusError
from tests.processes import until
from tests.server.harness import Served, on_sqlite

from checkrail import CheckrailError
from checkrail.hooks import RejectRun, RunContext, RunHooks, User, load_hooks

CTX = RunContext(
    run_id="run-1",
    thread_id="thread-1",
    assistant_id="assistant-1",
    graph_id="research-agent",
    user=User(identity="ada", email="ada@example.com", org_id="acme"),
    config={"configurable": {"thread_id": "thread-1"}},
    input={"messages": []},
)


class TestContext:
    def test_its_defaults_are_empty(self):
        ctx = RunContext("r", "t", "a", "g", User(identity="ada"))
        assert (ctx.config, ctx.input, ctx.extras) == ({}, None, {})
        assert (ctx.output, ctx.status, ctx.error, ctx.error_type) == (None, None, None, None)

    def test_it_is_frozen(self):
        with pytest.raises(dataclasses.FrozenInstanceError):
            CTX.status = "success"


class TestRejectRun:
    def test_its_defaults(self):
        error = RejectRun()
        assert (error.message, error.status_code) == ("Run rejected by hook", 429)
        assert str(error) == "Run rejected by hook"

    def test_its_own_words(self):
        error = RejectRun("Active subscription required", status_code=402)
        assert (error.message, error.status_code) == ("Active subscription required", 402)

    def test_it_is_at_hand_on_the_hooks(self):
        assert RunHooks.RejectRun is RunHooks().RejectRun is RejectRun


class TestFiring:
    async def test_hooks_run_in_the_order_of_their_registration(self):
        hooks, seen = RunHooks(), []

        @hooks.before_run
        async def first(ctx):
            seen.append("first")

        @hooks.before_run
        async def second(ctx):
            seen.append("second")

        await hooks.fire_before_run(CTX)
        assert seen == ["first", "second"]

    async def test_a_decorator_gives_its_function_back(self):
        hooks = RunHooks()

        async def log_run(ctx): ...

        assert hooks.before_run(log_run) is log_run
        assert hooks.after_run(log_run) is log_run
        assert hooks.on_run_error(log_run) is log_run

    async def test_without_hooks_nothing_happens(self):
        hooks = RunHooks()
        assert await hooks.fire_before_run(CTX) is None
        assert await hooks.fire_after_run(CTX) is None
        assert await hooks.fire_on_run_error(CTX) is None

    async def test_a_rejection_comes_through_and_ends_the_list(self):
        hooks, seen = RunHooks(), []

        @hooks.before_run
        async def refuse(ctx):
            raise hooks.RejectRun("No credits", status_code=402)

        @hooks.before_run
        async def charge(ctx):
            seen.append(ctx.run_id)

        with pytest.raises(RejectRun, match="No credits") as refused:
            await hooks.fire_before_run(CTX)
        assert (refused.value.status_code, seen) == (402, [])

    async def test_a_hook_that_hangs_becomes_a_504(self):
        hooks = RunHooks()

        @hooks.before_run
        async def hangs(ctx):
            await asyncio.sleep(60)

        with pytest.raises(RejectRun, match=r"'hangs'.* timed out after 0\.05 ?s") as late:
            await hooks.fire_before_run(CTX, timeout=0.05)
        assert late.value.status_code == 504

    async def test_what_else_before_run_raises_comes_through(self):
        hooks = RunHooks()

        @hooks.before_run
        async def broken(ctx):
            raise ValueError("no such plan")

        with pytest.raises(ValueError, match="no such plan"):
            await hooks.fire_before_run(CTX)

    async def test_what_a_hook_returns_is_ignored(self):
        hooks = RunHooks()

        @hooks.before_run
        async def talkative(ctx):
            return {"config": "other"}

        assert await hooks.fire_before_run(CTX) is None

    @pytest.mark.parametrize("point", ["after_run", "on_run_error"])
    async def test_errors_after_a_run_are_logged_and_the_next_hook_runs(self, point, caplog):
        hooks, seen = RunHooks(), []

        @getattr(hooks, point)
        async def broken(ctx):
            raise ValueError("analytics is down")

        @getattr(hooks, point)
        async def late(ctx):
            await asyncio.sleep(60)

        @getattr(hooks, point)
        async def notify(ctx):
            seen.append(ctx.run_id)

        with caplog.at_level(logging.WARNING):
            await getattr(hooks, f"fire_{point}")(CTX, timeout=0.05)
        assert seen == ["run-1"]
        first, second = caplog.records
        assert "'broken'" in first.getMessage()
        assert (first.levelname, first.exc_info[0]) == ("WARNING", ValueError)
        assert "'late'" in second.getMessage()
        assert second.levelname == "WARNING"

    async def test_a_cancellation_inside_on_run_error_is_logged_too(self, caplog):
        hooks = RunHooks()

        @hooks.on_run_error
        async def cancelled(ctx):
            raise asyncio.CancelledError

        await hooks.fire_on_run_error(CTX)
        assert "'cancelled'" in caplog.text


class TestLoading:
    def test_a_file_beside_the_config(self, tmp_path):
        source = "from checkrail.hooks import RunHooks\nhooks = RunHooks()\n"
        (tmp_path / "hooks.py").write_text(source)
        assert isinstance(load_hooks("./hooks.py:hooks", base_dir=tmp_path), RunHooks)

    def test_a_module(self, tmp_path, monkeypatch):
        source = "from checkrail.hooks import RunHooks\nhooks = RunHooks()\n"
        (tmp_path / "seed_000_package").mkdir()
        (tmp_path / "seed_000_package" / "hooks.py").write_text(source)
        monkeypatch.syspath_prepend(tmp_path)
        assert isinstance(load_hooks("seed_000_package.hooks:hooks"), RunHooks)

    def test_a_module_without_them(self):
        with pytest.raises(CheckrailError, match="has no 'hooks'"):
            load_hooks("checkrail.hooks:hooks")

    @pytest.mark.parametrize(
        ("path", "problem"),
        [
            ("hooks.py", "Write ./file.py:name"),
            ("./nowhere.py:hooks", "there is no file"),
            ("./hooks.py:other", "has no 'other'"),
            ("./hooks.py:text", "is no RunHooks, but str"),
        ],
    )
    def test_what_is_wrong_is_said(self, path, problem, tmp_path):
        (tmp_path / "hooks.py").write_text("hooks = 1\ntext = 'x'\n")
        with pytest.raises(CheckrailError, match=problem):
            load_hooks(path, base_dir=tmp_path)


HOOKS = """
    import asyncio
    import json

    from checkrail.hooks import RunHooks

    hooks = RunHooks()
    PAID_AGENTS = {"research-agent", "coding-assistant"}


    def write(event, ctx, **more):
        told = {"event": event, "run_id": ctx.run_id, "thread_id": ctx.thread_id,
                "graph_id": ctx.graph_id, "assistant_id": ctx.assistant_id,
                "user_id": ctx.user.identity, **more}
        with open("audit.jsonl", "a") as file:
            file.write(json.dumps(told) + "\\n")


    @hooks.before_run
    async def rate_limit(ctx):
        if (ctx.input or {}).get("text") == "too often":
            raise hooks.RejectRun("Rate limit exceeded", status_code=429)


    @hooks.before_run
    async def validate_subscription(ctx):
        if ctx.graph_id not in PAID_AGENTS:
            return
        await asyncio.sleep(60 if (ctx.input or {}).get("text") == "hang" else 0)
        if ctx.user.identity != "ada":
            raise hooks.RejectRun("Active subscription required", status_code=402)


    @hooks.before_run
    async def log_run_start(ctx):
        write("run_started", ctx, config=ctx.config["configurable"], input=ctx.input)


    @hooks.after_run
    async def log_run_complete(ctx):
        write("run_completed", ctx, status=ctx.status, output=ctx.output,
              usage=ctx.extras.get("usage_metadata"))


    @hooks.after_run
    async def report_to_analytics(ctx):
        raise ConnectionError("analytics is down")


    @hooks.after_run
    async def notify_on_completion(ctx):
        write("notified", ctx)


    @hooks.on_run_error
    async def log_run_error(ctx):
        write("run_failed", ctx, error=ctx.error, error_type=ctx.error_type,
              usage=ctx.extras.get("usage_metadata"))
"""

AGENT = """
    import asyncio
    from typing import TypedDict

    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langgraph.graph import START, StateGraph
    from langgraph.types import interrupt


    MINI, HAIKU = "gpt-4o-mini-2024-07-18", "claude-3-5-haiku-20241022"
    USED = {
        MINI: {"input_tokens": 1250, "output_tokens": 340, "total_tokens": 1590,
               "input_token_details": {"audio": 0, "cache_read": 0},
               "output_token_details": {"audio": 0, "reasoning": 0}},
        HAIKU: {"input_tokens": 800, "output_tokens": 210, "total_tokens": 1010,
                "input_token_details": {"cache_read": 0, "cache_creation": 0}},
    }


    class Model(BaseChatModel):
        name: str = MINI

        @property
        def _llm_type(self):
            return "counting"

        def _generate(self, messages, stop=None, run_manager=None, **options):
            told = {"usage_metadata": USED[self.name],
                    "response_metadata": {"model_name": self.name}}
            return ChatResult(generations=[ChatGeneration(message=AIMessage("hi", **told))])


    class State(TypedDict, total=False):
        text: str
        said: str


    async def work(state: State):
        text = state.get("text")
        if text == "pause":
            return {"said": interrupt("go on?")}
        answer = await Model().ainvoke("hello")
        if text == "both":
            await Model(name=HAIKU).ainvoke("hello")
        if text == "fail":
            raise ValueError("it broke")
        if text == "forever":
            await asyncio.sleep(3600)
        return {"said": answer.text}


    graph = StateGraph(State).add_node(work).add_edge(START, "work").compile()
"""

AUTH = """
    from langgraph_sdk import Auth

    auth = Auth()


    @auth.authenticate
    async def who(authorization: str | None):
        return {"identity": (authorization or "").removeprefix("Bearer "), "email": "a@b.example"}


    @auth.on.threads.create_run
    async def may_run(ctx, value):
        return ctx.user.identity != "eve"
"""

CONFIG = {
    "graphs": {"chat": "./agent.py:graph", "research-agent": "./agent.py:graph"},
    "auth": {"path": "./auth.py:auth"},
    "hooks": {"path": "./hooks.py:hooks", "timeout": 1},
}
USED = {
    "gpt-4o-mini-2024-07-18": {
        "input_tokens": 1250,
        "output_tokens": 340,
        "total_tokens": 1590,
        "input_token_details": {"audio": 0, "cache_read": 0},
        "output_token_details": {"audio": 0, "reasoning": 0},
    },
    "claude-3-5-haiku-20241022": {
        "input_tokens": 800,
        "output_tokens": 210,
        "total_tokens": 1010,
        "input_token_details": {"cache_read": 0, "cache_creation": 0},
    },
}


class Site:
    """A server of a project as its users had it; only the import in hooks.py is another."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in (("hooks.py", HOOKS), ("agent.py", AGENT), ("auth.py", AUTH)):
            (folder / name).write_text(textwrap.dedent(text))
        (folder / "aegra.json").write_text(json.dumps(CONFIG))
        config = folder / "aegra.json"
        self.served = Served(on_sqlite(folder / "data"), folder / "log", config=config)

    def client(self, user):
        headers = {"authorization": f"Bearer {user}"}
        return get_sync_client(url=self.served.url, headers=headers)

    def told(self, run_id):
        """What the hooks were told of a run."""
        file = self.folder / "audit.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return [told for line in lines if (told := json.loads(line))["run_id"] == run_id]

    def told_of_end(self, run_id, last="notified"):
        """The same, once the finish hooks have been called."""
        until(lambda: any(told["event"] == last for told in self.told(run_id)), what=last)
        return {told["event"]: told for told in self.told(run_id)}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(tmp_path_factory.mktemp("seed_000"))
    try:
        made.served.start()
        yield made
    finally:
        made.served.kill()


@pytest.fixture
def ada(site):
    with site.client("ada") as client:
        yield client


@pytest.fixture
def bob(site):
    with site.client("bob") as client:
        yield client


def refusal(ask, thread, agent, given):
    """The answer to a request for a run, which is a refusal."""
    with pytest.raises((APIStatusError, httpx.HTTPStatusError)) as refused:
        list(ask(thread, agent, input=given))
    return refused.value.response


class TestServed:
    def test_a_run_is_audited_from_its_start_to_its_end(self, site, ada):
        thread = ada.threads.create()["thread_id"]
        given = {"text": "both"}
        run = ada.runs.create(thread, "chat", input=given, config={"configurable": {"tone": "dry"}})
        ada.runs.join(thread, run["run_id"])
        told = site.told_of_end(run["run_id"])
        assert [*told] == ["run_started", "run_completed", "notified"]
        started, completed = told["run_started"], told["run_completed"]
        assert (started["thread_id"], started["graph_id"]) == (thread, "chat")
        assert (started["user_id"], started["input"]) == ("ada", given)
        assert started["assistant_id"] == run["assistant_id"]
        ids = {"thread_id": thread, "run_id": run["run_id"], "graph_id": "chat"}
        assert started["config"].items() >= {**ids, "tone": "dry"}.items()
        assert (completed["status"], completed["output"]["said"]) == ("success", "hi")
        assert completed["usage"] == USED

    WAYS = ("create", "stream", "wait")

    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("stateless", [False, True])
    def test_a_refusal_is_the_answer_on_every_way_in(self, site, bob, way, stateless):
        thread = None if stateless else bob.threads.create()["thread_id"]
        answer = refusal(getattr(bob.runs, way), thread, "research-agent", {"text": "hello"})
        assert answer.status_code == 402
        assert answer.json()["message"] == "Active subscription required"
        run_id = answer.json()["info"]["run_id"]
        assert site.told(run_id) == []  # no later hook was called, and no finish hook will be
        if thread is not None:
            assert bob.threads.get(thread)["status"] == "idle"
            kept = bob.runs.get(thread, run_id)
            assert (kept["status"], kept["error"]) == ("error", "Active subscription required")

    @pytest.mark.parametrize("way", WAYS)
    @pytest.mark.parametrize("stateless", [False, True])
    def test_an_auth_handler_is_asked_on_every_way_in(self, site, way, stateless):
        with site.client("eve") as eve:
            thread = None if stateless else eve.threads.create()["thread_id"]
            answer = refusal(getattr(eve.runs, way), thread, "chat", {"text": "hello"})
            assert answer.status_code == 403

    def test_who_waits_for_a_run_that_fails_is_told(self, ada):
        thread = ada.threads.create()["thread_id"]
        answer = ada.runs.wait(thread, "chat", input={"text": "fail"}, raise_error=False)
        assert answer["__error__"]["message"] == "it broke"

    def test_a_free_agent_is_everybodys(self, bob):
        assert bob.runs.wait(None, "chat", input={"text": "hello"})["said"] == "hi"

    def test_a_paid_agent_runs_for_who_has_paid(self, ada):
        assert ada.runs.wait(None, "research-agent", input={"text": "hello"})["said"] == "hi"

    def test_the_first_hook_that_refuses_is_the_answer(self, bob):
        answer = refusal(bob.runs.wait, None, "research-agent", {"text": "too often"})
        assert (answer.status_code, answer.json()["message"]) == (429, "Rate limit exceeded")

    def test_a_hook_that_hangs_is_a_504(self, ada):
        answer = refusal(ada.runs.wait, None, "research-agent", {"text": "hang"})
        assert answer.status_code == 504
        assert "'validate_subscription' at before_run timed out after 1 s" in answer.text

    def test_each_leg_of_an_interrupted_conversation_is_a_run_of_its_own(self, site, ada):
        thread = ada.threads.create()["thread_id"]
        first = ada.runs.create(thread, "chat", input={"text": "pause"})
        ada.runs.join(thread, first["run_id"])
        second = ada.runs.create(thread, "chat", command={"resume": "yes"})
        ada.runs.join(thread, second["run_id"])
        legs = [site.told_of_end(run["run_id"]) for run in (first, second)]
        assert [leg["run_completed"]["status"] for leg in legs] == ["interrupted", "success"]
        assert all("run_started" in leg for leg in legs)
        assert [leg["run_completed"]["usage"] for leg in legs] == [None, None]  # no model was asked

    def test_an_error_is_told_with_what_was_used_until_then(self, site, ada):
        thread = ada.threads.create()["thread_id"]
        run = ada.runs.create(thread, "chat", input={"text": "fail"})
        ada.runs.join(thread, run["run_id"])
        failed = site.told_of_end(run["run_id"], "run_failed")["run_failed"]
        assert (failed["error"], failed["error_type"]) == ("it broke", "ValueError")
        assert failed["usage"]["gpt-4o-mini-2024-07-18"]["total_tokens"] == 1590

    def test_a_client_that_goes_away_cancels_its_run(self, site, ada):
        thread = ada.threads.create()["thread_id"]
        body = {"assistant_id": "chat", "input": {"text": "forever"}, "on_disconnect": "cancel"}
        url, headers = f"{site.served.url}/threads/{thread}/runs", {"authorization": "Bearer ada"}
        with httpx.stream("POST", f"{url}/stream", json=body, headers=headers) as stream:
            run_id = stream.headers["content-location"].rpartition("/")[2]
        failed = site.told_of_end(run_id, "run_failed")["run_failed"]
        assert failed["error_type"] == "CancelledError"
