"""Blueprints of a member that try to hold the event loop: by patterns, loops, schemas and size.

The slow test, which `make blueprints` runs, makes 10,000 of them, the other one a few. Each is
posted, read and built as any other, then its hooks are fired and its schemas asked with values that
go with it.
"""

import asyncio
import contextlib
import json
import os
import random
import time
from pathlib import Path

import pytest

from checkrail import ModelRequest, ToolCall

MANY = range(
    int(os.environ.get("CHECKRAIL_FIRST_BLUEPRINT", "0")),
    int(os.environ.get("CHECKRAIL_BLUEPRINTS", "10000")),
)
MOST = 0.2
"""CPU seconds that the loop may be held."""
TRIES = 3
"""A host that runs others on the same cores can only add to what is measured: the lowest counts."""

LETTERS = "".join(random.Random(0).choices("ab", k=1_000_000))
"""What engines find hardest: each pattern has many ways to go on at each letter."""

TEXTS = [
    LETTERS[:200_000],
    "a" * 200_000 + "!",
    "ab" * 50_000,
    "é" * 60_000,
    "a b " * 40_000,
    "[" * 3000,
    "\\" * 999,
]
LISTS = [[*range(20_000)], ["x" * 50] * 5000, [[1] * 100] * 100, [{"a": n} for n in range(4000)]]


def nested(depth):
    value = "a" * 2000
    for _ in range(depth):
        value = [value]
    return value


class Maker:
    """Makes things up, the same ones for a seed."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.choose = self.random.choice

    def several(self, make, most):
        return [make() for _ in range(self.random.randint(1, most))]

    def pattern(self, depth=0):
        made = self.choose(["a", "b", ".", r"\w", r"\s", r"\pL", "[ab]", "[^x]", "é", "(?i)a", "$"])
        if depth < 4 and self.random.random() < 0.7:
            inner = self.pattern(depth + 1)
            made = self.choose(
                [
                    *(f"({inner})+", f"({inner}|{inner})*", f"({inner}){{1,{self.number()}}}"),
                    *(f"(?:{inner}{inner})?", f"({inner}){inner}", f"{made}{inner}"),
                    *(f"{inner}|{made}", f"[ab]*a[ab]{{{self.number()}}}x"),
                ]
            )
            if self.random.random() < 0.02:
                made = self.choose([f"(?={inner}){inner}", f"({inner})\\1"])
        return made

    def number(self):
        return self.choose([2, 2, 3, 9, 9, 50, 200, 999, 5000])

    def glob(self):
        plain = "".join(self.several(lambda: self.choose(["*", "a", "?", "[ab]", "*a"]), 60))
        return self.choose([plain, plain, f"/{self.pattern()}/", "*a" * 499])

    def operand(self, names):
        name = self.choose(names)
        return self.choose(
            [
                *(name, f"{name}.l", f"{name}.text", f"size({name}.l)", "1", "'a'", "[1, 2]"),
                *(f"{name}.text.replace('a', {name}.text)", "lists.range(100000)"),
                *(f"{name}.text.split('')", f"sort({name}.l)", f"{name}.text.lowerAscii()"),
                f"distinct({name}.l)",
            ]
        )

    def condition(self, root, names=None, depth=0):
        names = names or [root]
        kind = self.random.random()
        if depth < 5 and kind < 0.45:
            own = f"v{depth}"
            macro = self.choose(["all", "exists", "exists_one", "existsOne", "filter", "map"])
            inner = self.condition(root, [*names, own, own], depth + 1)
            loop = f"{self.choose(names)}.l.{macro}({own}, {inner})"
            return f"size({loop}) > 0" if macro in ("filter", "map") else loop
        if kind < 0.6:
            return f"{self.choose(names)}.text.matches('{self.pattern()}')".replace("\\", "\\\\")
        if depth < 5 and kind < 0.75:
            sides = (self.condition(root, names, depth + 1) for _ in range(2))
            return f"({self.choose([' && ', ' || ']).join(sides)})"
        if kind < 0.85:
            added = " + ".join(self.several(lambda: self.operand(names), 14))
            return f"{added} == {self.operand(names)}"
        if kind < 0.9:
            doubled = ".map(d, d + d)" * self.random.randint(1, 6)
            return f"[{root}.text]{doubled}.size() > 0"
        return f"{self.operand(names)} == {self.operand(names)}"

    def schema(self, depth=0):
        if depth > self.choose([1, 2, 4]):
            return self.choose(
                [True, {"type": "string"}, {"const": 1}, {"pattern": self.pattern()}]
            )
        inner = [self.schema(depth + 1) for _ in range(self.random.randint(1, 4))]
        return self.choose(
            [
                {"anyOf": inner},
                {"allOf": inner * self.choose([1, 50 if depth > 2 else 2])},
                {"items": inner[0], "uniqueItems": True},
                {
                    "properties": {"l": inner[0], "text": inner[-1]},
                    "additionalProperties": inner[0],
                },
                {"patternProperties": {self.pattern(): inner[0]}},
                {"enum": LISTS[0][:5000]},
                {"contains": inner[0]},
                {"items": self.choose([{"$ref": "#"}, inner[0], inner[0]])},
                {"not": inner[0]},
            ]
        )

    def hook(self, root):
        said = self.choose(
            [
                {"block": "no"},
                {"redact": self.choose(["secrets", "email", "card"])},
                {"redact": {"patterns": self.several(lambda: f"/{self.pattern()}/", 5)}},
                {"builtin": "redact", "config": {"patterns": {"x": self.pattern()}}},
                {"builtin": "schema_check", "config": {"schema": self.schema()}},
                {"set": {f"{root}.l": LISTS[0][:2000]}},
            ]
        )
        if root.startswith("tool_call") and self.random.random() < 0.3:
            config = {"deny": self.several(self.glob, 20)}
            said = {"builtin": "tool_policy", "config": config}
        if self.random.random() < 0.6:
            said = {**said, "when": self.condition(root)}
        if self.random.random() < 0.3:
            tools = ["tools"] if root.startswith("tool_call") else []
            key = self.choose(["models", "users", "tags", *tools])
            said = {**said, key: self.several(self.glob, 10)}
        return said

    def blueprint(self, name):
        roots = {"before_run": "parameters", "on_run_start": "parameters", "on_result": "output"}
        hooks = {
            point: self.several(lambda root=root: self.hook(root), self.choose([1, 1, 2, 12]))
            for point, root in roots.items()
            if self.random.random() < 0.4
        }
        if self.random.random() < 0.3:
            hooks["before_tool_call"] = self.several(lambda: self.hook("tool_call.args"), 2)
        if self.random.random() < 0.3:
            hooks["before_llm_call"] = self.several(lambda: self.hook("request.params"), 2)
        said = {"name": name, "model": {"provider": "scripted", "replies": ["x"]}, "hooks": hooks}
        for key in ("parameters_schema", "output_schema"):
            if self.random.random() < 0.15:
                said[key] = self.schema()
        if self.random.random() < 0.05:
            said["system_prompt"] = "x" * self.choose([400_000, 600_000])
        if self.random.random() < 0.05:
            said["tags"] = ["x"] * self.choose([10_000, 30_000])
        return said

    def value(self):
        return {
            "text": self.choose(TEXTS),
            "l": self.choose(LISTS),
            "n": nested(self.choose([1, 50, 90])),
        }


def seconds_in_line():
    """Return how long this thread was ready to run while the system let others run."""
    waited = Path("/proc/thread-self/schedstat").read_text().split()[1]
    return int(waited) / 1e9


class Watch:
    """Measures how much CPU time is taken before the loop has its turn again.

    That is what the loop's own thread uses, and what others use while it waits for them: a library
    may work in another thread, and let none but itself run. It is not the time for which a busy
    machine has other programs run, nor what other threads use meanwhile.
    """

    def __init__(self):
        self.most = 0.0

    async def __aenter__(self):
        self._task = asyncio.create_task(self._look())
        await asyncio.sleep(0)
        return self

    async def __aexit__(self, *_):
        await asyncio.sleep(0.001)  # what held the loop last is measured too
        self._task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._task

    async def _look(self):
        last = self._read()
        while True:
            await asyncio.sleep(0.0005)
            now = self._read()
            self.most = max(self.most, min(map(float.__sub__, now, last)))
            last = now

    def _read(self):
        return time.monotonic() - seconds_in_line(), time.process_time()


async def fire_all(entry, value):
    """Fire the hooks of an agent and ask its schemas; what fails there is the agent's own."""
    request = ModelRequest(messages=[{"role": "user", "content": value["text"]}], params=value)
    for point, given in (
        ("before_run", value),
        ("on_run_start", value),
        ("before_llm_call", request),
        ("before_tool_call", ToolCall("c", value["text"][:2000], value)),
        ("on_result", value),
    ):
        await entry.hooks.fire(point, given, model="m" * 500, metadata={"tags": ["t" * 500] * 50})
        await asyncio.sleep(0)
        entry.problem_at(point, value)
        await asyncio.sleep(0)


def encode(value):
    """Return a body as a client's arguments: writing JSON is not the server's work."""
    return {"content": json.dumps(value), "headers": {"content-type": "application/json"}}


async def try_blueprint(served, ann, number):
    """Return whether a blueprint was taken, and for how long the loop was held meanwhile."""
    maker = Maker(number)
    name = f"b{number}"
    body = encode(maker.blueprint(name))
    async with Watch() as watch:
        answer = await ann.post("/agents", **body)
        assert answer.status_code in {201, 413, 422}, (number, answer.text[:500])
        if taken := answer.status_code == 201:
            await fire_all(served.services.catalogue.get(name), maker.value())
    if taken:
        assert (await ann.delete(f"/agents/{name}")).status_code == 204
    return taken, watch.most


@pytest.mark.parametrize("places", ["sqlite"], indirect=True)
@pytest.mark.parametrize("numbers", [range(60), pytest.param(MANY, marks=pytest.mark.slow)])
async def test_no_blueprint_of_a_member_holds_the_event_loop(served, numbers):
    ann = await served.as_user("ann")
    taken_in_all, worst = 0, (0.0, -1)
    for number in numbers:
        taken, held = await try_blueprint(served, ann, number)
        for _ in range(TRIES - 1):
            if held >= MOST:
                _, again = await try_blueprint(served, ann, number)
                held = min(held, again)
        taken_in_all += taken
        worst = max(worst, (held, number))
        assert held < MOST, (number, held, Maker(number).blueprint(f"b{number}")["hooks"])
    summary = f"{numbers}: {len(numbers)} blueprints, {taken_in_all} taken; "
    summary += f"held for {worst[0]:.3f} s at most, by {worst[1]}"
    print(summary)  # noqa: T201 - what `make blueprints` is for
    assert taken_in_all > len(numbers) // 20


def agent(hooks=(), replies=("x",), **more):
    model = {"provider": "scripted", "replies": [*replies]}
    return {"name": "worst", "model": model, "hooks": dict(hooks), **more}


def takes(schema):
    return agent(parameters_schema={"type": "object", **schema})


ENDLESS = "parameters.l.all(a, parameters.l.all(b, parameters.l.all(c, a != -1)))"
SLOW_GLOB = "*" + "?" * 900 + "x"
OBJECTS = [{"a": number} for number in range(4000)]
LONG_CALL = {"tool_calls": [{"tool": LETTERS[:300_000]}]}
WORST = {
    "conditions that run out of time": (
        agent({"before_run": [{"block": "no", "when": ENDLESS, "mode": "shadow"}] * 20}),
        {"l": [*range(200)], "prompt": "x"},
    ),
    "a pattern of a schema": (
        takes({"properties": {"text": {"pattern": "[ab]*a[ab]{900}x"}}}),
        {"text": LETTERS},
    ),
    "many patterns of a schema": (
        takes(
            {"properties": {"text": {"allOf": [{"pattern": f"[ab]{{{n}}}x"} for n in range(300)]}}}
        ),
        {"text": LETTERS},
    ),
    "patterns for names in a schema": (
        takes({"patternProperties": {f"[ab]*a[ab]{{{n}}}x": {} for n in range(300, 320)}}),
        {LETTERS[n : n + 9000]: 1 for n in range(50)},
    ),
    "objects that are listed": (
        takes({"properties": {"l": {"items": {"enum": OBJECTS}}}}),
        {"l": [OBJECTS[-1]] * 5000},
    ),
    "many schemas for many items": (
        takes({"properties": {"l": {"items": {"oneOf": [{"const": n} for n in range(400)]}}}}),
        {"l": [1] * 40_000},
    ),
    "a schema of a hook": (
        agent(
            {
                "before_run": {
                    "builtin": "schema_check",
                    "config": {"schema": {"additionalProperties": {"pattern": "[ab]*a[ab]{900}x"}}},
                }
            },
            parameters_schema={"type": "object"},
        ),
        {"text": LETTERS},
    ),
    "patterns that find what others have put there": (
        agent({"on_run_start": {"redact": {"patterns": ["/\\w/", "/./", "/\\w|[^x]/"]}}}),
        {"prompt": "[" * 3000, "l": [f"{n}" for n in range(300)]},
    ),
    "variables that are never closed": (agent(system_prompt="${" * 20_000), {"prompt": "x"}),
    "globs for the name of a tool": (
        agent(
            {"before_tool_call": [{"block": "no", "tools": [SLOW_GLOB] * 10}] * 10},
            [LONG_CALL, "x"],
            tools=["agent:other"],
            parameters_schema={"type": "object"},
        ),
        {},
    ),
}


@pytest.mark.parametrize("places", ["sqlite"], indirect=True)
@pytest.mark.parametrize("case", WORST)
async def test_the_worst_that_is_known_holds_nobody_up(served, case):
    blueprint, parameters = WORST[case]
    ann = await served.as_user("ann")
    tool = {"name": "other", "model": {"provider": "scripted", "replies": ["x"]}}
    assert (await ann.post("/agents", json=tool)).status_code == 201
    body = encode({"agent_name": "worst", "parameters": parameters, "execution_mode": "sync"})
    agent_body = encode(blueprint)
    held = []
    while len(held) < TRIES and min(held, default=MOST) >= MOST:
        async with Watch() as watch:
            made = await ann.post("/agents", **agent_body)
            assert made.status_code == 201, made.text
            answer = await ann.post("/runs", **body, timeout=120)
        assert answer.status_code < 500 or "too" in answer.text, answer.text
        assert (await ann.delete("/agents/worst")).status_code == 204
        held.append(watch.most)
    assert min(held) < MOST, held


HEADER = {"type": "http", "url": "https://example.com", "headers": {"token" * 20_000 + "\n": "x"}}
REFUSED = {
    "the name of a header": agent({"on_run_start": HEADER}),
    "a text in an expression that is never closed": agent(
        {"before_run": {"block": "no", "when": 'x == """' + "\\\\" * 19 + '"'}}
    ),
}


@pytest.mark.parametrize("places", ["sqlite"], indirect=True)
@pytest.mark.parametrize("case", REFUSED)
async def test_what_is_refused_holds_nobody_up_either(served, case):
    ann = await served.as_user("ann")
    held = []
    while len(held) < TRIES and min(held, default=MOST) >= MOST:
        async with Watch() as watch:
            answer = await ann.post("/agents", **encode(REFUSED[case]))
        assert answer.status_code == 422, answer.text
        held.append(watch.most)
    assert min(held) < MOST, held


@pytest.mark.parametrize("places", ["sqlite"], indirect=True)
@pytest.mark.parametrize("name", ["default", "const", "enum", "examples", "other"])
async def test_a_schema_that_refers_to_itself_twice_is_refused_under_any_name(served, name):
    twice = {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}
    ann = await served.as_user("ann")
    answer = await ann.post("/agents", json=takes({"properties": {name: twice}}))
    assert answer.status_code == 422
    assert "refers to itself" in answer.text


@pytest.mark.parametrize("places", ["sqlite"], indirect=True)
async def test_patterns_for_names_are_limited_together(served):
    ann = await served.as_user("ann")
    for tools in (
        [f"/[ab]{{900}}{n}/" for n in range(30)],
        [SLOW_GLOB + str(n) for n in range(200)],
    ):
        hooks = {"before_tool_call": {"block": "no", "tools": tools}}
        answer = await ann.post("/agents", json=agent(hooks))
        assert answer.status_code == 422
        assert "more patterns for names than can be matched" in answer.text


@pytest.mark.parametrize("places", ["sqlite"], indirect=True)
async def test_large_values_pass_schemas_of_the_usual_kind(served):
    row = {"properties": {f"f{n}": {"type": "string", "pattern": "^[a-z ]+$"} for n in range(30)}}
    ident = {"type": "string", "pattern": "^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$"}
    schema = {"properties": {"rows": {"items": row}, "id": ident, "text": {"type": "string"}}}
    rows = [{f"f{n}": "some text" for n in range(30)}] * 500
    given = {"rows": rows, "text": LETTERS, "id": "01234567-89ab-cdef-0123-456789abcdef"}
    ann = await served.as_user("ann")
    assert (await ann.post("/agents", json=takes(schema))).status_code == 201
    asked = {"agent_name": "worst", "parameters": given, "execution_mode": "async_poll"}
    answer = await ann.post("/runs", json=asked)
    assert answer.status_code == 200, answer.text[:500]
