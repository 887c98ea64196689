"""What a file says of the server: the defaults, every key, and what is wrong with them."""

from pathlib import Path

import pytest

from checkrail.config import load, load_text
from checkrail.config.server import (
    AuthConfig,
    CheckpointerConfig,
    HttpConfig,
    LimitsConfig,
    OutboundConfig,
    RetentionConfig,
    StoreConfig,
)

EVERYTHING = """
    agents:
      support: ./support.py:graph
    server:
      host: 0.0.0.0
      port: 8080
      capacity: 4
      lease_seconds: 12
      beat_seconds: 3
      cancel_grace_seconds: 1.5
      log_level: debug
    database: postgresql://localhost/checkrail
    data_dir: ./state
    auth: { path: ./auth.py:auth }
    http:
      app: package.web:app
      enable_custom_route_auth: true
      disable_store: true
      disable_runs: false
      disable_mcp: true
      cors: { allow_origins: ["https://shop.example"], allow_credentials: true, max_age: 60 }
    store:
      index: { dims: 4, embed: ./embed.py:embed, fields: [text] }
      ttl: { refresh_on_read: false, default_ttl: 60, sweep_interval_minutes: 5 }
    checkpointer:
      path: ./saver.py:saver
      ttl: { strategy: keep_latest, default_ttl: 1440, sweep_limit: 10 }
    retention: { runs_days: 90, events_days: 7, records_days: 365.5, stateless_days: 1 }
    outbound: { allow: [hooks.internal, 10.1.0.0/16, "*.corp.example:8443"] }
    limits: { body_bytes: 1000, queued_per_thread: 5 }
"""


def test_a_file_that_says_nothing_of_the_server_has_the_defaults(write):
    loaded = load(write("checkrail.yaml", "hooks: {}\n"))
    server = loaded.server
    assert (server.host, server.port, server.capacity) == ("127.0.0.1", 2024, 32)
    assert (server.lease_seconds, server.beat_seconds) == (30, 5)
    assert (server.cancel_grace_seconds, server.log_level) == (30, "info")
    assert (server.database, server.auth) == (None, None)
    assert server.data_dir == loaded.base / ".checkrail"
    assert (server.http, server.store) == (HttpConfig(), StoreConfig())
    assert server.retention == RetentionConfig(None, None, None, None, None)
    assert server.limits == LimitsConfig(
        body_bytes=33_554_432,
        event_bytes=16_777_216,
        events_per_run=200_000,
        bytes_per_run=268_435_456,
        open_streams=1000,
        queued_per_thread=1000,
    )
    assert (server.import_path, server.packages) == ((), ())


def test_every_key_of_the_server_is_read(write, tmp_path):
    loaded = load(write("checkrail.yaml", EVERYTHING))
    server = loaded.server
    assert loaded.warnings == ()
    assert (server.host, server.port, server.capacity) == ("0.0.0.0", 8080, 4)
    assert (server.lease_seconds, server.beat_seconds) == (12, 3)
    assert (server.cancel_grace_seconds, server.log_level) == (1.5, "debug")
    assert server.database == "postgresql://localhost/checkrail"
    assert server.data_dir == tmp_path / "state"
    assert server.auth == AuthConfig("./auth.py:auth")
    assert server.http == HttpConfig(
        app="package.web:app",
        enable_custom_route_auth=True,
        cors={
            "allow_origins": ["https://shop.example"],
            "allow_credentials": True,
            "max_age": 60,
        },
        disabled=frozenset({"store", "mcp"}),
    )
    assert server.store == StoreConfig(
        index={"dims": 4, "embed": "./embed.py:embed", "fields": ["text"]},
        ttl={"refresh_on_read": False, "default_ttl": 60, "sweep_interval_minutes": 5},
    )
    assert server.checkpointer == CheckpointerConfig(
        "./saver.py:saver", {"strategy": "keep_latest", "default_ttl": 1440, "sweep_limit": 10}
    )
    assert server.retention == RetentionConfig(
        runs_days=90, stateless_days=1, events_days=7, records_days=365.5
    )
    assert server.outbound == OutboundConfig(
        allow=("hooks.internal", "10.1.0.0/16", "*.corp.example:8443")
    )
    assert server.limits == LimitsConfig(body_bytes=1000, queued_per_thread=5)
    assert server.import_path == (tmp_path,)


def test_the_same_keys_in_toml_and_json(write):
    toml = "hooks = {}\n[server]\nport = 81\n[limits]\nopen_streams = 2\n[auth]\nkeys = true\n"
    json = '{"server": {"port": 81}, "limits": {"open_streams": 2}, "auth": {"keys": true}}'
    one = load(write("checkrail.toml", toml)).server
    other = load(write("checkrail.json", json)).server
    assert (one.port, one.limits.open_streams, one.auth) == (81, 2, AuthConfig(keys=True))
    assert (other.port, other.limits, other.auth) == (one.port, one.limits, one.auth)


def test_keys_without_a_value_say_nothing():
    loaded = load_text('{"server": {"port": null}, "store": null, "http": {"cors": null}}', "json")
    assert (loaded.server.port, loaded.server.http.cors) == (2024, None)


def test_folders_of_dependencies_are_imported_from_and_others_named(write, tmp_path):
    write("lib/src/mine/__init__.py", "")
    text = (
        "graphs: {}\ndependencies: [., ./lib, ./gone, langchain-openai, 'git+https://x.example']\n"
    )
    loaded = load(write("checkrail.yaml", text))
    lib = tmp_path / "lib"
    assert loaded.server.import_path == (tmp_path, lib, lib / "src")
    assert loaded.server.packages == ("langchain-openai", "git+https://x.example")
    (warning,) = loaded.warnings
    assert warning.path == "dependencies[2]"
    assert "does not exist" in warning.found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("server: {prot: 1}", "server.prot: unknown key 'prot' (did you mean 'port'?)"),
        (
            "server: {port: 70000}",
            "server.port: found the number 70000, expected a port, 1 to 65535",
        ),
        ("server: {port: true}", "server.port: found true, expected a port"),
        (
            "server: {capacity: 0}",
            "server.capacity: found the number 0, expected a whole number, 1",
        ),
        (
            "server: {log_level: loud}",
            "server.log_level: unknown word 'loud', expected one of: debug",
        ),
        ("server: {lease_seconds: 8}", "server: a beat every 5 seconds for a lease of 8, expected"),
        ("server: 8080", "server: found the number 8080, expected a mapping"),
        ("auth: {}", "auth: `path` is missing, expected path: ./auth.py:auth, or keys: true"),
        ("auth: {path: ./a.py:a, keys: true}", "auth: both `path` and `keys`"),
        ("auth: ./auth.py:auth", "auth: found the text './auth.py:auth', expected a mapping"),
        (
            "auth: {path: ./auth.py}",
            "auth.path: found the text './auth.py', expected ./file.py:name",
        ),
        ("http: {app: app}", "http.app: found the text 'app', expected ./file.py:name or package"),
        ("http: {app: './a.py:a b'}", "http.app: found the text './a.py:a b'"),
        ("http: {cors: {origins: [a]}}", "http.cors.origins: unknown key 'origins'"),
        (
            "http: {cors: {allow_origins: '*'}}",
            "http.cors.allow_origins: found the text '*', expect",
        ),
        (
            "store: {index: {dims: 3}}",
            "store.index: `embed` is missing, expected `dims` and `embed`",
        ),
        (
            "store: {ttl: {default_ttl: 0}}",
            "store.ttl.default_ttl: found the number 0, expected min",
        ),
        ("checkpointer: {ttl: {strategy: keep}}", "checkpointer.ttl.strategy: unknown word 'keep'"),
        ("retention: {runs_days: -1}", "retention.runs_days: found the number -1, expected days"),
        ("retention: {runs: 1}", "retention.runs: unknown key 'runs', expected one of: runs_days"),
        (
            "limits: {body_bytes: 32 MB}",
            "limits.body_bytes: found the text '32 MB', expected a whole",
        ),
        (
            "outbound: {allow: ['https://a.b/c']}",
            "outbound.allow[0]: found the text 'https://a.b/c'",
        ),
        (
            "outbound: {webhook_secret: 5}",
            "outbound.webhook_secret: found something else, expected",
        ),
        (
            "database: mysql://u:pass-word@h/d",
            "database: a database by a URL of 'mysql', expected post",
        ),
        (
            "database: ./file.db",
            "database: a database by something that is no URL, expected postgres",
        ),
        ("database: 5", "database: found something else, expected postgresql://"),
        ("data_dir: 5", "data_dir: found the number 5, expected a text"),
        ('data_dir: "a\\0b"', "data_dir: the text 'a\\x00b', which names no folder"),
        (
            "dependencies: .",
            "dependencies: found the text '.', expected a list of folders and pack",
        ),
        ("sevrer: {}", "sevrer: unknown key 'sevrer' (did you mean 'server'?)"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(told, text, says):
    (found,) = told(f"{text}\n")
    assert found.startswith(f"checkrail.yaml:1 {says}")
    assert "pass-word" not in found


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("graphs: [a]", "graphs: found a list, expected graphs by their names"),
        ("graphs: {a: 5}", "graphs.a: found the number 5, expected a mapping"),
        ("graphs: {a: {description: x}}", "graphs.a: `path` is missing, expected path: ./file.py"),
        (
            "graphs: {a: ./agent.ts:graph}",
            "graphs.a: the text './agent.ts:graph', which is no Python",
        ),
        ("graphs: {a: {path: ./a.js:g}}", "graphs.a.path: the text './a.js:g', which is no Python"),
        (
            "graphs: {a: ./agent.py}",
            "graphs.a: found the text './agent.py', expected ./file.py:name",
        ),
        ("graphs: {a/b: ./a.py:g}", "graphs[a/b]: the name 'a/b', expected a name without"),
        (
            "graphs: {a: {path: ./a.py:g, type: procedural}}",
            "graphs.a.type: found the text 'proced",
        ),
        (
            "graphs: {a: {path: ./a.py:g, on_crash: retry}}",
            "graphs.a.on_crash: unknown word 'retry'",
        ),
        (
            "agents: {a: {type: graph}}",
            "agents.a: `path` is missing, expected path: ./file.py:graph",
        ),
        (
            "agents: {a: ./agent.ts:graph}",
            "agents.a: the text './agent.ts:graph', which is no Python",
        ),
        ("agents: {a: {path: ./a.py:g, chekpoints: 5}}", "agents.a.chekpoints: unknown key"),
        ("agents: {a: {path: ./a.py:g, hooks: [later]}}", "agents.a.hooks: found a list, expected"),
        ("agents: {a: ./a.py:g}\ngraphs: {a: ./b.py:g}", "graphs.a: the name 'a' a second time"),
    ],
)
def test_what_is_wrong_with_graphs_is_told(told, text, says):
    (found,) = told(f"{text}\n")
    assert f" {says}" in found.replace("['a/b']", "[a/b]")


def test_graphs_stand_beside_agents():
    loaded = load_text(
        """
        agents: { one: { model: openai/m } }
        graphs:
          two: ./two.py:graph
          Deep Researcher: { path: ./three.py:make, description: Looks deep. }
        """
    )
    assert [*loaded.agents] == ["one", "two", "Deep Researcher"]
    deep = loaded.agents["Deep Researcher"]
    assert (deep.kind, deep.path, deep.description) == ("graph", "./three.py:make", "Looks deep.")
    assert deep.source == "<text>:5 graphs['Deep Researcher']"


def test_a_file_may_be_the_blueprint_of_a_graph():
    text = "name: x\ntype: graph\npath: ./x.py:graph\nhooks: {before_run: {block: No}}\n"
    loaded = load_text(text)
    assert loaded.agents["x"].path == "./x.py:graph"
    assert [spec.name for spec in loaded.specs] == ["x.before_run"]


def test_custom_route_auth_without_an_app_is_worth_a_word():
    (warning,) = load_text("http: {enable_custom_route_auth: true}\n").warnings
    assert (
        str(warning) == "<text>:1 http.enable_custom_route_auth: there is no `app` that it is for"
    )


def test_paths_start_from_the_folder_of_a_text(tmp_path):
    loaded = load_text("data_dir: ../state\n", base=tmp_path / "inner")
    assert loaded.server.data_dir == tmp_path / "state"
    assert load_text("hooks: {}").server.data_dir == Path.cwd() / ".checkrail"
