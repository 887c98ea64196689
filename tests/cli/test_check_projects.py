"""`checkrail check` on projects of the run server, ours and others'."""

PROJECT = """{
  "python_version": "3.12",
  "dependencies": ["."],
  "graphs": { "agent": "./agent.py:graph" },
  "http": { "app": "./web.py:app", "mount_prefix": "/api" },
  "dockerfile_lines": ["RUN true"]
}
"""
LEFT = "python_version, http.mount_prefix, dockerfile_lines"


def test_a_project_of_another_server_says_which_keys_are_left_alone(checkrail, write):
    write("agent.py", "raise RuntimeError('nobody imports a graph to check a file')\n")
    write("langgraph.json", PROJECT)
    done = checkrail("check", "langgraph.json")
    assert done.code == 0
    (line,) = done.err.splitlines()
    assert line.startswith("warning: langgraph.json")
    assert line.endswith(f"left alone, for nobody here acts on it: {LEFT}")
    assert ["agent", "graph", "./agent.py:graph"] in done.rows
    assert done.rows[-1] == ["langgraph.json: 0 hooks at 0 of 16 points, 1 agent"]


def test_machines_are_told_the_same(invoke, write):
    write("langgraph.json", PROJECT)
    told = invoke("check", "langgraph.json", "--json").data
    (warning,) = told["warnings"]
    assert warning["found"].endswith(LEFT)
    assert told["agents"]["agent"]["path"] == "./agent.py:graph"


def test_no_secret_of_a_server_is_shown(invoke, write, monkeypatch):
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    monkeypatch.setenv("SHOP_SECRET", secret)
    write(
        "checkrail.yaml",
        """
        database: mysql://shop:hunter2-pass@db.example/shop
        outbound: { allow: ["${SHOP_SECRET}"], webhook_secret: "${SHOP_SECRET}" }
        server: { host: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw, prot: 1 }
        """,
    )
    for form in ((), ("--json",)):
        done = invoke("check", "checkrail.yaml", *form)
        assert done.code == 1
        assert "hunter2" not in done.out + done.err
        assert secret not in done.out + done.err
