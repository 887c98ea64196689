"""Variables that a file sets, and secrets that it uses: they work, and nobody is shown them."""

import os

import pytest

from checkrail.config import ConfigError, Reloader, load, load_text
from checkrail.config.environment import parse_env
from checkrail.engine.registry import HookRegistry

DOTENV = """
    # what the project needs
    PLAIN=one two   # a remark
    export EXPORTED = yes
    SINGLE='$PLAIN ${PLAIN} # kept'
    DOUBLE="a \\"quoted\\"\\tline
    and the next"
    USED=${PLAIN}/${UNKNOWN}end
    HASH=a#b
    EMPTY=
    this is nothing
    LAST=x"""


def test_a_dotenv_file_is_read_as_others_read_it():
    lines = "\n".join(line.strip(" ") for line in DOTENV.splitlines()[1:])
    found, wrong = parse_env(lines.replace("\n", "\r\n"))
    assert found == {
        "PLAIN": "one two",
        "EXPORTED": "yes",
        "SINGLE": "$PLAIN ${PLAIN} # kept",
        "DOUBLE": 'a "quoted"\tline\nand the next',
        "USED": "one two/end",
        "HASH": "a#b",
        "EMPTY": "",
        "LAST": "x",
    }
    assert wrong == [10]


HOOKS = """
    import os

    from checkrail import Block, Hooks

    hooks = Hooks()
    SEEN = os.environ.get("SHOP_TOKEN")

    @hooks.before_run
    def gate(event):
        return Block(f"{SEEN} of {os.environ['SHOP_REGION']}")
"""


async def reason(loaded) -> str:
    registry = HookRegistry()
    registry.swap(loaded.specs)
    return (await registry.fire("before_run", {})).reason


async def test_variables_of_a_file_are_there_when_its_hooks_are_imported(write, monkeypatch):
    monkeypatch.setenv("SHOP_REGION", "north")
    write("hooks.py", HOOKS)
    write(".env", "SHOP_TOKEN=from-the-file\nSHOP_REGION=south\n")
    path = write("langgraph.json", '{"env": ".env", "hooks": {"path": "./hooks.py:hooks"}}')
    loaded = load(path)
    assert await reason(loaded) == "from-the-file of north"  # the process comes first
    assert loaded.server.env == {"SHOP_TOKEN": "from-the-file", "SHOP_REGION": "south"}
    assert {file.name for file in loaded.files} == {"langgraph.json", "hooks.py", ".env"}
    assert "from-the-file" not in repr(loaded)
    assert loaded.scrub("no from-the-file here") == "no ${SHOP_TOKEN} here"


def test_a_mapping_sets_variables_too(write):
    env = '{"SHOP_A": "text", "SHOP_B": 5, "SHOP_C": true, "shop_d": "small"}'
    load(write("langgraph.json", f'{{"env": {env}}}'))
    told = [os.environ[name] for name in ("SHOP_A", "SHOP_B", "SHOP_C", "shop_d")]
    assert told == ["text", "5", "true", "small"]


def test_our_own_files_allow_variables_and_set_them(write):
    write("more.env", "SHOP_A=a\n")
    text = """
        env: { allow: [SHOP_A], file: ./more.env, SHOP_B: b }
        hooks: { before_run: { block: "${SHOP_A}" } }
    """
    loaded = load(write("checkrail.yaml", text))
    assert loaded.settings.env_allow == ("SHOP_A",)
    assert loaded.server.env == {"SHOP_A": "a", "SHOP_B": "b"}


def test_a_file_that_is_refused_leaves_no_variable_behind(write):
    text = "env: {SHOP_A: x}\nhooks: {before_rum: {block: No}}\n"
    with pytest.raises(ConfigError):
        load(write("checkrail.yaml", text))
    assert "SHOP_A" not in os.environ


async def test_a_variable_that_changed_counts_at_the_next_reload(write, monkeypatch):
    monkeypatch.setenv("SHOP_REGION", "north")
    write("hooks.py", HOOKS)
    write(".env", "SHOP_TOKEN=first\n")
    path = write("checkrail.yaml", "env: .env\nhooks: {path: ./hooks.py:hooks}\n")
    reloader = Reloader(path, HookRegistry())
    assert await reason(reloader.load()) == "first of north"
    write(".env", "SHOP_TOKEN=second\n")
    assert reloader.reload()
    assert await reason(reloader.loaded) == "second of north"


@pytest.mark.parametrize(
    ("env", "says"),
    [
        (".env", "env: the text '.env', which cannot be read: No such file or directory"),
        ("./folder", "env: the text './folder', which cannot be read: Is a directory"),
        ("./odd.env", "env: odd.env: no NAME=value on line 2 (it is left out)"),
    ],
)
def test_a_dotenv_file_that_is_not_right_is_worth_a_word(write, tmp_path, env, says):
    (tmp_path / "folder").mkdir()
    write("odd.env", "SHOP_A=1\nsecret-thing\n")
    (warning,) = load(write("checkrail.yaml", f"env: {env}\n")).warnings
    assert str(warning).partition(":1 ")[2].startswith(says)


@pytest.mark.parametrize(
    ("env", "says"),
    [
        ("5", "env: found the number 5, expected a mapping, or the path of a .env file"),
        ("{allow: X}", "env.allow: found the text 'X', expected a list of texts"),
        ("{file: 5}", "env.file: found the number 5, expected a text"),
        ("{fil: .env}", "env.fil: unknown key 'fil' (did you mean 'file'?)"),
        ("{SHOP_A: [1]}", "env.SHOP_A: unknown key 'SHOP_A'"),
        ('{SHOP_A: "a\\0b"}', "env.SHOP_A: a text that no variable can have"),
    ],
)
def test_what_is_wrong_with_env_is_told(told, env, says):
    (found,) = told(f"env: {env}\n")
    assert found.startswith(f"checkrail.yaml:1 {says}")


PASSWORD = "hunter2-%21"
URL = f"postgresql://shop:{PASSWORD}@db.example/shop"


def test_the_url_of_the_database_is_shown_to_nobody(monkeypatch):
    monkeypatch.setenv("SHOP_DATABASE", URL)
    loaded = load_text("database: ${SHOP_DATABASE}\n")
    assert loaded.server.database == URL
    assert "hunter2" not in repr(loaded)
    assert loaded.scrub(f"no answer from {URL}") == "no answer from ${SHOP_DATABASE}"
    assert loaded.scrub("bad password hunter2-!") == "bad password (the password)"


def test_the_variable_for_the_database_wins(monkeypatch):
    monkeypatch.setenv("CHECKRAIL_DATABASE_URL", URL)
    loaded = load_text("database: sqlite:///other.db\n")
    assert loaded.server.database == URL
    assert loaded.scrub(URL) == "(the database)"


def test_the_variable_for_the_database_may_come_from_the_dotenv_file(write):
    write(".env", f"CHECKRAIL_DATABASE_URL={URL}\n")
    assert load(write("checkrail.yaml", "env: .env\n")).server.database == URL


@pytest.mark.parametrize(
    "url", ["mysql://shop:hunter2-x@db/shop", "hunter2-x", "http://[hunter2-x"]
)
def test_a_wrong_variable_for_the_database_is_told_without_it(monkeypatch, url):
    monkeypatch.setenv("CHECKRAIL_DATABASE_URL", url)
    with pytest.raises(ConfigError) as raised:
        load_text("hooks: {}\n")
    assert "CHECKRAIL_DATABASE_URL" in str(raised.value)
    assert "hunter2" not in str(raised.value)


def test_a_variable_that_is_not_set_is_told(told):
    (found,) = told("database: ${SHOP_NOT_THERE}\n")
    assert "database: ${SHOP_NOT_THERE} is not set in the environment" in found
    (found,) = told("outbound: {webhook_secret: '${SHOP_NOT_THERE}'}\n")
    assert "outbound.webhook_secret: ${SHOP_NOT_THERE} is not set in the environment" in found


def test_the_secret_of_webhooks_is_shown_to_nobody(monkeypatch):
    secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    monkeypatch.setenv("SHOP_SECRET", secret)
    loaded = load_text("outbound: {webhook_secret: '${SHOP_SECRET}'}\n")
    assert loaded.server.outbound.webhook_secret == secret
    assert secret not in repr(loaded)
    assert loaded.scrub(secret) == "${SHOP_SECRET}"


def test_a_secret_that_signs_nothing_is_told_without_it(told):
    (found,) = told("outbound: {webhook_secret: whsec_no base64!}\n")
    assert "outbound.webhook_secret: the signing secret begins with whsec_" in found
    assert "no base64!" not in found


async def test_secrets_are_in_no_error_of_a_module_that_breaks(write):
    write("agent.py", "import os\nraise RuntimeError(os.environ['SHOP_KEY'])\n")
    write(".env", "SHOP_KEY=very-secret-key\n")
    loaded = load(write("checkrail.yaml", "env: .env\ngraphs: {a: ./agent.py:graph}\n"))
    with pytest.raises(ConfigError) as raised:
        loaded.load_object("./agent.py:graph", "the graph 'a'")
    assert "RuntimeError: ${SHOP_KEY}" in str(raised.value)
    assert raised.value.__suppress_context__ or raised.value.__context__ is None
