"""Tells questions to a server over HTTP, and writes its answers down without what is chance."""

import json
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import httpx

from .questions import Question, Step

RECORDED = Path(__file__).parent / "answers.json"
PATIENCE = 20.0
AT_ONCE = 6
HEADERS = (
    "allow",
    "cache-control",
    "content-location",
    "content-type",
    "location",
    "x-accel-buffering",
    "x-pagination-next",
    "x-pagination-total",
)

# What a server notes for itself in configs and metadata, of which clients and graphs read nothing.
BOOKKEEPING = {
    "__after_seconds__",
    "__request_start_time_ms__",
    "langgraph_api_url",
    "langgraph_api_version",
    "langgraph_auth_permissions",
    "langgraph_auth_user",
    "langgraph_auth_user_id",
    "langgraph_host",
    "langgraph_plan",
    "langgraph_request_id",
    "langgraph_version",
    "lc_versions",
    "run_attempt",
}
COUNTERS = {
    "applied_through_seq",
    "event_id",
    "seq",
    "timestamp",
}  # only their order means something

UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
LONG_HASH = re.compile(r"\b[0-9a-f]{32}\b")
TIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(Z|[+-]\d\d:\d\d)?")
PORT = re.compile(r"127\.0\.0\.1:\d+")
VARIABLE = re.compile(r"\{(\w+)\}")

Answer = dict[str, Any]


def load_answers() -> dict[str, list[Answer]]:
    """Return what the reference answered when it was last recorded."""
    return json.loads(RECORDED.read_text())


def save_answers(answers: Mapping[str, list[Answer]]) -> None:
    """Write answers down, a line each, so that changes are seen one by one."""
    stories = []
    for name, story in sorted(answers.items()):
        lines = ",\n".join(json.dumps(answer, ensure_ascii=False) for answer in story)
        stories.append(f"{json.dumps(name)}: [\n{lines}\n]")
    RECORDED.write_text("{\n" + ",\n".join(stories) + "\n}\n")


def collect_all_answers(url: str, questions: Sequence[Question]) -> dict[str, list[Answer]]:
    """Return the answers to all questions by their names; some are put at the same time."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        found = pool.map(lambda question: collect_answers(url, question), questions)
        return {question.name: story for question, story in zip(questions, found, strict=True)}


def collect_answers(url: str, question: Question) -> list[Answer]:
    """Return the answers of the server at this address, as they can be compared."""
    fresh = httpx.Limits(max_keepalive_connections=0)  # the reference may close one after an error
    with (
        httpx.Client(base_url=url, timeout=PATIENCE, limits=fresh) as client,
        ThreadPoolExecutor(4) as pool,
    ):
        return _Story(client, pool).tell(question)


class _Story:
    """One telling of a question: the values that were kept, and the requests under way."""

    def __init__(self, client: httpx.Client, pool: ThreadPoolExecutor) -> None:
        self._client = client
        self._pool = pool
        self._kept: dict[str, Any] = {}
        self._names: dict[str, str] = {}
        self._under_way: dict[str, Future[Answer]] = {}

    def tell(self, question: Question) -> list[Answer]:
        self._name_assistants()
        for step in question.given:
            answer = self._perform(step)
            good = answer is None or answer["status"] < 300
            assert good, f"{question.name}: {step.line} was answered {answer}"
        answers = [(step, self._perform(step)) for step in question.steps]
        return [self._normalise(step, answer) for step, answer in answers if answer is not None]

    def _name_assistants(self) -> None:
        found = self._client.post("/assistants/search", json={"limit": 100}).json()
        for assistant in found:
            if assistant["metadata"].get("created_by") == "system":
                self._kept[f"assistant_{assistant['graph_id']}"] = assistant["assistant_id"]
                self._names[assistant["assistant_id"]] = f"<assistant {assistant['graph_id']}>"

    def _perform(self, step: Step) -> Answer | None:
        if step.method == "await":
            answer = self._under_way.pop(step.path).result()
        elif step.background:
            self._under_way[step.background] = self._send_in_background(self._fill(step))
            return None
        else:
            answer = self._send(self._fill(step))
        self._keep(step, answer)
        return answer

    def _send_in_background(self, step: Step) -> Future[Answer]:
        """Return the answer to come; a stream that is read up to an event is open by then."""
        opened = Event()
        sent = self._pool.submit(self._send, step, opened)
        if step.read is not None:
            assert opened.wait(PATIENCE), f"{step.line} was not answered by a stream"
        return sent

    def _fill(self, step: Step) -> Step:
        """Return the step with the values that earlier answers had."""
        body, params, headers = (
            fill_values(part, self._kept) for part in (step.body, step.params, step.headers)
        )
        line = fill_values(step.line, self._kept)
        more = {"keep": step.keep, "raw": step.raw, "poll": step.poll, "read": step.read}
        kind = {"background": step.background, "unordered": step.unordered}
        return Step(line, body, params=params, headers=headers, **more, **kind)

    def _send(self, step: Step, opened: Event | None = None) -> Answer:
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = self._send_once(step, opened)
            body = answer.get("body")
            if all(isinstance(body, dict) and body.get(k) == v for k, v in step.poll.items()):
                break
            assert time.monotonic() < deadline, f"{step.line} did not become {step.poll}: {body}"
            time.sleep(0.02)
        return answer

    def _send_once(self, step: Step, opened: Event | None) -> Answer:
        options: dict[str, Any] = {"headers": dict(step.headers), "params": step.params or None}
        if step.raw is not None:
            options["content"] = step.raw
        elif step.body is not None:
            options["json"] = step.body
        with self._client.stream(step.method, step.path, **options) as response:
            headers = {k: response.headers[k] for k in HEADERS if k in response.headers}
            answer: Answer = {"status": response.status_code, "headers": headers}
            if headers.get("content-type", "").startswith("text/event-stream"):
                if opened is not None:
                    opened.set()
                return {**answer, **_read_stream(response, step.read)}
            return {**answer, "body": _parse_body(response.read())}

    def _keep(self, step: Step, answer: Answer) -> None:
        for name, path in step.keep.items():
            value = self._kept[name] = find_value(answer, path)
            if isinstance(value, str) and (UUID.fullmatch(value) or LONG_HASH.fullmatch(value)):
                self._names.setdefault(value, f"<{name}>")

    def _normalise(self, step: Step, answer: Answer) -> Answer:
        """Return the answer as it can be compared; how an error is worded is free."""
        body = answer.get("body")
        if isinstance(body, dict) and (answer["status"] >= 400 or body.get("type") == "error"):
            words = {k: "<text>" for k in ("detail", "message") if isinstance(body.get(k), str)}
            answer = {**answer, "body": body | words}
        elif answer["status"] >= 400 and isinstance(body, str):
            answer = {**answer, "body": "<text>"}
        normal = normalise_value(answer, self._names)
        if step.unordered:
            normal["body"] = sort_lists(normal["body"])
        return normal


def _parse_body(content: bytes) -> Any:
    if not content:
        return None
    try:
        return json.loads(content)
    except ValueError:
        return content.decode(errors="replace")


def _read_stream(response: httpx.Response, last: str | None) -> Answer:
    """Return the events of a stream, and whether each has an id to go on from."""
    events: list[list[Any]] = []
    numbered = 0
    deadline = time.monotonic() + PATIENCE
    for fields in _split_events(response.iter_lines()):
        if time.monotonic() > deadline:
            events.append(["the stream did not end", None])
            break
        if set(fields) <= {""}:
            continue
        numbered += "id" in fields
        data = fields.get("data")
        events.append([fields.get("event"), None if data is None else _parse_body(data.encode())])
        if last is not None and last in f"{fields.get('event')} {data}":
            break
    return {"events": events, "ids": "all" if numbered == len(events) else numbered}


def _split_events(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            fields[name] = f"{fields[name]}\n{value[1:]}" if name in fields else value[1:]
        elif fields:
            yield fields
            fields = {}


def fill_values(value: Any, kept: Mapping[str, Any]) -> Any:
    """Return the value with `{name}` replaced everywhere in its texts."""
    if isinstance(value, dict):
        return {fill_values(k, kept): fill_values(v, kept) for k, v in value.items()}
    if isinstance(value, list):
        return [fill_values(one, kept) for one in value]
    if not isinstance(value, str):
        return value
    if (whole := VARIABLE.fullmatch(value)) and whole[1] in kept:
        return kept[whole[1]]
    return VARIABLE.sub(lambda found: str(kept.get(found[1], found[0])), value)


def find_value(answer: Any, path: str) -> Any:
    """Return what stands at a path like `body.tasks.0.id`, or the path where nothing does."""
    for part in path.split("."):
        try:
            answer = answer[int(part)] if isinstance(answer, list) else answer[part]
        except (LookupError, TypeError):
            return f"no {path}"
    return answer


def sort_lists(body: Any) -> Any:
    """Return a body with its list, or the lists in it, in one order."""
    if isinstance(body, dict):
        return {key: sort_lists(one) for key, one in body.items()}
    if isinstance(body, list):
        return sorted(body, key=lambda one: json.dumps(one, sort_keys=True))
    return body


def normalise_value(value: Any, names: Mapping[str, str]) -> Any:
    """Return the value with ids, times and versions replaced by what they are."""
    if isinstance(value, dict):
        return {
            _normalise_text(key, names): "<seq>" if key in COUNTERS else normalise_value(one, names)
            for key, one in value.items()
            if key not in BOOKKEEPING
        }
    if isinstance(value, list):
        return [normalise_value(one, names) for one in value]
    return _normalise_text(value, names) if isinstance(value, str) else value


def _normalise_text(text: str, names: Mapping[str, str]) -> str:
    text = UUID.sub(lambda found: names.get(found[0], "<uuid>"), text)
    text = LONG_HASH.sub(lambda found: names.get(found[0], "<hash>"), text)
    text = TIME.sub(lambda found: "<time Z>" if found[1] == "Z" else "<time>", text)
    return PORT.sub("<host>", text)
