"""API keys in a database: found by their digest while they are in force."""

import pytest
from sqlalchemy.exc import IntegrityError

from checkrail.store import keys

NOW = 1_700_000_000.0


def key(number, **more):
    kept = {"digest": f"digest-{number}", "role": "member", "created_at": NOW + number, **more}
    return keys.Key(key_id=f"key-{number}", name="ci", owner="ann", **kept)


def test_a_key_is_found_by_its_digest_with_all_that_was_kept(tx):
    keys.add(tx, key(1))
    keys.add(tx, key(2, role="admin"))
    assert keys.find(tx, "digest-2") == key(2, role="admin")


@pytest.mark.parametrize("digest", ["digest-3", "", "digest", "DIGEST-1", "key-1", "%", "' OR 1=1"])
def test_no_other_text_finds_a_key(tx, digest):
    keys.add(tx, key(1))
    assert keys.find(tx, digest) is None


def test_a_digest_is_kept_once(tx):
    keys.add(tx, key(1))
    with pytest.raises(IntegrityError):
        keys.add(tx, key(2, digest="digest-1"))


def test_keys_are_listed_the_newest_first_and_revoked_ones_too(tx):
    for number in (2, 3, 1):
        keys.add(tx, key(number))
    keys.revoke(tx, "key-3", NOW + 10)
    assert [row.key_id for row in keys.all_keys(tx)] == ["key-3", "key-2", "key-1"]


def test_a_revoked_key_is_in_force_no_more_and_the_others_are(tx):
    keys.add(tx, key(1))
    keys.add(tx, key(2))
    assert keys.revoke(tx, "key-1", NOW + 10) is True
    assert keys.find(tx, "digest-1") is None
    assert keys.find(tx, "digest-2") == key(2)
    assert [row.revoked_at for row in keys.all_keys(tx)] == [None, NOW + 10]


def test_a_key_is_revoked_once_and_keeps_the_time(tx):
    keys.add(tx, key(1))
    keys.revoke(tx, "key-1", NOW + 10)
    assert keys.revoke(tx, "key-1", NOW + 20) is False
    assert keys.all_keys(tx) == [key(1, revoked_at=NOW + 10)]


def test_revoking_a_key_that_is_not_there_says_so(tx):
    keys.add(tx, key(1))
    assert keys.revoke(tx, "digest-1", NOW) is False
    assert keys.find(tx, "digest-1") == key(1)
