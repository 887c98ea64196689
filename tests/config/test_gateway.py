"""What a file says of the gateway: the defaults, every key, and what is wrong with them."""

import pytest

from checkrail.config import load
from checkrail.config.gateway import GatewayConfig, PriceConfig, UpstreamConfig
from checkrail.regex import compile_pattern

EVERYTHING = """
    hooks: {}
    gateway:
      upstreams:
        openai:
          key: ${OPENAI_KEY}
          models: ["gpt-*", "/^o[0-9]/"]
        anthropic:
          url: https://eu.example.com/anthropic
          headers: { x-team: blue team, x-token: "${TOKEN}" }
        groq:
          url: ${GROQ_URL}
          format: [chat]
          provider: groq
          models: llama*
          timeout_seconds: 60
          connect_seconds: 2.5
          first_byte_seconds: 20
          retries: 0
          strip_prefix: false
      keys: { ci: "${CI_KEY}" }
      blocked_tool: drop
      keep_alive_seconds: 5
      ask_usage: false
      body_bytes: 1000
      prices:
        gpt-5*: { input: 1.25, output: 10, cached: 0.125 }
        "*": { input: 0, output: 0 }
"""
SECRETS = {
    "OPENAI_KEY": "sk-openai-secret",
    "TOKEN": "tok-secret-token",
    "GROQ_URL": "https://api.groq.example/openai/v1",
    "CI_KEY": "ci-secret-of-16-letters",
}


@pytest.fixture
def environment(monkeypatch):
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)


def test_a_file_that_says_nothing_has_the_public_addresses_and_the_callers_keys(write):
    gateway = load(write("hooks.yaml", "hooks: {}\n")).gateway
    assert gateway == GatewayConfig()
    assert [(each.name, each.format, each.url, each.key) for each in gateway.upstreams] == [
        ("openai", "chat", "https://api.openai.com/v1", None),
        ("openai", "responses", "https://api.openai.com/v1", None),
        ("anthropic", "messages", "https://api.anthropic.com", None),
        ("gemini", "gemini", "https://generativelanguage.googleapis.com", None),
    ]
    assert (gateway.blocked_tool, gateway.keep_alive_seconds, gateway.ask_usage) == (
        "continue",
        15,
        True,
    )
    assert (gateway.keys, gateway.prices, gateway.body_bytes) == ({}, (), 33_554_432)


def test_every_key_of_the_gateway_is_read(write, environment):
    loaded = load(write("checkrail.yaml", EVERYTHING))
    assert loaded.warnings == ()
    assert loaded.gateway == GatewayConfig(
        upstreams=(
            *(
                UpstreamConfig(
                    "openai",
                    each,
                    "https://api.openai.com/v1",
                    ("gpt-*", compile_pattern("^o[0-9]")),
                    key="sk-openai-secret",
                    provider="openai",
                )
                for each in ("chat", "responses")
            ),
            UpstreamConfig(
                "anthropic",
                "messages",
                "https://eu.example.com/anthropic",
                provider="anthropic",
                headers={"x-team": "blue team", "x-token": "tok-secret-token"},
            ),
            UpstreamConfig(
                "groq",
                "chat",
                "https://api.groq.example/openai/v1",
                ("llama*",),
                provider="groq",
                timeout_seconds=60,
                connect_seconds=2.5,
                first_byte_seconds=20,
                retries=0,
                strip_prefix=False,
            ),
        ),
        keys={"ci": "ci-secret-of-16-letters"},
        blocked_tool="drop",
        keep_alive_seconds=5,
        ask_usage=False,
        body_bytes=1000,
        prices=(PriceConfig("gpt-5*", 1.25, 10, 0.125), PriceConfig("*", 0, 0)),
    )


def test_no_secret_of_the_gateway_is_shown(write, environment):
    loaded = load(write("checkrail.yaml", EVERYTHING))
    shown = repr(loaded) + repr(loaded.gateway) + repr(loaded.gateway.upstreams)
    for name in ("OPENAI_KEY", "TOKEN", "CI_KEY"):
        assert SECRETS[name] not in shown
        assert loaded.scrub(f"it was {SECRETS[name]}") == f"it was ${{{name}}}"


def test_a_key_that_stands_in_the_file_is_taken_out_of_texts_too(write):
    text = "hooks: {}\ngateway: {upstreams: {openai: {key: sk-in-the-file}}}\n"
    loaded = load(write("checkrail.yaml", text))
    assert loaded.scrub("sk-in-the-file") == "(the key of openai)"


def test_everything_that_is_wrong_is_told_with_its_line(problems, environment):
    found = problems(
        """
        hooks: {}
        gateway:
          upstream: {}
          upstreams:
            here: {format: chatt, url: https://a.example/v1}
            there: {models: "/(/"}
            a b: {url: "ftp://a.example"}
            c: {url: "https://me:secret@c.example", retries: -1}
            d: {url: "https://d.example?x=1", headers: {host: d, "a b": c, x: "a\\nb"}}
            e: {url: "https://e.example", key: "${NOT_SET}", timeout_seconds: 0}
            f: https://f.example
          keys: {short: abc, one: "${CI_KEY}", two: "${CI_KEY}", three: [1]}
          blocked_tool: hide
          keep_alive_seconds: never
          prices:
            gpt: {input: -1}
            "/(/": {input: 1, output: 2}
            other: 5
        """
    )
    regex = "the text '/(/', which is no regular expression here: missing ): ("
    password = "a URL with a name or a password, which belong under `key` or `headers`"
    assert [(each.line, each.path.removeprefix("gateway."), each.found) for each in found] == [
        (3, "upstream", "unknown key 'upstream'"),
        (5, "upstreams.here.format", "unknown word 'chatt'"),
        (6, "upstreams.there", "`url` is missing"),
        (6, "upstreams.there.models", regex),
        (7, "upstreams['a b']", "the name 'a b'"),
        (7, "upstreams['a b'].url", "something that is no URL of the web"),
        (8, "upstreams.c.retries", "found the number -1"),
        (8, "upstreams.c.url", password),
        (9, "upstreams.d.url", "a URL with a query or a fragment"),
        (9, "upstreams.d.headers.host", "the header 'host', which the gateway writes itself"),
        (9, "upstreams.d.headers['a b']", "the name 'a b'"),
        (9, "upstreams.d.headers.x", "a text that no header can carry"),
        (10, "upstreams.e.timeout_seconds", "found the number 0"),
        (10, "upstreams.e.key", "${NOT_SET} is not set in the environment"),
        (11, "upstreams.f", "found the text 'https://f.example'"),
        (11, "upstreams.f", "`url` is missing"),
        (12, "keys.three", "found something else"),
        (13, "blocked_tool", "unknown word 'hide'"),
        (14, "keep_alive_seconds", "found the text 'never'"),
        (16, "prices.gpt.input", "found the number -1"),
        (16, "prices.gpt", "`output` is missing"),
        (17, "prices['/(/']", regex),
        (18, "prices.other", "found the number 5"),
    ]


@pytest.mark.parametrize(
    ("keys", "found"),
    [
        ("{}", "gateway.keys: no keys, expected keys by their names (leave it out for none)"),
        (
            "{ci: only-15-letters}",
            "gateway.keys.ci: a key of 15 characters, expected a key of 16 characters or more",
        ),
        (
            "{one: the-key-of-them-all, two: the-key-of-them-all}",
            "gateway.keys.two: the same key as that of another name, expected each key once",
        ),
        (
            "{ci: a key with its spaces}",
            "gateway.keys.ci: a text that no header can carry, expected plain letters and digits",
        ),
    ],
)
def test_keys_that_would_keep_nobody_out_are_refused(keys, found, told):
    assert told(f"hooks: {{}}\ngateway: {{keys: {keys}}}\n") == [f"checkrail.yaml:2 {found}"]


@pytest.mark.parametrize("given", ["{}", "[]", "text"])
def test_upstreams_are_named_and_there_is_one_at_least(given, told):
    [problem] = told(f"hooks: {{}}\ngateway: {{upstreams: {given}}}\n")
    assert problem.startswith("checkrail.yaml:2 gateway.upstreams: ")
    assert problem.endswith("expected upstreams by their names")


def test_keys_in_clear_to_another_machine_are_worth_a_warning(write):
    text = "hooks: {}\ngateway: {upstreams: {a: {url: 'http://%s/v1'}}}\n"
    [warning] = load(write("checkrail.yaml", text % "models.example")).warnings
    assert warning.found == "keys and prompts go there unencrypted"
    for host in ("127.0.0.1:8000", "localhost", "[::1]:8000"):
        assert load(write("checkrail.yaml", text % host)).warnings == ()
