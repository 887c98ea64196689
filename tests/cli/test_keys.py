"""`checkrail keys` makes keys that a server knows, shows each once, and revokes them."""

import sqlite3
import time

import pytest

from checkrail.cli.keys import ONCE, ROLES
from checkrail.server.auth.caller import ROLES as KNOWN
from checkrail.server.auth.keys import digest_of
from checkrail.store import keys
from checkrail.store.database import open_database
from checkrail.store.engines import sqlite_url

ASKS = "hooks: {}\nauth: {keys: true}\n"
SILENT = "hooks: {}\n"


@pytest.fixture
def project(write, tmp_path):
    write("checkrail.yaml", ASKS)
    return tmp_path


@pytest.fixture
def file(project):
    return project / ".checkrail" / "checkrail.db"


def kept(file):
    with open_database(sqlite_url(file)) as database:
        return database.read_now(keys.all_keys)


def made(invoke, name="ci", role="member", *more):
    done = invoke("keys", "create", name, "--role", role, "--json", *more)
    assert done.code == 0, done.err
    return done.data


def test_a_key_is_printed_once_and_only_its_digest_is_kept(checkrail, project, file):
    done = checkrail("keys", "create", "ci", "--role", "member")
    assert done.code == 0
    token = done.out.strip()
    assert token.startswith("crk_")
    assert len(token) > 40
    [row] = kept(file)
    assert row.digest == digest_of(token)
    assert (row.name, row.role, row.owner) == ("ci", "member", "ci")
    told = done.err.splitlines()
    assert told == [f"{row.key_id}: member ci, for ci", ONCE]
    assert token.encode() not in file.read_bytes()
    assert token not in checkrail("keys", "ls", "--json").out


def test_the_key_alone_goes_to_standard_output_for_scripts(invoke, project):
    done = invoke("keys", "create", "ci", "--role", "viewer")
    assert done.out.count("\n") == 1
    assert done.out.strip() not in done.err


def test_machines_get_the_key_with_what_is_known_of_it(invoke, project, file):
    told = made(invoke, "ci", "admin", "--owner", "ann")
    [row] = kept(file)
    assert digest_of(told.pop("key")) == row.digest
    assert told.pop("created_at").endswith("+00:00")
    assert told == {
        "key_id": row.key_id,
        "name": "ci",
        "role": "admin",
        "owner": "ann",
        "revoked_at": None,
    }


def test_two_keys_of_one_name_are_two_keys(invoke, project, file):
    first, second = made(invoke), made(invoke)
    assert first["key"] != second["key"]
    assert [row.key_id for row in kept(file)] == [second["key_id"], first["key_id"]]


def test_the_roles_are_those_of_the_server():
    assert ROLES == KNOWN


@pytest.mark.parametrize("role", ROLES)
def test_each_role_can_be_given(invoke, project, file, role):
    made(invoke, "ci", role)
    assert [row.role for row in kept(file)] == [role]


def test_keys_are_listed_the_newest_first_with_those_that_were_revoked(invoke, project):
    first, second = made(invoke, "first"), made(invoke, "second", "admin", "--owner", "ann")
    invoke("keys", "revoke", first["key_id"])
    done = invoke("keys", "ls")
    assert (done.code, done.err) == (0, "")
    title, newer, older = done.rows
    assert title == ["id", "name", "role", "owner", "made", "revoked"]
    assert newer[:4] == [second["key_id"], "second", "admin", "ann"]
    assert older[:4] == [first["key_id"], "first", "member", "first"]
    assert (len(newer), len(older)) == (5, 6)
    listed = invoke("keys", "ls", "--json").data
    assert [row["name"] for row in listed] == ["second", "first"]
    assert [row["revoked_at"] is None for row in listed] == [True, False]
    assert all("digest" not in row and "key" not in row for row in listed)


def test_no_keys_say_how_to_make_one(invoke, project):
    done = invoke("keys", "ls")
    assert (done.code, done.out) == (0, "")
    assert "checkrail keys create NAME --role member" in done.err
    assert invoke("keys", "ls", "--json").data == []


def test_a_revoked_key_is_not_in_force(invoke, project, file):
    key = made(invoke)
    done = invoke("keys", "revoke", key["key_id"])
    assert (done.code, done.err) == (0, "")
    assert done.out == f"{key['key_id']}: revoked ci\n"
    with open_database(sqlite_url(file)) as database:
        assert database.read_now(lambda reads: keys.find(reads, digest_of(key["key"]))) is None


def test_the_beginning_of_an_id_is_enough_if_one_key_has_it(invoke, project):
    key = made(invoke)
    told = invoke("keys", "revoke", key["key_id"][:6].upper(), "--json")
    assert (told.code, told.data["key_id"]) == (0, key["key_id"])
    assert told.data["revoked_at"]


def test_a_key_that_cannot_be_revoked_is_told(invoke, project):
    first = made(invoke)["key_id"]
    made(invoke)
    for given, says in (("zz", "there is no key 'zz'"), ("0", "2 keys begin with '0'"), ("", "no")):
        done = invoke("keys", "revoke", given)
        assert (done.code, done.out) == (2, "")
        assert says in done.err
    invoke("keys", "revoke", first)
    again = invoke("keys", "revoke", first)
    assert again.code == 2
    assert "is revoked already" in again.err


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "a\x1b[31m", "a\0b", "x" * 201])
def test_a_name_that_nobody_could_read_is_refused(invoke, project, file, name):
    for args in ((name,), ("ci", "--owner", name)) if name else ((name,),):
        done = invoke("keys", "create", *args, "--role", "member")
        assert (done.code, done.out) == (2, "")
        assert "all of which can be seen" in done.err
    assert not file.exists()


def test_a_role_that_is_not_there_is_told_with_those_that_are(invoke, project):
    done = invoke("keys", "create", "ci", "--role", "owner")
    assert (done.code, done.out) == (2, "")
    assert all(role in done.err for role in ROLES)
    assert "--role" in invoke("keys", "create", "ci").err


def test_a_project_that_asks_for_no_keys_is_warned_of(invoke, write):
    write("checkrail.yaml", SILENT)
    done = invoke("keys", "create", "ci", "--role", "member")
    assert done.code == 0
    assert "configures no auth" in done.err
    assert "auth: {keys: true}" in done.err


def test_where_an_auth_object_decides_only_runners_have_keys(invoke, write):
    write("checkrail.yaml", "hooks: {}\nauth: {path: ./auth.py:auth}\n")
    write("auth.py", "from langgraph_sdk import Auth\nauth = Auth()\n")
    done = invoke("keys", "create", "ci", "--role", "member")
    assert "./auth.py:auth" in done.err
    assert "only runners" in done.err
    assert "warning" not in invoke("keys", "create", "box", "--role", "runner").err


def test_postgresql_without_tables_says_what_to_do_and_with_them_keeps_keys(
    checkrail, project, postgres
):
    url = postgres.fresh()
    early = checkrail("keys", "create", "ci", "--role", "member", CHECKRAIL_DATABASE_URL=url)
    assert (early.code, early.out) == (4, "")
    assert "checkrail db upgrade" in early.err
    checkrail("db", "upgrade", CHECKRAIL_DATABASE_URL=url)
    token = checkrail("keys", "create", "ci", "--role", "member", CHECKRAIL_DATABASE_URL=url).out
    with open_database(url) as database:
        [row] = database.read_now(keys.all_keys)
    assert row.digest == digest_of(token.strip())
    assert not (project / ".checkrail").exists()


def test_keys_are_made_while_somebody_else_writes(checkrail, invoke, project, file):
    """A server writes in short bursts; a command waits for its turn."""
    invoke("db", "upgrade")
    busy = sqlite3.connect(file, isolation_level=None, check_same_thread=False)
    try:
        busy.execute("BEGIN IMMEDIATE")
        busy.execute("DELETE FROM api_keys")
        with open_database(sqlite_url(file)) as database:
            key = keys.Key("k", "d", "n", "admin", "o", created_at=time.time())
            waiting = database.write_soon(lambda tx: keys.add(tx, key))
            assert len(invoke("keys", "ls", "--json").data) == 0
            assert not waiting.done()
            busy.execute("COMMIT")
            waiting.result(20)
    finally:
        busy.close()
    assert checkrail("keys", "create", "ci", "--role", "member").code == 0
    assert len(kept(file)) == 2


def test_the_help_tells_what_there_is_with_an_example(invoke):
    done = invoke("keys", "--help")
    assert done.code == 0
    assert "Example: checkrail keys create ci --role member" in done.out
    for name in ("create", "ls", "revoke"):
        text = invoke("keys", name, "--help").out
        assert f"Example: checkrail keys {name}" in text
        assert "--json" in text
        assert "--config PATH" in text
