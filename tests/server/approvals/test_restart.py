"""Questions outlive the server: it is killed while a run waits, and answered after it is back."""

import textwrap
import time

import httpx
import pytest

PROJECT = """
    agents:
      pay:
        type: procedural
        path: ./own.py:pay
        parameters_schema: {{}}
        hooks:
          {point}:
            - {{ name: four_eyes, type: approval, question: May this be paid? }}
"""

OWN = """
    from pathlib import Path

    def pay(parameters):
        log = Path(__file__).with_name("paid")
        log.write_text((log.read_text() if log.exists() else "") + f"{parameters['amount']} ")
        return {"paid": parameters["amount"]}
"""


@pytest.fixture
def project(tmp_path):
    def made(point):
        for name, text in (("checkrail.yaml", PROJECT.format(point=point)), ("own.py", OWN)):
            (tmp_path / name).write_text(textwrap.dedent(text).lstrip("\n"))
        return tmp_path / "checkrail.yaml"

    return made


def until(found, what):
    deadline = time.monotonic() + 30
    while not (answer := found()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited for {what}")
        time.sleep(0.02)
    return answer


@pytest.mark.parametrize("point", ["on_run_start", "on_result"])
def test_an_answer_after_a_kill_continues_the_run_and_nothing_is_done_twice(
    serve, database, project, tmp_path, point
):
    config = project(point)
    first = serve(database, config=config).start()
    with httpx.Client(base_url=first.url, timeout=30) as client:
        body = {"assistant_id": "pay", "input": {"amount": 5}, "on_completion": "keep"}
        run_id = client.post("/runs", json=body).json()["run_id"]
        [row] = until(lambda: client.get("/approvals?status=open").json(), "the question")
    first.kill()
    second = serve(database, config=config).start()
    with httpx.Client(base_url=second.url, timeout=30) as client:
        assert client.get(f"/runs/{run_id}").json()["phase"] == "waiting"
        at = f"/approvals/{row['approval_id']}"
        assert client.post(f"{at}/approve", json={"digest": row["digest"]}).status_code == 200
        assert client.post(f"{at}/approve").status_code == 409

        def over():
            run = client.get(f"/runs/{run_id}").json()
            return run if run["ended_at"] else None

        run = until(over, "its end")
        assert (run["status"], run["output"]) == ("success", {"paid": 5})
    assert (tmp_path / "paid").read_text() == "5 "
