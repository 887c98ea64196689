"""Words: what people write for a key or a value of a file, and what it is called here."""

from __future__ import annotations

from collections.abc import Iterable

_DOING = ("block", "ask", "retry", "fail", "replace", "stop", "set", "redact", "inject")
_MATCHING = ("tools", "agents", "models", "users", "channels", "tags", "when")
_SHORT = 4

OTHER_WORDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("action", "actions", "decision", "effect", "outcome", "then"), _DOING),
    **dict.fromkeys(("match", "matcher", "matchers", "matches", "filter", "filters"), _MATCHING),
    **dict.fromkeys(("condition", "conditions", "expression", "if", "only_if", "where"), ("when",)),
    **dict.fromkeys(("tool", "tool_name", "tool_names"), ("tools",)),
    **dict.fromkeys(("agent", "agent_names"), ("agents",)),
    **dict.fromkeys(("model", "model_name", "model_names"), ("models",)),
    **dict.fromkeys(("user", "user_id", "user_ids"), ("users",)),
    **dict.fromkeys(("channel", "channel_name"), ("channels",)),
    **dict.fromkeys(("tag", "label", "labels"), ("tags",)),
    **dict.fromkeys(("deny", "forbid", "message", "reason", "refuse", "reject"), ("block",)),
    **dict.fromkeys(("approve", "confirm"), ("ask", "question")),
    **dict.fromkeys(("cmd", "exec", "run", "script", "shell"), ("command",)),
    **dict.fromkeys(("callable", "file", "func", "handler", "import"), ("path",)),
    **dict.fromkeys(("endpoint", "webhook"), ("url", "http")),
    **dict.fromkeys(("disable", "disabled"), ("enabled", "off")),
    **dict.fromkeys(("on", "enable", "active", "live"), ("enforce",)),
    **dict.fromkeys(("dry-run", "dry_run", "dryrun"), ("mode", "shadow")),
    **dict.fromkeys(("audit", "log", "monitor", "warn"), ("shadow", "observe")),
    **dict.fromkeys(("allow", "ignored", "open", "pass", "skip"), ("continue",)),
    **dict.fromkeys(("close", "closed", "fail", "raise", "stop"), ("block",)),
    **dict.fromkeys(("order", "weight"), ("priority",)),
}
"""What is well known elsewhere; where a word is a key and a value here, the place decides."""


def meant(name: str, known: Iterable[str]) -> str:
    """Return which known words were probably meant, or nothing: only what is really near counts."""
    known = [str(item) for item in known]
    said = [word for word in OTHER_WORDS.get(name.lower(), ()) if word in known]
    if len(said) > 1:
        return f"did you mean one of: {', '.join(said)}?"
    near = said or _nearest(name, known)
    return f"did you mean {near[0]!r}?" if near else ""


def _nearest(name: str, known: Iterable[str]) -> list[str]:
    most = 1 if len(name) <= _SHORT else 2
    far = [(distance(name.lower(), word, most), word) for word in known]
    near = min(far, key=lambda item: item[0], default=(most + 1, ""))
    return [near[1]] if near[0] <= most else []


def distance(one: str, other: str, most: int) -> int:
    """Count the letters to add, drop, change or swap with their neighbour; no further than most."""
    if abs(len(one) - len(other)) > most:
        return most + 1
    older: list[int] = []
    old: list[int] = [*range(len(other) + 1)]
    for i, a in enumerate(one, 1):
        row = [i]
        for j, b in enumerate(other, 1):
            row.append(min(old[j] + 1, row[-1] + 1, old[j - 1] + (a != b)))
            if i > 1 and j > 1 and a == other[j - 2] and b == one[i - 2]:
                row[j] = min(row[j], older[j - 2] + 1)
        older, old = old, row
    return old[-1]
