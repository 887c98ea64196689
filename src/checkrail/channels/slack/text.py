"""Slack's markup: read from what people wrote, and kept out of what is sent to them."""

from __future__ import annotations

import html
import re
from typing import Any

from checkrail.channels.protocol import Outbound, Question

SECTION = 3000
"""Characters that a section takes, as they are sent."""
LABEL = 75
"""Characters that a button takes."""
ACTION = "checkrail."
"""What the ids of our buttons begin with; the verdict follows."""

_ENTITIES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})
_MARKUP = re.compile(r"<([^<>]*)>|&(?:amp|lt|gt);")
_STYLES = {"approve": "primary", "deny": "danger"}


def spell_out(text: str, bot_user: str | None) -> str:
    """Return what a person wrote without markup; a mention of the bot in front is left out."""
    if bot_user:
        text = re.sub(rf"^\s*<@{re.escape(bot_user)}(\|[^<>]*)?>[\s,:]*", "", text)
    return _MARKUP.sub(_spell_out_one, text)


def _spell_out_one(found: re.Match[str]) -> str:
    if found[1] is None:
        return html.unescape(found[0])
    target, _, label = html.unescape(found[1]).partition("|")
    match target[:1]:
        case "@":
            return target
        case "#":
            return f"#{label or target[1:]}"
        case "!":
            return label or f"@{target[1:]}"
    if target.startswith(("mailto:", "tel:")):
        return label or target
    return target if label in target else f"{label} ({target})"


def escape(text: str) -> str:
    """Return a text in which Slack finds no mentions, channels or links of its own."""
    return text.translate(_ENTITIES)


def build_blocks(part: Outbound) -> list[dict[str, Any]]:
    """Return the blocks of a message with a question; one without is text alone."""
    if part.question is None:
        return []
    sections = [
        {"type": "section", "text": {"type": "mrkdwn", "text": piece, "verbatim": True}}
        for piece in _split_sections(part.text)
    ]
    return [*sections, _build_actions(part.question)]


def _build_actions(question: Question) -> dict[str, Any]:
    buttons = [
        {
            "type": "button",
            "text": {"type": "plain_text", "text": each.label[:LABEL]},
            "action_id": ACTION + each.verdict,
            "value": question.digest,
            "style": _STYLES[each.verdict],
        }
        for each in question.buttons
    ]
    return {"type": "actions", "block_id": question.approval_id, "elements": buttons}


def _split_sections(text: str) -> list[str]:
    """Return an escaped text in pieces that a section takes, none ending within an entity."""
    pieces = [""]
    for character in text:
        escaped = escape(character)
        if len(pieces[-1]) + len(escaped) > SECTION:
            pieces.append("")
        pieces[-1] += escaped
    return [piece for piece in pieces if piece.strip()]
