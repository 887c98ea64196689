import io
import json
import threading
import uuid

import pytest

from checkrail import Block, Continue, HookRegistry, ModelRequest
from checkrail.telemetry import JsonLinesSink


def hooked(sink, **options):
    registry = HookRegistry(sink, **options)

    def change(event, value):
        return Continue({**value, "seen": True})

    def refuse(event):
        return Block("no")

    registry.register(change, "before_run")
    registry.register(refuse, "before_run", lane="gate")
    return registry


def lines(text):
    assert text.endswith("\n")
    return [json.loads(line) for line in text.splitlines()]


async def test_one_line_for_each_record(tmp_path):
    path = tmp_path / "records.jsonl"
    with JsonLinesSink(path) as sink:
        verdict = await hooked(sink).fire("before_run", {"a": "é\n"}, run_id="r1")
    told = lines(path.read_text(encoding="utf-8"))
    assert told == [record.wire() for record in verdict.records]
    assert [(line["event_type"], line["hook"]) for line in told] == [
        ("hook_start", "change"),
        ("hook_complete", "change"),
        ("hook_start", "refuse"),
        ("hook_blocked", "refuse"),
    ]
    assert told[1]["after"] == {"a": "é\n", "seen": True}
    assert told[3]["block_reason"] == "no"
    assert {line["run_id"] for line in told} == {"r1"}


async def test_a_line_is_there_as_soon_as_it_is_written(tmp_path):
    path = tmp_path / "records.jsonl"
    sink = JsonLinesSink(str(path))
    await hooked(sink).fire("before_run", {})
    assert len(lines(path.read_text())) == 4
    sink.close()


async def test_a_file_is_added_to(tmp_path):
    path = tmp_path / "records.jsonl"
    for _ in range(2):
        with JsonLinesSink(path) as sink:
            await hooked(sink).fire("before_run", {})
    assert len(lines(path.read_text())) == 8


async def test_an_open_file_is_written_to_and_left_open():
    file = io.StringIO()
    sink = JsonLinesSink(file)
    await hooked(sink).fire("before_run", {})
    sink.close()
    sink.close()
    assert len(lines(file.getvalue())) == 4


def test_closing_twice_does_nothing(tmp_path):
    sink = JsonLinesSink(tmp_path / "records.jsonl")
    sink.close()
    sink.close()


async def test_after_closing_the_work_goes_on(tmp_path, caplog):
    sink = JsonLinesSink(tmp_path / "records.jsonl")
    sink.close()
    verdict = await hooked(sink).fire("before_run", {})
    assert verdict.reason == "no"
    assert "a record sink failed" in caplog.text


class Broken:
    def model_dump(self, **options):
        raise RuntimeError("no dump")


@pytest.mark.parametrize(
    "value",
    [object(), float("nan"), float("inf"), {1, 2}, b"bytes", "\ud800", 1j, Broken()],
    ids=lambda value: type(value).__name__,
)
async def test_what_json_cannot_say_is_no_reason_to_fail(value, tmp_path, caplog):
    path = tmp_path / "records.jsonl"
    with JsonLinesSink(path) as sink:
        await hooked(sink).fire("before_run", {"value": value})
    told = lines(path.read_text())
    assert [line["hook"] for line in told] == ["change", "change", "refuse", "refuse"]
    assert [line["event_type"] for line in told][1] == "hook_complete"
    assert "a record sink failed" not in caplog.text


async def test_ids_may_be_anything_that_has_a_text(tmp_path):
    path, run = tmp_path / "records.jsonl", uuid.uuid4()
    with JsonLinesSink(path) as sink:
        await hooked(sink).fire("before_run", {}, run_id=run)
    assert {line["run_id"] for line in lines(path.read_text())} == {str(run)}


async def test_strict_json_only(tmp_path):
    path = tmp_path / "records.jsonl"
    with JsonLinesSink(path) as sink:
        await hooked(sink).fire("before_run", {"value": float("nan")})
    assert "NaN" not in path.read_text()
    assert lines(path.read_text())[1]["after"]["value"] == "nan"


async def test_redacted_and_unkept_values_are_not_written():
    file = io.StringIO()
    registry = HookRegistry(JsonLinesSink(file))

    def hide(event, request):
        return Continue(ModelRequest("m"), redacted=True)

    registry.register(hide, "before_llm_call")
    await registry.fire("before_llm_call", ModelRequest("top-secret"))
    await hooked(JsonLinesSink(file), history="off").fire("before_run", {"a": "top-secret"})
    assert "top-secret" not in file.getvalue()


async def test_lines_from_many_threads_stay_whole(tmp_path):
    path = tmp_path / "records.jsonl"
    with JsonLinesSink(path) as sink:
        records = (await hooked(sink).fire("before_run", {})).records

        def write():
            for _ in range(50):
                for record in records:
                    sink(record)

        threads = [threading.Thread(target=write) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(lines(path.read_text())) == 4 + 8 * 50 * 4
