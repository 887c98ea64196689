"""Whose answers count, as a file says it."""

import pytest

from checkrail.config import ConfigError, load_text


@pytest.mark.parametrize(
    ("said", "roles"),
    [
        ("hooks: {}", ("admin", "member")),
        ("approvals: {}", ("admin", "member")),
        ("approvals: { roles: [admin] }", ("admin",)),
        ("approvals: { roles: [] }", ("admin",)),
        ("approvals: { roles: [member] }", ("admin", "member")),
    ],
)
def test_admins_may_always_answer_and_members_unless_the_file_says_otherwise(said, roles):
    assert load_text(said).server.approvals.roles == roles


@pytest.mark.parametrize("said", ["[viewer]", "[runner]", "admin", "[Admin]"])
def test_roles_that_may_not_answer_are_refused(said):
    with pytest.raises(ConfigError, match=r"approvals\.roles"):
        load_text(f"approvals: {{ roles: {said} }}")
