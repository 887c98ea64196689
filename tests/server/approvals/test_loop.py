"""Questions in the middle of an agent's loop: a tool is called when somebody agreed."""

import textwrap

import httpx
import pytest

from .test_restart import until

PROJECT = """
    agents:
      desk:
        model:
          provider: scripted
          replies:
            - { tool: transfer, args: { amount: 500 } }
            - Done.
        tools: [./own.py:transfer]
        hooks:
          before_tool_call:
            - { name: four_eyes, type: approval, question: May this be transferred? }
"""

OWN = """
    def transfer(amount: int) -> str:
        \"\"\"Move money.\"\"\"
        return f"moved {amount}"
"""


@pytest.fixture
def client(serve, database, tmp_path):
    for name, text in (("checkrail.yaml", PROJECT), ("own.py", OWN)):
        (tmp_path / name).write_text(textwrap.dedent(text).lstrip("\n"))
    served = serve(database, config=tmp_path / "checkrail.yaml").start()
    with httpx.Client(base_url=served.url, timeout=30) as client:
        yield client


@pytest.mark.parametrize(
    ("answer", "body", "result"),
    [
        ("approve", {}, "moved 500"),
        ("approve", {"value": {"args": {"amount": 5}}}, "moved 5"),
        ("deny", {"reason": "too much"}, "too much"),
    ],
)
def test_a_tool_waits_for_its_yes_and_a_no_is_told_to_the_model(client, answer, body, result):
    given = {"messages": [{"role": "user", "content": "Move 500"}]}
    asked = {"assistant_id": "desk", "input": given, "on_completion": "keep"}
    run_id = client.post("/runs", json=asked).json()["run_id"]
    [row] = until(lambda: client.get("/approvals?status=open").json(), "the question")
    assert (row["point"], row["value"]["name"], row["value"]["args"]) == (
        "before_tool_call",
        "transfer",
        {"amount": 500},
    )
    bad = client.post(f"/approvals/{row['approval_id']}/approve", json={"value": {"args": 5}})
    assert bad.status_code == 422
    said = client.post(f"/approvals/{row['approval_id']}/{answer}", json=body)
    assert said.status_code == 200, said.text

    def over():
        run = client.get(f"/runs/{run_id}").json()
        return run if run["ended_at"] else None

    run = until(over, "its end")
    assert (run["status"], run["output"]) == ("success", "Done.")
    thread = client.get(f"/threads/{run['thread_id']}").json()
    [told] = [each for each in thread["values"]["messages"] if each["role"] == "tool"]
    assert told["content"] == result
