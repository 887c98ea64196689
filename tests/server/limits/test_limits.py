"""Limits and budgets of a server are kept in its database: nothing resets them."""

import httpx
import pytest
from tests.server.harness import Served

CONFIG = """
agents:
  relay: { type: procedural, command: [cat], parameters_schema: { type: object } }
  parrot: { model: "./agents.py:parrot" }
hooks:
  before_run:
    - { name: two, agents: [relay], builtin: rate_limit, config: { limit: 2, per: 1d, by: [] } }
  before_llm_call:
    - { name: daily, builtin: budget, config: { tokens: 15, by: [agent], per: total } }
"""

AGENTS = """
from checkrail import AssistantMessage
from checkrail.testing import ScriptedModel

used = {"total_tokens": 10}
parrot = ScriptedModel([AssistantMessage("Polly", usage=used) for _ in range(10)])
"""


@pytest.fixture
def config(tmp_path):
    (tmp_path / "agents.py").write_text(AGENTS)
    file = tmp_path / "checkrail.yaml"
    file.write_text(CONFIG)
    return file


def asked(served: Served, agent: str, parameters: dict) -> httpx.Response:
    body = {"agent_name": agent, "parameters": parameters, "execution_mode": "sync"}
    return httpx.post(f"{served.url}/runs", json=body, timeout=60)


def test_a_rate_limit_holds_over_a_restart(serve, database, config):
    served = serve(database, config=config).start()
    assert asked(served, "relay", {}).status_code == 200
    served.stop()
    served.start()
    assert asked(served, "relay", {}).status_code == 200
    answer = asked(served, "relay", {})
    assert answer.status_code == 429
    assert "the limit of 2 per 86400 s is reached" in answer.text


def test_a_budget_holds_over_a_restart(serve, database, config):
    served = serve(database, config=config).start()
    for _ in range(2):
        assert asked(served, "parrot", {"prompt": "Who?"}).json()["status"] == "success"
    served.stop()
    served.start()
    run = asked(served, "parrot", {"prompt": "Who?"}).json()
    assert run["status"] != "success"
    assert "20 tokens are used" in run["error"]


@pytest.mark.parametrize("database", ["postgres"], indirect=True)
def test_servers_on_one_database_count_together(serve, database, config):
    first, second = (serve(database, config=config).start() for _ in range(2))
    answers = [asked(served, "relay", {}) for served in (first, second, first, second)]
    assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
