"""Slack's markup, read and kept out."""

import html

import pytest
from hypothesis import given
from hypothesis import strategies as st

from checkrail.channels.protocol import Outbound, Question
from checkrail.channels.slack.text import SECTION, build_blocks, escape, spell_out


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("<@UBOT> hello", "hello"),
        (" <@UBOT|helper>: hello", "hello"),
        ("hello <@UBOT>", "hello @UBOT"),
        ("<@UBOT2> hello", "@UBOT2 hello"),
        ("see <https://a.example/x?a=1&amp;b=2>", "see https://a.example/x?a=1&b=2"),
        ("see <https://a.example|a.example>", "see https://a.example"),
        ("see <https://evil.example|the docs>", "see the docs (https://evil.example)"),
        ("mail <mailto:a@b.example|a@b.example>", "mail a@b.example"),
        ("in <#C1|general> and <#C2>", "in #general and #C2"),
        ("<!here> <!channel|channel> <!subteam^S1|@team>", "@here channel @team"),
        ("a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
        ("a < b", "a < b"),
        ("", ""),
    ],
)
def test_markup_is_spelled_out(written, read):
    assert spell_out(written, "UBOT") == read


@given(st.text())
def test_what_is_sent_has_no_markup_and_comes_back(text):
    sent = escape(text)
    assert not set("<>") & set(sent)
    assert spell_out(sent, None) == text


@given(st.text(alphabet=st.sampled_from("&<>a \n"), max_size=SECTION))
def test_a_question_is_shown_whole_in_sections_that_slack_takes(text):
    *sections, actions = build_blocks(Outbound(text, Question("1", "digest")))
    pieces = [each["text"]["text"] for each in sections]
    assert all(0 < len(piece) <= SECTION for piece in pieces)
    assert html.unescape("".join(pieces)).strip() == text.strip()
    assert actions["block_id"] == "1"


def test_a_message_without_a_question_has_no_blocks():
    assert build_blocks(Outbound("hello")) == []
