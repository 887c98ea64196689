import logging

import pytest

from checkrail import Block, Continue, HookRegistry
from checkrail.telemetry import LogSink


@pytest.fixture
def logger(caplog):
    caplog.set_level(logging.DEBUG, logger="tests.sink")
    return logging.getLogger("tests.sink")


def told(caplog):
    return [
        (record.levelname, record.getMessage().split(" duration_ms=")[0], record.checkrail)
        for record in caplog.records
        if record.name == "tests.sink"
    ]


async def fired(logger, hook, **options):
    registry = HookRegistry(LogSink(logger))
    registry.register(hook, "before_run", name="mine", **options)
    await registry.fire("before_run", {}, run_id="r 1")


async def test_a_hook_that_just_went_on_is_debug(logger, caplog):
    await fired(logger, lambda event: None)
    [(level, line, fields)] = told(caplog)
    assert level == "DEBUG"
    assert line == (
        "event=hook_complete hook=mine point=before_run lane=transform decision=continue"
    )
    assert fields["run_id"] == "r 1"
    assert fields["duration_ms"] >= 0
    assert caplog.records[0].getMessage().endswith(' run_id="r 1"')


async def test_a_decision_is_info_with_its_reason(logger, caplog):
    await fired(logger, lambda event: Block('say "no"\nnow'))
    [(level, line, _)] = told(caplog)
    assert level == "INFO"
    assert line.endswith(r'decision=block reason="say \"no\"\nnow"')
    assert line.startswith("event=hook_blocked ")


async def test_a_change_is_info_without_the_values(logger, caplog):
    await fired(logger, lambda event: Continue({"a": "top-secret"}))
    [(level, line, fields)] = told(caplog)
    assert level == "INFO"
    assert line.endswith("decision=continue changed=true")
    assert "top-secret" not in line + repr(fields)


async def test_a_shadow_says_so(logger, caplog):
    await fired(logger, lambda event: Block("no"), mode="shadow")
    [(level, line, _)] = told(caplog)
    assert level == "INFO"
    assert line.endswith("decision=block shadow=true reason=no")


async def test_a_failure_is_a_warning(logger, caplog):
    def broken(event):
        raise ValueError("out of order")

    await fired(logger, broken)
    [(level, line, _)] = told(caplog)
    assert level == "WARNING"
    assert line.endswith('failure=error error="ValueError: out of order"')
    assert "decision" not in line


async def test_what_nobody_listens_to_is_not_put_together(logger, caplog):
    caplog.set_level(logging.INFO, logger="tests.sink")
    await fired(logger, lambda event: None)
    assert told(caplog) == []


def test_the_logger_unless_said():
    assert LogSink().logger.name == "checkrail.records"
