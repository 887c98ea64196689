"""Channels in a project's file: what is wrong is told, and secrets are not."""

import pytest

from checkrail.config import load_text


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (
            "{type: telegram, token: a-hidden-one}",
            (
                "channels.phone.token: found something else, expected a bot's token: a number, a"
                " colon and letters, as 123456:ABC-DEF"
            ),
        ),
        (
            "{type: telegram, token: [a-hidden-one]}",
            "channels.phone.token: found something else, expected a text",
        ),
        (
            '{type: telegram, token: "1:hidden", mode: webhook}',
            (
                "channels.phone: found keys that do not go together, expected a secret_token beside"
                " mode: webhook, because requests are known by nothing else"
            ),
        ),
        (
            '{type: telegram, token: "1:hidden", mode: webhook, secret_token: "hidden/1"}',
            (
                "channels.phone.secret_token: found something else, expected 1 to 256 of A-Z, a-z,"
                " 0-9, _ and -"
            ),
        ),
        (
            '{type: telegram, token: "1:hidden", mode: push}',
            "channels.phone.mode: found the text 'push', expected 'polling' or 'webhook'",
        ),
        (
            "{type: webhook, secrets: hidden}",
            "channels.phone.secrets: found something else, expected a list",
        ),
        (
            "{type: webhook, secrets: [hidden]}",
            (
                "channels.phone.secrets: found something else, expected signing secrets of at least"
                " 24 bytes"
            ),
        ),
        (
            "{type: webhook, secrets: [whsec_hidden*]}",
            (
                "channels.phone.secrets: found something else, expected a signing secret: base64"
                " after whsec_, or another text"
            ),
        ),
    ],
)
def test_what_is_wrong_with_a_channel_is_told_without_its_secrets(told, entry, expected):
    said = told(f"channels:\n  phone: {entry}\n")
    assert said == [f"checkrail.yaml:2 {expected}"]
    assert "hidden" not in str(said)


def test_an_agent_that_is_not_in_the_file_is_warned_of():
    text = """
agents: {desk: {model: {provider: scripted, replies: [hi]}}}
sessions: {agent: dsk}
channels:
  hook: {type: webhook, agent: deks, secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}
  other: {type: webhook, agent: desk, secrets: ["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"]}
"""
    told = [str(warning) for warning in load_text(text).warnings]
    assert len(told) == 2
    assert "sessions.agent: no agent of this file is called 'dsk'" in told[0]
    assert "channels.hook.agent: no agent of this file is called 'deks'" in told[1]
