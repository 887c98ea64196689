"""What runners hand in of runs that they leave: data of a known shape, bound to run and attempt."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from hashlib import sha256
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from checkrail.agent.snapshot import LoopSnapshot, parse_snapshot
from checkrail.engine.errors import CheckrailError
from checkrail.runs import jsons
from checkrail.runs.agents.catalogue import GRAPH
from checkrail.runs.errors import InvalidError
from checkrail.runs.execute.job import MEMO

HANDED_IN = "handed_in"
"""Which attempt of a run a memo came from, and its digest, in what is kept of the run."""


class SnapshotError(CheckrailError):
    """The stored snapshot of a run is not what its runner handed in."""


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, defer_build=True)


class _Call(_Shape):
    """A call that a node of a graph has made: `given` is the form and the data of what came."""

    task: str
    asked: str
    over: bool
    given: tuple[Literal["null", "bytes", "bytearray", "msgpack"], str] = Field(strict=False)


class _GraphSnapshot(_Shape):
    """What a graph has to know when it is entered again, as the adapter writes it."""

    calls: list[_Call]
    seen: list[Annotated[list[str], Field(min_length=2, max_length=2)]]
    injected: dict[str, list[dict[str, Any]]]
    retries: dict[str, int]
    models: dict[str, dict[str, str]] = {}


@cache
def _loop_memos() -> TypeAdapter[LoopSnapshot]:
    """Return what checks memos of the agent loop, made when the first one comes."""
    return TypeAdapter(LoopSnapshot)


def check_snapshot(kind: str, memo: Mapping[str, Any]) -> None:
    """Refuse a snapshot that an agent of this kind cannot have left."""
    try:
        if kind == GRAPH:
            _GraphSnapshot.model_validate(memo)
        elif kind == "autonomous":
            _loop_memos().validate_python(memo)
            parse_snapshot(memo)
        else:
            raise InvalidError(f"a {kind} run cannot be left: it has no place to be entered again")
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, ("memo", *first["loc"])))
        raise InvalidError(f"this is no memo of kind {kind}: {where}: {first['msg']}") from None
    except (TypeError, KeyError) as error:
        raise InvalidError(f"this is no memo of kind {kind}: {error}") from None


def sign_snapshot(run_id: str, attempt: int, kept: Mapping[str, Any]) -> dict[str, Any]:
    """Return the suspended state of a run with the digest of its snapshot."""
    bound = {"attempt": attempt, "digest": _snapshot_digest(run_id, attempt, kept[MEMO])}
    return {**kept, HANDED_IN: bound}


def verify_snapshot(run_id: str, kept: Mapping[str, Any]) -> None:
    """Raise `SnapshotError` unless a snapshot is the one handed in for this very run."""
    bound = kept.get(HANDED_IN)
    if bound is None:  # a server has left the run
        return
    if _snapshot_digest(run_id, bound["attempt"], kept[MEMO]) != bound["digest"]:
        raise SnapshotError(
            f"the memo of run {run_id} is not the one that its runner handed in at attempt "
            f"{bound['attempt']}: the run is not entered again. Start it anew"
        )


def _snapshot_digest(run_id: str, attempt: int, memo: Any) -> str:
    return sha256(jsons.dumps([run_id, attempt, memo])).hexdigest()
