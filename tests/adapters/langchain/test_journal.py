"""What a runner handed in of a graph's calls is read as messages and plain data, nothing else."""

import base64
import dataclasses

import pytest
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from checkrail.adapters.langchain.journal import JournalEntry


def slot():
    return JournalEntry("task", "root", lambda: "asked", None)


def kept(kind, data):
    written = base64.b64encode(data).decode()
    return {"task": "task", "asked": "asked", "over": True, "given": [kind, written]}


@pytest.mark.parametrize(("name", "field"), [("system", "command"), ("mkdir", "path")])
def test_nothing_is_called_that_a_journal_names(tmp_path, name, field):
    evil = dataclasses.make_dataclass(name, [(field, str)])
    evil.__module__ = "os"
    folder = tmp_path / "made"
    given = f"mkdir {folder}" if name == "system" else str(folder)
    kind, data = JsonPlusSerializer().dumps_typed({"content": evil(given)})
    read = slot()
    read.restore(kept(kind, data))
    assert read.result == {"content": {field: given}}
    assert not folder.exists()


@pytest.mark.parametrize("kind", ["json", "pickle"])
def test_other_forms_are_not_read(kind):
    with pytest.raises(ValueError, match="holds no data of the kind"):
        slot().restore(kept(kind, b"{}"))
