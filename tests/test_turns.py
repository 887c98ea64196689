"""Redactions that take long do not keep the event loop: they yield, or go to a thread."""

import asyncio
import threading
import time

import pytest

from checkrail import Hooks
from checkrail.builtin import redact
from checkrail.config import load_text
from checkrail.engine.registry import HookRegistry
from checkrail.turns import LARGE as MANY_BYTES
from checkrail.turns import SOON, run_in_line

LARGE = "the quick brown fox, password=hunter22. " * 5_000
RULE = "hooks: {before_run: {redact: %s}}"


def registry_of(text):
    registry = HookRegistry()
    registry.swap(load_text(text).specs)
    return registry


@pytest.mark.parametrize(
    ("said", "text", "left"),
    [
        ("secrets", LARGE, "password=[redacted]"),
        ("'/(?i)FOX/'", LARGE, "brown [redacted], password"),
        ("'/.{1,100}é/'", "xé" * 500, "[redacted]"),
    ],
)
async def test_a_large_redaction_leaves_the_loops_thread_alone(said, text, left):
    registry = registry_of(RULE % said)
    began = time.thread_time()
    verdict = await registry.fire("before_run", {"text": text})
    assert time.thread_time() - began < 0.5
    assert left in verdict.value["text"]
    assert verdict.redacted


async def test_a_builtin_does_the_same_in_files_and_in_code():
    hooks = Hooks()
    hooks.on_result(redact)
    declared = registry_of("hooks: {on_result: {builtin: redact}}")
    for registry in (declared, hooks.registry):
        verdict = await registry.fire("on_result", {"text": LARGE})
        assert "hunter22" not in verdict.value["text"]


async def test_others_go_on_meanwhile():
    registry = registry_of(RULE % "secrets")
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0.001)

    task = asyncio.create_task(others())
    await registry.fire("before_run", {"text": LARGE * 8})
    task.cancel()
    assert turns > 3


async def test_a_redaction_that_has_a_thread_stays_there():
    registry = registry_of("hooks: {before_run: {redact: secrets, thread: true}}")
    before = threading.active_count()
    verdict = await registry.fire("before_run", {"text": LARGE})
    assert "hunter22" not in verdict.value["text"]
    assert threading.active_count() <= before + 1


async def test_a_pattern_that_is_too_much_for_a_text_blocks():
    text = {"text": LARGE * 10}
    verdict = await registry_of(RULE % "'/.{1,400}é/'").fire("before_run", text)
    assert verdict.decision == "block"
    assert "is too long for the pattern" in str(verdict.records[-1])


async def test_others_go_on_between_conditions_that_fail_after_long():
    endless = "parameters.l.all(a, parameters.l.all(b, parameters.l.all(c, a != -1)))"
    one = f"{{block: no, when: '{endless}', mode: shadow}}"
    registry = registry_of(f"hooks: {{before_run: [{', '.join([one] * 4)}]}}")
    turns = 0

    async def others():
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(others())
    verdict = await registry.fire("before_run", {"l": [*range(200)]})
    task.cancel()
    assert turns >= 4
    assert [each.failure for each in verdict.records if each.failure] == ["error"] * 4


async def test_others_have_as_long_as_work_took_that_cannot_be_interrupted():
    began, ended = [], []

    def work():
        began.append(time.monotonic())
        until = time.thread_time() + 4 * SOON
        while time.thread_time() < until:
            pass
        ended.append(time.monotonic())

    await asyncio.gather(*(run_in_line(work, MANY_BYTES) for _ in range(3)))
    pauses = [begin - end for begin, end in zip(began[1:], ended[:-1], strict=True)]
    assert min(pauses) > 3 * SOON
