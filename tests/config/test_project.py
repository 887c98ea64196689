"""Which file a project starts from, and files that were written for other servers."""

import json
import logging

import pytest

from checkrail.config import ConfigError, find_project, load, missing_files
from checkrail.config.project import is_foreign


@pytest.mark.parametrize(
    ("there", "first"),
    [
        (["langgraph.json", "checkrail.toml", "checkrail.yaml"], "checkrail.yaml"),
        (["aegra.json", "checkrail.toml", "checkrail.json"], "checkrail.json"),
        (["aegra.json", "langgraph.json"], "langgraph.json"),
        (["aegra.json", "other.yaml"], "aegra.json"),
    ],
)
def test_the_first_of_the_known_files_is_the_project(write, tmp_path, caplog, there, first):
    for name in there:
        write(name, "")
    with caplog.at_level(logging.WARNING):
        assert find_project(tmp_path) == tmp_path / first
    others = [name for name in there if name not in (first, "other.yaml")]
    assert len(caplog.records) == bool(others)
    assert all(name in caplog.text for name in others)


def test_a_file_is_its_own_project(write):
    path = write("mine.yaml", "hooks: {}\n")
    assert find_project(path) == path


def test_a_folder_without_a_project_says_how_to_make_one(tmp_path):
    with pytest.raises(
        ConfigError, match=r"no project here, expected one of: checkrail\.yaml"
    ) as raised:
        find_project(tmp_path)
    assert "checkrail init" in str(raised.value)
    with pytest.raises(ConfigError, match="there is no such folder"):
        find_project(tmp_path / "gone")


@pytest.mark.parametrize(
    ("name", "foreign"),
    [
        ("langgraph.json", True),
        ("aegra.docker.json", True),
        ("langgraph-prod.json", True),
        ("langgraphs.json", False),
        ("langgraph.yaml", False),
        ("checkrail.json", False),
    ],
)
def test_files_of_other_servers_are_told_by_their_names(tmp_path, name, foreign):
    assert is_foreign(tmp_path / name) is foreign


LANGGRAPH = {
    "$schema": "https://langgra.ph/schema.json",
    "python_version": "3.12",
    "dependencies": [".", "langchain-openai"],
    "graphs": {
        "agent": "./src/agent/graph.py:graph",
        "Deep Researcher": {"path": "./src/agent/deep.py:make", "description": None, "icon": "x"},
    },
    "env": {"LG_A": "1"},
    "store": {"index": {"embed": "openai:text-embedding-3-small", "dims": 1536}, "later": 1},
    "checkpointer": {"ttl": {"strategy": "delete", "default_ttl": 43200}, "serde": {}},
    "auth": {"path": "./src/security/auth.py:auth", "disable_studio_auth": True},
    "http": {"app": "./src/app.py:app", "mount_prefix": "/x", "disable_a2a": True, "cors": {}},
    "webhooks": {"headers": {"x": "${{ env.LG_WEBHOOK_A }}"}},
    "dockerfile_lines": ["RUN true"],
    "keep_pkg_tools": True,
    "_INTERNAL_docker_tag": "x",
    "brand_new": {},
}


def test_a_project_of_another_server_starts_unchanged(write):
    loaded = load(write("langgraph.json", json.dumps(LANGGRAPH, indent=2)))
    server = loaded.server
    assert [*loaded.agents] == ["agent", "Deep Researcher"]
    assert server.store.index == {"embed": "openai:text-embedding-3-small", "dims": 1536}
    assert server.checkpointer.ttl == {"strategy": "delete", "default_ttl": 43200}
    assert server.auth.path == "./src/security/auth.py:auth"
    assert (server.http.app, server.http.disabled) == ("./src/app.py:app", frozenset({"a2a"}))
    assert server.packages == ("langchain-openai",)


def test_keys_that_nobody_acts_on_are_named_in_one_warning(write):
    (warning,) = load(write("langgraph.json", json.dumps(LANGGRAPH, indent=2))).warnings
    named = str(warning).rpartition(": ")[2].split(", ")
    assert named == [
        "$schema",
        "python_version",
        "graphs['Deep Researcher'].icon",
        "store.later",
        "checkpointer.serde",
        "auth.disable_studio_auth",
        "http.mount_prefix",
        "webhooks",
        "dockerfile_lines",
        "keep_pkg_tools",
        "_INTERNAL_docker_tag",
        "brand_new",
    ]


def test_in_our_own_files_what_is_unknown_is_still_wrong(write, told):
    (found,) = told("brand_new: {}\nhttp: {mount_prefix: /x}\n")
    assert "brand_new: unknown key 'brand_new'" in found
    (warning,) = load(
        write("checkrail.yaml", "$schema: x\nhttp: {mount_prefix: /x}\nui: {}\n")
    ).warnings
    assert str(warning).endswith("left alone, for nobody here acts on it: http.mount_prefix, ui")


def test_hooks_are_read_as_strictly_in_files_of_other_servers(told):
    (found,) = told('{"hooks": {"before_rum": {"block": "No"}}}', "aegra.json")
    assert "unknown point 'before_rum'" in found


def test_a_graph_in_javascript_is_refused(told):
    text = '{"node_version": "20", "graphs": {"agent": "./src/agent.ts:graph"}}'
    (found,) = told(text, "langgraph.json")
    assert "graphs.agent: the text './src/agent.ts:graph', which is no Python" in found
    assert "graphs in JavaScript cannot be served here" in found


def test_files_that_the_server_would_miss_can_be_told_without_importing_them(write):
    write("src/app.py", "raise RuntimeError\n")
    loaded = load(write("langgraph.json", json.dumps(LANGGRAPH | {"dependencies": ["x"]})))
    told = [(problem.path, problem.found.rpartition("/")[2]) for problem in missing_files(loaded)]
    assert told == [("agent", "graph.py"), ("Deep Researcher", "deep.py"), ("auth.path", "auth.py")]
    assert "checkpointer" not in str(told)


def test_modules_are_not_looked_for(write):
    loaded = load(write("checkrail.yaml", "graphs: {a: package.module:graph}\n"))
    assert missing_files(loaded) == ()
