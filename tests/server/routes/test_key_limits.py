"""Limits by API key at every point of a run: each key has its own, and nobody shares one."""

from checkrail.builtin.rate_limit import limiter
from checkrail.server.auth import choose_authenticator
from checkrail.server.auth.keys import generate_key
from checkrail.store import runs
from checkrail.store.keys import Key

ASKED = {"assistant_id": "echo", "input": {"text": "x"}}
LIMIT = {"limit": 1, "per": "1h", "by": ["key"]}


class Keys:
    """Keys in memory."""

    def __init__(self):
        self._rows = {}

    def add(self, owner, name):
        made = generate_key()
        key_id = f"id-{len(self._rows)}"
        self._rows[made.digest] = Key(key_id, made.digest, name, "member", owner, created_at=0.0)
        return made.token

    async def find(self, digest):
        return self._rows.get(digest)


async def test_a_limit_by_key_at_before_run_counts_each_key_by_itself(served):
    served.services.runs.parts.registry.register(limiter(LIMIT), "before_run", lane="gate")
    keys = Keys()
    # Two of one owner, and two of the same name.
    tokens = [keys.add("ada", "ci"), keys.add("ada", "laptop"), keys.add("bob", "ci")]
    for token in tokens:
        client = await served.enter(choose_authenticator(keys=keys), **{"x-api-key": token})
        statuses = [(await client.post("/runs/wait", json=ASKED)).status_code for _ in range(3)]
        assert statuses == [200, 429, 429]


async def test_who_comes_without_a_key_is_counted_by_who_they_are(served):
    served.services.runs.parts.registry.register(limiter(LIMIT), "before_run", lane="gate")
    for name in ("ada", "bob"):
        client = await served.as_user(name)
        statuses = [(await client.post("/runs/wait", json=ASKED)).status_code for _ in range(2)]
        assert statuses == [200, 429]


async def test_hooks_know_the_name_of_the_key_at_every_point_of_a_run(served):
    seen = {}

    async def see(event, value):
        seen[str(event.point)] = event.metadata["api_key"], event.user.extras["key_id"]

    registry = served.services.runs.parts.registry
    for point in ("before_run", "on_run_start", "on_result", "after_run"):
        registry.register(see, point, name=f"see {point}")
    keys = Keys()
    client = await served.enter(
        choose_authenticator(keys=keys), **{"x-api-key": keys.add("ada", "ci")}
    )
    answer = await client.post("/runs", json=ASKED)
    await served.services.runs.ended(answer.json()["run_id"])
    await served.services.runs.deliverer.close()
    assert seen == dict.fromkeys(
        ("before_run", "on_run_start", "on_result", "after_run"), ("ci", "id-0")
    )
    [row] = await served.services.database.read(lambda reads: runs.search(reads, limit=1))
    assert row.user["extras"] == {"key": "ci", "key_id": "id-0"}
