"""Events of a stream: told apart however they are cut, and without the loss of a byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail.llm.sse import EventSplitter, Piece, write_event


def fed(data: bytes, *cuts: int) -> tuple[list[Piece], bytes]:
    splitter = EventSplitter()
    pieces: list[Piece] = []
    for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
        pieces += splitter.feed(data[start:end])
    return pieces, splitter.rest()


def told(pieces: list[Piece]) -> list[tuple[str | None, bytes]]:
    return [(piece.event, piece.data) for piece in pieces if piece.data or piece.event]


def test_an_event_has_a_name_and_data():
    pieces, rest = fed(b'event: ping\ndata: {"type": "ping"}\n\n')
    assert told(pieces) == [("ping", b'{"type": "ping"}')]
    assert rest == b""


def test_the_space_after_the_colon_may_be_absent_and_only_one_is_taken():
    assert told(fed(b"data:a\n\ndata:  b\n\n")[0]) == [(None, b"a"), (None, b" b")]


def test_data_of_several_lines_is_joined():
    assert told(fed(b"data: a\ndata\ndata: b\n\n")[0]) == [(None, b"a\n\nb")]


def test_a_comment_is_a_piece_without_data():
    pieces, _ = fed(b": keep-alive\n\ndata: a\n\n")
    assert [piece.data for piece in pieces] == [b"", b"a"]


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
def test_lines_end_in_any_of_the_three_ways(end):
    data = b"event: e%bdata: a%b%bdata: b%b%b".replace(b"%b", end)
    pieces, rest = fed(data)
    assert told(pieces) == [("e", b"a"), (None, b"b")]
    assert rest == b""


def test_what_is_not_ended_is_left():
    pieces, rest = fed(b"data: a\n\ndata: b\n")
    assert told(pieces) == [(None, b"a")]
    assert rest == b"data: b\n"


def test_an_event_is_written_as_it_is_read():
    assert write_event(b"{}", "done") == b"event: done\ndata: {}\n\n"
    assert told(fed(write_event(b"a\nb\r\nc\rd"))[0]) == [(None, b"a\nb\nc\nd")]


LINES = st.sampled_from(
    [b"data: a", b"data:b", b"event: e", b": c", b"id: 1", b"", "data: é".encode()]
)
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])


@given(st.lists(st.tuples(LINES, ENDS), max_size=12), st.data())
def test_no_cut_loses_a_byte_or_changes_an_event(lines, data):
    stream = b"".join(line + end for line, end in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))
    pieces, rest = fed(stream, *cuts)
    whole, _ = fed(stream)
    assert b"".join(piece.raw for piece in pieces) + rest == stream
    assert told(pieces) == told(whole)


@given(st.binary(max_size=60), st.integers(1, 5))
def test_bytes_that_mean_nothing_pass_too(stream, size):
    pieces, rest = fed(stream, *range(size, len(stream), size))
    assert b"".join(piece.raw for piece in pieces) + rest == stream
