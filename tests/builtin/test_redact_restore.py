"""Where a redaction that is taken back can stand, and what it is where nothing can be put back."""

from __future__ import annotations

import pytest

from checkrail import HookRegistry, ModelRequest
from checkrail.builtin import redact
from checkrail.config import ConfigError, load_text

TOKEN = "sk-proj-Qz7Xw9Kv3Jh5Gm2Yt8Rb"
RULE = "{name: r, redact: {kinds: [secrets], %s}}"
BUILTIN = "{name: r, builtin: redact, config: {kinds: [secrets], %s}}"


def problem(text: str) -> str:
    with pytest.raises(ConfigError) as refused:
        load_text(text)
    return str(refused.value)


@pytest.mark.parametrize("form", [RULE, BUILTIN], ids=["rule", "builtin"])
@pytest.mark.parametrize(
    ("option", "point", "told"),
    [
        ("restore: tools", "after_llm_call", "before_llm_call"),
        ("restore: tools", "after_tool_call", "before_llm_call"),
        ("restore: tool", "before_llm_call", "expected 'tools' or 'text'"),
        ("restore: []", "before_llm_call", "restore"),
        ("restore: tools, with: x", "before_llm_call", "not both"),
    ],
)
def test_it_is_refused_where_it_cannot_hold(form, option, point, told):
    assert told in problem(f"hooks: {{{point}: {form % option}}}")


@pytest.mark.parametrize("form", [RULE, BUILTIN], ids=["rule", "builtin"])
def test_it_is_refused_among_the_hooks_of_an_agent(form):
    hooks = f"{{before_llm_call: {form % 'restore: tools'}}}"
    told = problem(f"agents: {{a: {{model: {{replies: [hello]}}, hooks: {hooks}}}}}")
    assert "`restore` among the hooks of an agent, where nothing is put back" in told


def test_it_is_refused_at_registration():
    with pytest.raises(ValueError, match="reads ModelRequest"):
        HookRegistry().register(redact, "after_llm_call", config={"restore": "tools"})


@pytest.mark.parametrize("form", [RULE, BUILTIN], ids=["rule", "builtin"])
async def test_where_nothing_is_put_back_it_is_a_redaction(form):
    registry = HookRegistry()
    registry.swap(load_text(f"hooks: {{before_llm_call: {form % 'restore: tools'}}}").specs)
    request = ModelRequest(messages=[{"role": "user", "content": f"It is {TOKEN}"}])
    verdict = await registry.fire("before_llm_call", request)
    assert verdict.value.messages[0]["content"] in ("It is [redacted]", "It is [redacted:secrets]")
