import pytest

from checkrail.agent.models.litellm import LiteLLMDraft, _pause_seconds, with_thinking_blocks
from checkrail.llm.answer_errors import InvalidAnswer

FIRST = {"type": "thinking", "thinking": "Paris.", "signature": "s1"}
SECOND = {"type": "thinking", "thinking": "Or Rome?", "signature": "s2"}
HIDDEN = {"type": "redacted_thinking", "data": "XX"}


def piece(stop=None, **delta):
    return {"choices": [{"delta": delta, "finish_reason": stop}]}


def thought(text, **more):
    return piece(thinking_blocks=[{"type": "thinking", "thinking": text, **more}])


def test_thoughts_that_come_in_pieces_end_with_their_signatures():
    draft = LiteLLMDraft("claude")
    pieces = [
        thought("Par"),
        thought("is."),
        thought("", signature="s1"),
        piece(thinking_blocks=[HIDDEN]),
        thought("Or "),
        thought("Rome?", signature="s2"),
        piece(content="Rome."),
        piece("stop"),
    ]
    assert "".join(draft.add(one) for one in pieces) == "Rome."
    said = {"type": "text", "text": "Rome."}
    assert draft.finish().content == [FIRST, HIDDEN, SECOND, said]


def test_thoughts_that_come_at_once_are_told_apart():
    message = {"content": "", "thinking_blocks": [FIRST, SECOND]}
    answer = {"choices": [{"message": message, "finish_reason": "stop"}]}
    assert LiteLLMDraft("claude").read_whole(answer).content == [FIRST, SECOND]


@pytest.mark.parametrize("blocks", ["many", [7], [{"type": "thinking", "thinking": 7}]])
def test_thoughts_of_the_wrong_shape_are_no_answer(blocks):
    answer = {"choices": [{"message": {"thinking_blocks": blocks}, "finish_reason": "stop"}]}
    with pytest.raises(InvalidAnswer):
        LiteLLMDraft("claude").read_whole(answer)


@pytest.mark.parametrize("role", ["user", "tool"])
def test_only_the_assistants_thoughts_are_given_back(role):
    message = {"role": role, "content": [FIRST]}
    assert with_thinking_blocks(message) == message


class Busy(Exception):
    def __init__(self, **headers):
        self.litellm_response_headers = {k.replace("_", "-"): v for k, v in headers.items()}


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry_after": "7"}, 7),
        ({"retry_after_ms": "250", "retry_after": "1"}, 0.25),
    ],
)
def test_the_pause_is_as_long_as_the_provider_asks(headers, seconds):
    assert _pause_seconds(Busy(**headers), 0) == seconds


@pytest.mark.parametrize("given", ["3600", "-1", "soon", None])
def test_without_a_sensible_wish_the_pauses_grow(given):
    pauses = [_pause_seconds(Busy(retry_after=given), tried) for tried in range(10)]
    assert 0.375 <= pauses[0] <= 0.5
    assert 0.75 <= pauses[1] <= 1
    assert pauses[9] <= 8
