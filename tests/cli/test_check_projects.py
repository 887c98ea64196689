"""`checkrail check` on projects of the run server, ours and others'."""

import pytest

PROJECT = """{
  "python_version": "3.12",
  "dependencies": ["."],
  "graphs": { "agent": "./agent.py:graph" },
  "http": { "app": "./web.py:app", "mount_prefix": "/api" },
  "dockerfile_lines": ["RUN true"]
}
"""
GRAPH = """
    from langgraph.graph import StateGraph

    graph = StateGraph(dict).add_node("only", lambda state: state).set_entry_point("only").compile()
"""
RAW = """
    import openai
    from langgraph.graph import StateGraph

    client = openai.OpenAI(api_key="none")

    def ask(state):
        return client.models.list()

    graph = StateGraph(dict).add_node("ask", ask).set_entry_point("ask").compile()
"""
GATEWAY = """
    hooks: {}
    gateway:
      upstreams:
        openai: { key: "${OPENAI_API_KEY}", models: ["gpt-*", "o*"] }
        spare: { url: "${PLACE}" }
"""
LEFT = "python_version, http.mount_prefix, dockerfile_lines"


def test_a_project_of_another_server_says_which_keys_are_left_alone(checkrail, write):
    write("agent.py", GRAPH)
    write("langgraph.json", PROJECT)
    done = checkrail("check", "langgraph.json")
    assert done.code == 0
    (line,) = done.err.splitlines()
    assert line.startswith("warning: langgraph.json")
    assert line.endswith(f"left alone, for nobody here acts on it: {LEFT}")
    assert ["agent", "graph", "./agent.py:graph"] in done.rows
    assert done.rows[-1] == ["langgraph.json: 0 hooks at 0 of 16 points, 1 agent"]


def test_machines_are_told_the_same(invoke, write):
    write("agent.py", GRAPH)
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


def test_what_a_graph_asks_by_itself_is_out_of_the_hooks_reach(invoke, write):
    write("agent.py", RAW)
    write("checkrail.yaml", "agents: { asker: ./agent.py:graph }")
    done = invoke("check", "checkrail.yaml")
    assert done.code == 0
    (line,) = done.err.splitlines()
    assert "'asker'" in line
    assert "out of the hooks' reach: node 'ask'" in line


def test_a_graph_that_is_not_there_is_told(invoke, write):
    write("checkrail.yaml", "agents: { asker: ./nowhere.py:graph }")
    done = invoke("check", "checkrail.yaml")
    assert done.code == 0
    assert "nowhere.py" in done.err
    assert "the server will not start so" in done.err


def test_a_graph_that_cannot_be_imported_is_told(invoke, write):
    write("agent.py", "raise RuntimeError('out of order')")
    write("checkrail.yaml", "agents: { asker: ./agent.py:graph }")
    done = invoke("check", "checkrail.yaml")
    assert "out of order" in done.err


def test_a_hook_that_no_graph_fires_is_told(invoke, write):
    write("agent.py", GRAPH)
    write(
        "checkrail.yaml",
        """
        agents: { asker: ./agent.py:graph }
        hooks: { before_final_response: [{ name: late, redact: secrets }] }
        """,
    )
    done = invoke("check", "checkrail.yaml")
    assert "'late': no graph fires before_final_response" in done.err


def test_the_upstreams_of_a_gateway_stand_under_the_plan(invoke, write, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-team")
    monkeypatch.setenv("PLACE", "https://models.example.com/v1")
    write("hooks.yaml", GATEWAY)
    done = invoke("check", "hooks.yaml")
    assert done.rows[-8:-2] == [
        ["gateway"],
        ["upstream", "speaks", "models", "key"],
        ["openai", "chat, responses", "gpt-*, o*", "its own"],
        ["spare", "chat", "*", "caller's"],
        ["called from this machine"],
        ["passed on without hooks: everything else under /v1 and /v1beta"],
    ]
    told = invoke("check", "hooks.yaml", "--json")
    assert told.data["upstreams"]["openai"]["models"] == ["gpt-*", "o*"]
    assert "sk-of-the-team" not in done.out + told.out
    assert "example.com" not in done.out + told.out


@pytest.mark.parametrize(
    ("said", "shown", "data"),
    [
        ("{}", "nothing else", False),
        ("{ pass_through: true }", "everything else under /v1 and /v1beta", True),
        ("{ pass_through: false }", "nothing else", False),
        (
            '{ pass_through: ["GET /v1/files*", /v1/embeddings/] }',
            "GET /v1/files*, /v1/embeddings",
            ["GET /v1/files*", "/v1/embeddings"],
        ),
        (
            '{ pass_through: ["POST /v1beta/models/*:embedContent", /upload/v1beta/files] }',
            "POST /v1beta/models/*:embedContent, /upload/v1beta/files",
            ["POST /v1beta/models/*:embedContent", "/upload/v1beta/files"],
        ),
    ],
)
def test_what_passes_a_gateway_unseen_stands_there(said, shown, data, invoke, write):
    keyed = "keys: { ann: not-a-real-key-of-ann }"
    inner = said.strip("{} ")
    write("hooks.yaml", f"gateway: {{ {', '.join(filter(None, [keyed, inner]))} }}\n")
    done = invoke("check", "hooks.yaml")
    assert done.rows[-4:-2] == [
        ["called with a key: ann"],
        [f"passed on without hooks: {shown}"],
    ]
    told = invoke("check", "hooks.yaml", "--json")
    assert told.data["gateway"] == {"keys": ["ann"], "pass_through": data}
    assert "not-a-real" not in done.out + told.out


@pytest.mark.parametrize(
    "wrong", ["all", "[files]", "[get /v1/x]", "[/v1/]", "[/v2/x]", "['TRACE /v1/x']"]
)
def test_what_is_to_pass_a_gateway_has_to_be_paths(wrong, invoke, write):
    write("hooks.yaml", f"gateway: {{ pass_through: {wrong} }}\n")
    done = invoke("check", "hooks.yaml")
    assert done.code != 0
    assert "GET /v1/files/*" in done.err


def test_a_file_that_names_no_upstreams_shows_none(invoke, write):
    write("hooks.yaml", "hooks: {}\n")
    assert ["gateway"] not in invoke("check", "hooks.yaml").rows
    assert "upstreams" not in invoke("check", "hooks.yaml", "--json").data
