"""Models of LiteLLM that a request names and that would be looked for on the server's machine."""

import pytest

from checkrail.actions.outbound import Outbound
from checkrail.config.problems import Report
from checkrail.config.trust import TrustCheck


@pytest.fixture(autouse=True)
def nowhere(monkeypatch):
    monkeypatch.delenv("OLLAMA_API_BASE", raising=False)


def problems(outbound):
    report = Report("agent")
    TrustCheck(report, outbound).check_agent(
        {"name": "poet", "model": "litellm/ollama_chat/llama3"}
    )
    return [each.found for each in report.problems]


def test_they_are_as_guarded_as_other_addresses():
    [found] = problems(Outbound())
    assert "If it is meant, add localhost:11434 to outbound.allow" in found
    assert problems(Outbound(["localhost:11434"])) == []
    assert problems(Outbound(dev=True)) == []


def test_a_place_that_the_environment_says_is_its_author_s(monkeypatch):
    monkeypatch.setenv("OLLAMA_API_BASE", "http://models.internal")
    assert problems(Outbound()) == []
