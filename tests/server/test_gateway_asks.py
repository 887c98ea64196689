"""Hooks of the gateway that ask people: the answer waits, goes on, and is nobody's after that."""

import contextlib
import json
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor

import anthropic
import httpx
import httpx2
import openai
import pytest
from tests.gateway.provider import CHAT, MESSAGES, RESPONSES, Provider, Say
from tests.processes import until

from .conftest import DATABASES, _watched
from .harness import Served

PROJECT = """
    hooks:
      before_llm_call:
        - name: of_request
          type: approval
          when: request.text.contains("ask before")
          question: May this be sent?
      after_llm_call:
        - name: of_answer
          type: approval
          when: message.text.contains("careful")
          question: May this be said?
      before_tool_call:
        - name: of_tool
          type: approval
          tools: [transfer]
          question: May this be transferred?
        - name: of_silence
          type: approval
          tools: [silent]
          question: Nobody answers this
          timeout: 0.1
          on_timeout: {silence}
        - name: gate
          tools: [transfer]
          when: tool_call.args.amount == 13
          block: Never 13
    gateway:
      keep_alive_seconds: {every}
      blocked_tool: {blocked}
      ask_seconds: {longest}
      upstreams:
        here: {{ url: "{url}", format: [chat, messages, responses], retries: 0 }}
"""
APIS = (CHAT, MESSAGES, RESPONSES)


@pytest.fixture(scope="module")
def provider():
    with Provider() as made:
        yield made


@pytest.fixture(autouse=True)
def _nothing_left_to_say(provider):
    provider.anew()


class Calling(threading.Thread):
    """A caller that waits for its answer."""

    def __init__(self, url, path, text="Hi", *, stream=False, **headers):
        super().__init__(daemon=True)
        said = [{"role": "user", "content": text}]
        body = {"model": "m", "stream": stream, "max_tokens": 9}
        if path == RESPONSES:
            body = {"model": "m", "stream": stream, "input": said}
        else:
            body["messages"] = said
        self._request = httpx.Request("POST", url + path, json=body, headers=headers)
        self.status = None
        self.text = ""
        self.first = threading.Event()
        self.start()

    def run(self):
        with (
            httpx.Client(timeout=60) as client,
            contextlib.closing(client.send(self._request, stream=True)) as answer,
        ):
            self.status = answer.status_code
            for chunk in answer.iter_text():
                self.text += chunk
                self.first.set()

    def over(self):
        self.join(60)
        assert not self.is_alive(), self.text
        return self.text


class Desk:
    """A server, and who answers what its gateway asks."""

    def __init__(self, server, other=None):
        self.server = server
        self.url = f"{server.url}/gateway"
        self.answers = httpx.Client(base_url=(other or server).url, timeout=20)

    def call(self, path, text="Hi", **more):
        return Calling(self.url, path, text, **more)

    def rows(self, **wanted):
        return self.answers.get("/approvals", params=wanted).json()

    def asked(self):
        """The question that is open."""
        until(lambda: self.rows(status="open"), "the question")
        [row] = self.rows(status="open")
        return row

    def answer(self, row, word, **body):
        at = f"/approvals/{row['approval_id']}/{word}"
        return self.answers.post(at, json={"digest": row["digest"], **body})

    def status_of(self, row):
        return self.answers.get(f"/approvals/{row['approval_id']}").json()["status"]


def write_project(folder, provider, more="", *, redact=False, **options):
    file = folder / "checkrail.yaml"
    said = {"silence": "block", "longest": 540, "every": 0.2, "blocked": "text", **options}
    text = textwrap.dedent(PROJECT).format(url=provider.url, **said)
    if redact:
        rule = "    - { name: no_secrets, redact: { kinds: [secrets], restore: tools } }"
        text = text.replace("  before_llm_call:\n", f"  before_llm_call:\n{rule}\n")
    file.write_text(text + more)
    return file


@pytest.fixture(scope="module", params=DATABASES)
def desk(request, new_database, tmp_path_factory, provider):
    folder = tmp_path_factory.mktemp("asks")
    file = write_project(folder, provider)
    with _watched() as watch:
        served = Served(new_database(request.param), folder / "log", config=file)
        made = Desk(watch(served).start())
        yield made
        made.answers.close()


def joined(text):
    """All texts of an answer in a row, so that one that comes in pieces is found."""
    datas = (
        [line.removeprefix("data: ") for line in text.splitlines()] if "data: " in text else [text]
    )
    return "".join(
        found for data in datas if data.startswith("{") for found in _texts(json.loads(data))
    )


SPOKEN = ("text", "message", "content", "delta", "arguments", "partial_json", "amount")


def _texts(value, name=""):
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(inner, key)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner, name)
    elif name in SPOKEN:
        yield str(value)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", APIS)
def test_a_tool_call_goes_on_once_somebody_has_approved_it(desk, provider, path, stream):
    provider.say(Say("Sure.", calls=[("transfer", {"amount": 77123})]))
    ids = {"x-request-id": "r-7", "x-checkrail-agent": "coder", "x-checkrail-session-id": "s-7"}
    calling = desk.call(path, stream=stream, **ids)
    row = desk.asked()
    assert (row["question"], row["hook"]) == ("May this be transferred?", "of_tool")
    assert (row["run_id"], row["request_id"], row["agent_name"]) == (None, "r-7", "coder")
    assert (row["value"]["name"], row["value"]["args"]) == ("transfer", {"amount": 77123})
    assert row["expires_at"] is not None
    if stream:
        assert calling.first.wait(20)
    assert "transfer" not in calling.text
    assert desk.answer(row, "approve").status_code == 200
    assert "transfer" in calling.over()
    assert "77123" in joined(calling.text)
    assert calling.status == 200
    used = desk.answers.get(f"/approvals/{row['approval_id']}").json()
    assert (used["status"], used["used_at"] is None) == ("approved", False)
    assert desk.answer(row, "approve").status_code == 409


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", APIS)
def test_a_tool_call_that_is_denied_is_not_given_to_the_caller(desk, provider, path, stream):
    provider.say(Say("Sure.", calls=[("transfer", {"amount": 77123})]))
    calling = desk.call(path, stream=stream)
    assert desk.answer(desk.asked(), "deny", reason="not on a Friday").status_code == 200
    assert "transfer was not called: not on a Friday" in calling.over()
    assert "77123" not in joined(calling.text)


@pytest.mark.parametrize("path", APIS)
def test_a_tool_call_can_be_edited_and_gates_see_what_came_of_it(desk, provider, path):
    for amount, expected in ((250, "250"), (13, "Never 13")):
        provider.say(Say(calls=[("transfer", {"amount": 77123})]))
        calling = desk.call(path)
        row = desk.asked()
        edited = {**row["value"], "args": {"amount": amount}}
        assert desk.answer(row, "approve", value=edited).status_code == 200
        assert expected in calling.over()
        assert "77123" not in calling.text


def test_an_edited_value_has_to_fit(desk, provider):
    provider.say(Say(calls=[("transfer", {"amount": 77123})]))
    calling = desk.call(CHAT)
    row = desk.asked()
    for wrong in (7, {"name": 5}, {"args": "all"}):
        assert desk.answer(row, "approve", value=wrong).status_code == 422
    stale = desk.answer(row, "approve", digest="of-another")
    assert stale.status_code == 409
    assert desk.answer(row, "deny").status_code == 200
    calling.over()


@pytest.mark.parametrize("path", APIS)
def test_a_request_waits_too_and_its_stream_gives_signs_of_life(desk, provider, path):
    calling = desk.call(path, "please ask before", stream=True)
    row = desk.asked()
    assert row["point"] == "before_llm_call"
    assert "raw" not in row["value"]
    assert row["value"]["messages"][-1]["content"] == "please ask before"
    assert calling.first.wait(20)
    assert calling.status == 200
    assert provider.requests == []
    sent = [*row["value"]["messages"][:-1], {"role": "user", "content": "something else"}]
    assert desk.answer(row, "approve", value={"messages": sent}).status_code == 200
    assert "Hello" in calling.over()
    assert "something else" in provider.last.body.decode()
    assert "ask before" not in provider.last.body.decode()


@pytest.mark.parametrize("path", APIS)
def test_a_request_that_is_denied_ends_its_stream_with_an_error(desk, provider, path):
    calling = desk.call(path, "ask before", stream=True)
    row = desk.asked()
    assert calling.first.wait(20)
    desk.answer(row, "deny", reason="not this one")
    assert "not this one" in calling.over()
    assert (calling.status, provider.requests) == (200, [])


@pytest.mark.parametrize("path", APIS)
def test_a_plain_request_is_answered_with_an_honest_status(desk, provider, path):
    calling = desk.call(path, "ask before")
    desk.answer(desk.asked(), "deny", reason="not this one")
    assert "not this one" in calling.over()
    assert (calling.status, provider.requests) == (400, [])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", APIS)
def test_an_answer_waits_for_people(desk, provider, path, stream):
    for word, expected in (("approve", "careful"), ("deny", "keep it")):
        provider.say(Say("careful"))
        calling = desk.call(path, stream=stream)
        desk.answer(desk.asked(), word, reason="keep it")
        assert expected in joined(calling.over())
        assert ("careful" in joined(calling.text)) is (word == "approve")


def test_what_the_upstream_refuses_after_a_question_ends_the_stream_with_its_reason(desk, provider):
    from tests.gateway.provider import Fail

    provider.say(Fail(429, "too many of them"))
    calling = desk.call(CHAT, "ask before", stream=True)
    row = desk.asked()
    assert calling.first.wait(20)
    desk.answer(row, "approve")
    assert "too many of them" in calling.over()


def test_two_questions_of_one_answer_need_an_answer_each(desk, provider):
    provider.say(Say(calls=[("transfer", {"amount": 1}), ("transfer", {"amount": 1})]))
    calling = desk.call(CHAT)
    until(lambda: len(desk.rows(status="open")) == 2, "both questions")
    first, second = desk.rows(status="open")
    desk.answer(first, "approve")
    desk.answer(second, "deny", reason="once is enough")
    assert calling.over().count('"transfer"') == 1
    assert "once is enough" in calling.text


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("text", ["ask before", "Hi"])
def test_a_caller_who_hangs_up_withdraws_the_question(desk, provider, stream, text):
    provider.say(Say("Sure", calls=[("transfer", {"amount": 77123})]))
    body = {"model": "m", "stream": stream, "messages": [{"role": "user", "content": text}]}
    with httpx.Client(timeout=60) as client:
        hanging = threading.Thread(target=_hang_up, args=(client, desk.url + CHAT, body))
        hanging.start()
        row = desk.asked()
        hanging.join(60)
    until(lambda: desk.status_of(row) == "void", "the question to be withdrawn")
    late = desk.answer(row, "approve")
    assert (late.status_code, "has gone" in late.json()["message"]) == (409, True)


def _hang_up(client, url, body):
    """Read for a moment, and close the connection in the middle of the answer."""
    with contextlib.suppress(httpx.ReadTimeout):
        timeout = httpx.Timeout(20, read=1.0)
        with client.stream("POST", url, json=body, timeout=timeout) as answer:
            for _ in answer.iter_bytes():
                break


def test_nobody_answers_in_time(desk, provider):
    provider.say(Say(calls=[("silent", {})]))
    calling = desk.call(CHAT)
    assert "silent was not called: Nobody answers this: nobody answered in time" in calling.over()
    row = desk.rows()[0]
    assert row["status"] == "expired"
    late = desk.answer(row, "approve")
    assert (late.status_code, "the call has gone on" in late.json()["message"]) == (409, True)


def test_records_say_what_came_of_it(desk, provider):
    provider.say(Say(calls=[("transfer", {"amount": 77123})]))
    calling = desk.call(CHAT, **{"x-request-id": "r-of-record"})
    desk.answer(desk.asked(), "approve")
    calling.over()

    def found():
        calls = desk.answers.get("/gateway/calls").json()
        return [call for call in calls if call["request_id"] == "r-of-record"]

    until(found, "the record of the call")
    [call] = found()
    assert (call["decision"], call["decisions"]) == ("ask", {"ask": 1})


@pytest.fixture
def own_desk(serve, tmp_path, provider):
    """Start a server of one's own."""
    desks = []

    def opened(database, **options):
        file = write_project(tmp_path, provider, **options)
        made = Desk(serve(database, config=file).start())
        desks.append(made)
        return made

    yield opened
    for made in desks:
        made.answers.close()


def test_the_gateway_waits_no_longer_than_it_says_and_silence_may_mean_yes(
    own_desk, new_database, provider
):
    desk = own_desk(new_database("sqlite"), silence="continue", longest=0.3)
    provider.say(Say(calls=[("silent", {"a": 5})]))
    assert '"silent"' in desk.call(CHAT).over()
    provider.say(Say(calls=[("transfer", {"amount": 5})]))
    assert "nobody answered in time" in desk.call(CHAT).over()


def test_who_hangs_up_before_the_first_sign_of_life_withdraws_the_question_too(
    own_desk, new_database, provider
):
    desk = own_desk(new_database("sqlite"), every=60)
    for text in ("ask before", "Hi"):
        provider.say(Say(calls=[("transfer", {"amount": 5})]))
        body = {"model": "m", "stream": True, "messages": [{"role": "user", "content": text}]}
        with httpx.Client(timeout=60) as client:
            hanging = threading.Thread(target=_hang_up, args=(client, desk.url + CHAT, body))
            hanging.start()
            row = desk.asked()
            hanging.join(60)
        until(lambda row=row: desk.status_of(row) == "void", "the question to be withdrawn")


def test_a_model_is_told_of_a_no_and_its_next_call_is_asked_about(own_desk, new_database, provider):
    desk = own_desk(new_database("sqlite"), blocked="continue")
    for amount in (70001, 70002):
        provider.say(Say(calls=[("transfer", {"amount": amount})]))
    calling = desk.call(CHAT, stream=True)
    first = desk.asked()
    desk.answer(first, "deny", reason="too much")
    second = desk.asked()
    assert (first["value"]["args"], second["value"]["args"]) == (
        {"amount": 70001},
        {"amount": 70002},
    )
    assert "too much" in provider.last.body.decode()
    desk.answer(second, "approve")
    assert "70002" in joined(calling.over())
    assert "70001" not in joined(calling.text)


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_a_restart_closes_what_was_asked(own_desk, database, provider, way):
    desk = own_desk(database)
    provider.say(Say(calls=[("transfer", {"amount": 77123})]))
    calling = threading.Thread(target=_call_in_vain, args=(desk.url + CHAT,))
    calling.start()
    row = desk.asked()
    getattr(desk.server, way)()
    calling.join(30)
    if way == "kill" and database.kind == "postgres":
        _let_time_pass(database, row)
    desk.server.start()
    until(lambda: desk.status_of(row) == "void", "the question to be withdrawn")
    assert desk.answer(row, "approve").status_code == 409


def _call_in_vain(url):
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    with contextlib.suppress(httpx.TransportError):
        httpx.post(url, json=body, timeout=60)


def _let_time_pass(database, row):
    """Let the time be over for which the process that is gone has held a question."""
    from sqlalchemy import text

    from checkrail.store.engines import open_engine

    engine = open_engine(database.env["CHECKRAIL_DATABASE_URL"])
    with engine.begin() as connection:
        late = text("UPDATE approvals SET held_until = 1 WHERE approval_id = :it")
        connection.execute(late, {"it": row["approval_id"]})
    engine.dispose()


def test_another_server_takes_the_answer(serve, new_database, tmp_path, provider):
    database = new_database("postgres")
    file = write_project(tmp_path, provider)
    one, two = (serve(database, config=file).begin() for _ in range(2))
    for each in (one, two):
        each.await_ok()
    desk = Desk(one, other=two)
    provider.say(Say(calls=[("transfer", {"amount": 77123})]))
    calling = desk.call(CHAT)
    assert desk.answer(desk.asked(), "approve").status_code == 200
    assert "77123" in calling.over()
    desk.answers.close()


def test_owners_answer_their_own_and_others_see_nothing(serve, new_database, tmp_path, provider):
    file = write_project(tmp_path, provider, more="auth: {keys: true}\n")
    server = serve(new_database("sqlite"), config=file).start()
    keys = {}
    for name, role in (("ann", "member"), ("bob", "member"), ("eye", "viewer"), ("root", "admin")):
        owner = "ann" if name == "eye" else name
        said = server.run("keys", "create", name, "--role", role, "--owner", owner, "--json")
        keys[name] = {"x-api-key": json.loads(said)["key"]}
    desk = Desk(server)
    desk.answers.headers.update(keys["ann"])
    for who in ("ann", "root"):
        provider.say(Say(calls=[("transfer", {"amount": 77123})]))
        calling = desk.call(CHAT, **keys["ann"])
        row = desk.asked()
        at = f"{server.url}/approvals/{row['approval_id']}"
        assert httpx.get(at, headers=keys["bob"]).status_code == 404
        assert httpx.post(f"{at}/approve", headers=keys["bob"]).status_code == 404
        assert httpx.post(f"{at}/approve", headers=keys["eye"]).status_code == 403
        assert httpx.get(f"{server.url}/approvals", headers=keys["bob"]).json() == []
        answered = httpx.post(f"{at}/approve", headers=keys[who])
        assert answered.json()["answered_by"] == who
        assert "77123" in calling.over()
    desk.answers.close()


def _read_chat(url, http):
    said = [{"role": "user", "content": "ask before"}]
    client = openai.OpenAI(base_url=f"{url}/v1", http_client=http, api_key="sk-none")
    stream = client.chat.completions.create(model="m", messages=said, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)


def _read_responses(url, http):
    client = openai.OpenAI(base_url=f"{url}/v1", http_client=http, api_key="sk-none")
    stream = client.responses.create(model="m", input="ask before", stream=True)
    return "".join(event.delta for event in stream if event.type == "response.output_text.delta")


def _read_messages(url, http):
    said = [{"role": "user", "content": "ask before"}]
    client = anthropic.Anthropic(base_url=url, http_client=http, api_key="sk-none")
    with client.messages.stream(model="m", max_tokens=9, messages=said) as stream:
        return "".join(stream.text_stream)


@pytest.mark.parametrize("read", [_read_chat, _read_responses, _read_messages])
@pytest.mark.parametrize("word", ["approve", "deny"])
def test_the_real_clients_take_signs_of_life_before_an_answer(desk, read, word):
    begun = threading.Event()
    hooks = {"response": [lambda _: begun.set()]}
    with httpx2.Client(event_hooks=hooks, timeout=60) as http, ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read, desk.url, http)
        row = desk.asked()
        assert begun.wait(60)  # which only a sign of life can be the reason for
        desk.answer(row, word, reason="not this one")
        if word == "approve":
            assert reading.result(60) == "Hello from the model."
        else:
            with pytest.raises(Exception, match="not this one"):
                reading.result(60)


def test_a_secret_that_is_put_back_is_not_kept_with_the_question(own_desk, new_database, provider):
    secret = "AKIAIOSFODNN7EXAMPLE"
    desk = own_desk(new_database("sqlite"), redact=True)
    provider.say(Say("noted"))
    said = f"My key is {secret}"
    desk.call(CHAT, said).over()
    placeholder = provider.last.json["messages"][-1]["content"].removeprefix("My key is ")
    assert secret not in placeholder
    provider.say(Say(calls=[("transfer", {"amount": 5, "key": placeholder})]))
    calling = desk.call(CHAT, said)
    row = desk.asked()
    assert row["value"]["args"] == {"amount": 5, "key": placeholder}
    desk.answer(row, "approve", value={**row["value"], "args": {"amount": 6, "key": placeholder}})
    assert secret in calling.over()
    assert placeholder not in calling.text
    assert secret not in json.dumps(desk.rows())
