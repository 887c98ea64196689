"""Every place of a file that takes a pattern refuses one that could freeze the process."""

import pytest

from checkrail.config import ConfigError, load_text
from checkrail.regex import Regex

AHEAD = "/(?=x)y/"


def problems(text):
    with pytest.raises(ConfigError) as caught:
        load_text(text)
    return caught.value.problems


@pytest.mark.parametrize("key", ["tools", "agents", "models", "users", "channels", "tags"])
def test_a_matcher_with_lookaround_is_refused_at_its_line(key):
    (found,) = problems(f"hooks: {{before_tool_call: {{block: no,\n  {key}: [a, '{AHEAD}']}}}}")
    assert found.line == 2
    assert "lookahead" in found.found


PLACES = """
hooks: {before_run: {redact: '/(?=x)y/'}}
---
hooks: {before_run: {redact: {patterns: ['(?=x)y']}}}
---
hooks: {on_result: {builtin: redact, config: {patterns: {x: '(?=x)y'}}}}
---
hooks: {before_tool_call: {builtin: tool_policy, config: {deny: ['/(?=x)y/']}}}
---
hooks: {before_tool_call: {builtin: require_tools, config: {tools: ['/(?=x)y/']}}}
---
hooks: {before_llm_call: {builtin: route_model, config: {rules: [{to: m, models: ['/(?=x)y/']}]}}}
---
hooks: {before_run: {builtin: schema_check, config: {schema: {pattern: '(?=x)y'}}}}
---
{hooks: {}, gateway: {upstreams: {openai: {models: '/(?=x)y/'}}}}
---
{hooks: {}, gateway: {prices: {'/(?=x)y/': {input: 1, output: 1}}}}
---
agents: {a: {model: openai/x, mcp: {s: {url: 'https://mcp.example', include: '/(?=x)y/'}}}}
---
agents: {a: {model: openai/x, output_schema: {pattern: '(?=x)y'}}}
---
agents: {a: {model: openai/x, parameters_schema: {patternProperties: {'(?=x)y': true}}}}
"""


@pytest.mark.parametrize("text", PLACES.strip().split("\n---\n"))
def test_a_pattern_with_lookaround_is_refused_with_the_reason(text):
    (found,) = problems(text)
    assert found.line == 1
    assert "look" in f"{found.found} {found.expected} {found.hint}"


def test_the_engine_gets_patterns_that_are_compiled():
    loaded = load_text("hooks: {before_tool_call: {block: no, tools: [a*, /b$/]}}")
    (spec,) = loaded.specs
    glob, regex = spec.match["tools"]
    assert glob == "a*"
    assert isinstance(regex, Regex)
    assert regex.search("ab")
