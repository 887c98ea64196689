"""Lists of runs: filters, figures, search, pages and counts."""

import pytest

from checkrail import Block, Continue
from checkrail.config.gateway import PriceConfig


async def ran(client, agent="echo", **body):
    answer = await client.post("/runs/wait", json={"assistant_id": agent, **body})
    assert answer.status_code in (200, 403), answer.text
    [newest] = (await client.get("/runs?limit=1")).json()
    return newest


async def listed(client, query=""):
    answer = await client.get(f"/runs?fields=list&{query}")
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.fixture
def ruled(services):
    """Hooks that change, would block and block, by what a run says."""

    def louder(event):
        return Continue({**event.value, "text": event.value["text"].upper()})

    def shadow(event):
        return Block("would", 403)

    def shut(event):
        return Block("not this one") if event.value.get("text") == "BAD" else None

    registry = services.runs.parts.registry
    registry.register(louder, "on_run_start", name="louder", agents="echo")
    registry.register(
        shadow, "on_run_start", name="shadow", mode="shadow", lane="gate", agents="echo"
    )
    registry.register(shut, "on_run_start", name="shut", lane="gate", agents="echo")


async def test_a_run_has_figures_of_its_hooks_and_its_times(client, ruled):
    run = await ran(client, input={"text": "hi"})
    counts = {"calls": 3, "changed": 1, "blocked": 0, "would_block": 1, "failed": 0, "asked": 0}
    assert {name: run["hooks"][name] for name in counts} == counts
    assert run["hooks"]["ms"] >= 0
    assert run["summary"] == "hi"
    assert run["duration_ms"] >= 0 <= run["queued_ms"]
    [narrow] = await listed(client)
    assert {name: run[name] for name in narrow} == narrow
    assert not {"kwargs", "parameters", "original_parameters", "metadata"} & narrow.keys()


async def test_runs_are_filtered_by_what_hooks_did(client, ruled):
    good = await ran(client, input={"text": "good"})
    bad = await ran(client, input={"text": "bad"})
    plain = await ran(client, "loud", input={"text": "plain"})
    expected = {
        "hooks=blocked": [bad],
        "hooks=would_block": [bad, good],
        "hooks=any": [bad, good],
        "hooks=failed": [],
        "hooks=failed&hooks=blocked": [bad],
        "phase=blocked": [bad],
        "status=success": [plain, good],
        "status=success&status=error": [plain, bad, good],
        "agent_name=loud": [plain],
        "q=GOOD": [good],
        "q=not%20this": [bad],
        f"q={bad['run_id'][:13]}": [plain, bad, good],
        f"q={bad['run_id'][-12:]}": [bad],
        "q=100%25": [],
        f"from={bad['created_at'].replace('+', '%2B')}": [plain, bad],
        f"to={bad['created_at'].replace('+', '%2B')}": [good],
    }
    for query, runs in expected.items():
        if query == f"q={bad['run_id'][:13]}":
            continue  # ids of one moment begin alike, or not
        found = [run["run_id"] for run in await listed(client, query)]
        assert found == [run["run_id"] for run in runs], query


async def test_runs_are_counted_up_to_a_cap_and_by_status(client, ruled):
    for text in ("a", "b", "bad"):
        await ran(client, input={"text": text})

    async def count(query):
        return (await client.get(f"/runs/count?{query}")).json()

    assert await count("") == {"count": 3, "capped": False}
    assert await count("cap=2") == {"count": 2, "capped": True}
    assert await count("by=status") == {
        "count": 3,
        "capped": False,
        "by": {"success": 2, "error": 1},
    }
    assert (await count("by=phase"))["by"] == {"success": 2, "blocked": 1}
    assert await count("q=not%20this") == {"count": 1, "capped": False}
    assert (await client.get("/runs/count?hooks=nothing")).status_code == 422


async def test_the_next_page_is_linked_with_the_same_filter(client):
    for text in "abc":
        await ran(client, input={"text": text})
    first = await client.get("/runs?fields=list&limit=2&status=success")
    [link] = [first.links["next"]["url"]]
    assert "status=success" in link
    second = await client.get(link)
    assert [run["summary"] for run in (*first.json(), *second.json())] == ["c", "b", "a"]
    assert "next" not in second.links


async def test_a_search_of_one_does_not_find_runs_of_another(served):
    ada, bob = await served.as_user("ada"), await served.as_user("bob")
    await served.as_user("ada")
    run = await ada.post("/runs/wait", json={"assistant_id": "echo", "input": {"text": "mine"}})
    assert run.status_code == 200
    assert [run["summary"] for run in await listed(ada, "q=mine")] == ["mine"]
    assert await listed(bob, "q=mine") == []
    assert (await bob.get("/runs/count?q=mine")).json()["count"] == 0


def test_prices_make_costs_of_usage_in_langchains_form():
    from checkrail.runs.summaries import sum_costs, sum_tokens

    prices = (PriceConfig("gpt-*", 2.0, 8.0, cached=0.5),)
    used = {"input_tokens": 1000, "output_tokens": 100, "total_tokens": 1100}
    cached = {**used, "input_token_details": {"cache_read": 500}}
    assert sum_costs({"gpt-x": used, "other": used}, prices) == pytest.approx(0.0028)
    assert sum_costs({"gpt-x": cached}, prices) == pytest.approx(0.00205)
    assert sum_costs({"other": used}, prices) is None
    assert sum_tokens({"a": used, "b": used}) == 2200
    assert (sum_tokens({}), sum_tokens(None)) == (None, None)
