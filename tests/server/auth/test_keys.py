import hashlib
from dataclasses import replace

import pytest

from checkrail.server.auth import choose_authenticator, generate_key


@pytest.fixture
def ask(serve, keys):
    client = serve(choose_authenticator(keys=keys))
    return lambda headers: client.get("/threads/t", headers=headers)


def test_a_new_key_is_256_random_bits_behind_a_prefix_and_kept_as_a_digest():
    key, other = generate_key(), generate_key()
    assert key.token != other.token
    assert key.token.startswith("crk_")
    assert len(key.token) == len("crk_") + 43
    assert key.digest == hashlib.sha256(key.token.encode()).hexdigest()


def test_a_new_key_does_not_show_its_token():
    key = generate_key()
    assert key.token not in repr(key)
    assert key.token[4:12] not in repr(key)


@pytest.mark.parametrize(
    "header",
    [
        ("x-api-key", "{}"),
        ("x-goog-api-key", "{}"),
        ("X-Api-Key", " {} "),
        ("authorization", "Bearer {}"),
        ("Authorization", "bearer  {}"),
    ],
)
def test_a_key_is_taken_from_either_header(ask, keys, header):
    name, value = header
    answer = ask({name: value.format(keys.add("eve", "viewer"))})
    assert answer.json()["owner"] == "eve"
    assert answer.json()["role"] == "viewer"


def test_another_services_key_beside_ours_does_not_hide_it(ask, keys):
    ours = {"authorization": f"Bearer {keys.add('eve')}", "x-api-key": "lsv2_somebody_elses"}
    assert ask(ours).json()["owner"] == "eve"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"x-api-key": ""},
        {"x-api-key": "crk"},
        {"authorization": "Bearer"},
        {"authorization": "Basic crk_abc"},
        {"x-api-key": "lsv2_somebody_elses"},
    ],
)
def test_a_request_without_one_of_our_keys_is_told_how_to_send_one(ask, headers):
    answer = ask(headers)
    assert answer.status_code == 401
    assert "checkrail keys create" in answer.json()["message"]
    assert "No API key" in answer.json()["message"]


@pytest.mark.parametrize("token", ["crk_", "crk_wrong", "crk_" + "x" * 5000, "crk_\xe9"])
def test_a_key_that_nobody_has_is_refused(ask, keys, token):
    keys.add()
    answer = ask({"x-api-key": token.encode("latin-1")})
    assert answer.status_code == 401
    assert "not known" in answer.json()["message"]
    assert "wrong" not in answer.text


def test_a_digest_is_no_key(ask, keys):
    keys.add()
    [digest] = keys.rows
    assert ask({"x-api-key": digest}).status_code == 401
    assert ask({"x-api-key": f"crk_{digest}"}).status_code == 401


def test_a_revoked_key_is_refused(ask, keys):
    assert ask({"x-api-key": keys.add(revoked_at=1.0)}).status_code == 401


def test_a_key_with_a_role_that_there_is_not_is_refused(ask, keys):
    assert ask({"x-api-key": keys.add(role="emperor")}).status_code == 401


def test_a_row_with_another_digest_is_not_trusted(ask, keys):
    token = keys.add()
    [digest] = keys.rows
    keys.rows[digest] = replace(keys.rows[digest], digest=generate_key().digest)
    assert ask({"x-api-key": token}).status_code == 401


async def test_users_touch_their_own_rows_and_admins_everybodys(keys):
    authenticator = choose_authenticator(keys=keys)

    async def caller(role):
        token = keys.add("ann", role).encode()
        return await authenticator.authenticate({"headers": [(b"x-api-key", token)]}, None)

    member, admin = await caller("member"), await caller("admin")
    for resource in ("threads", "runs", "sessions", "approvals", "crons"):
        assert authenticator.visible_owner(member, resource, "read") == "ann"
        assert authenticator.visible_owner(admin, resource, "read") is None


async def test_assistants_are_there_for_all_and_changed_by_who_made_them(keys):
    authenticator = choose_authenticator(keys=keys)
    headers = [(b"x-api-key", keys.add("ann").encode())]
    member = await authenticator.authenticate({"headers": headers}, None)
    assert authenticator.visible_owner(member, "assistants", "search") is None
    assert authenticator.visible_owner(member, "agents", "read") is None
    assert authenticator.visible_owner(member, "assistants", "update") == "ann"
    assert authenticator.visible_owner(member, "store", "get") is None
