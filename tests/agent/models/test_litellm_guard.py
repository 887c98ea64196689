"""What a hook may put into a request to a model of LiteLLM, which is not installed here."""

import pytest

from checkrail.agent.models.litellm import LiteLLMModel
from checkrail.agent.models.model import ModelError
from checkrail.engine.values import ModelRequest


def check(own="openai/gpt-5", **fields):
    model = LiteLLMModel.__new__(LiteLLMModel)
    model.name, model.params = own, {"api_version": "2026-01-01"}
    model._check_request(ModelRequest(messages=[], **fields))


@pytest.mark.parametrize(
    "params",
    [
        *({name: "https://evil.example"} for name in ("api_base", "base_url", "proxy_url")),
        *({name: "x"} for name in ("api_key", "custom_llm_provider", "aws_region_name")),
        {"fallbacks": [{"model": "x", "api_base": "https://evil.example"}]},
        {"extra_headers": {"Authorization": "y"}},
        {"extra_headers": {"x-litellm-model": "y"}},
        {"extra_headers": ["x-team: rail"]},
        {"extra_body": {"api_base": "https://evil.example"}},
        {"api_version": "another"},
    ],
)
def test_a_hook_does_not_say_where_the_model_is(params):
    with pytest.raises(ModelError, match="which may say where it is"):
        check(params=params)


@pytest.mark.parametrize(
    "name", ["oobabooga/http://evil.example", "x//evil", "custom/evil.example"]
)
def test_a_hook_names_no_model_that_leads_elsewhere(name):
    with pytest.raises(ModelError, match="may lead elsewhere"):
        check(model=name)


@pytest.mark.parametrize("name", ["ollama/llama3", "ollama_chat/llama3", "OLLAMA/llama3"])
def test_a_hook_names_no_model_on_this_machine(name, monkeypatch):
    monkeypatch.delenv("OLLAMA_API_BASE", raising=False)
    with pytest.raises(ModelError, match=r"at http://localhost:11434\. If .* set OLLAMA_API_BASE"):
        check(model=name)
    monkeypatch.setenv("OLLAMA_API_BASE", "http://models.internal")
    check(model=name)


def test_a_hook_names_another_model_where_the_first_one_is(monkeypatch):
    monkeypatch.delenv("OLLAMA_API_BASE", raising=False)
    check("ollama/llama3", model="ollama/mistral")


def test_a_hook_may_say_how_it_answers():
    check(params={"extra_body": {"top_k": 3}, "extra_headers": {"x-team": "rail"}})
    check(model="openai/gpt-5-mini", params={"api_version": "2026-01-01", "max_tokens": 9})
    check(
        params={"temperature": 0, "response_format": {}, "max_completion_tokens": 5, "stop": ["x"]}
    )
