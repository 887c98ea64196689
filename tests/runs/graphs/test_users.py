"""Users as graphs know them."""

import pytest
from langgraph_sdk.auth.types import BaseUser

from checkrail.engine.values import User
from checkrail.runs.graphs.users import graph_user

ADA = User("ada", email="ada@example.org", permissions=["read"], extras={"plan": {"name": "pro"}})


@pytest.mark.parametrize(
    "given",
    [
        ADA,
        {
            "identity": "ada",
            "email": "ada@example.org",
            "permissions": ["read"],
            "plan": {"name": "pro"},
        },
    ],
)
def test_a_user_is_known_by_attributes_and_by_keys(given):
    user = graph_user(given)
    assert isinstance(user, BaseUser)
    assert dict(user) == {
        "identity": "ada",
        "display_name": "ada",
        "is_authenticated": True,
        "email": "ada@example.org",
        "permissions": ["read"],
        "plan": {"name": "pro"},
    }
    assert (user.identity, user.email, user.plan) == ("ada", "ada@example.org", {"name": "pro"})
    assert len(user) == 6
    assert graph_user(user) is user


def test_what_a_user_has_not_is_refused_by_name():
    with pytest.raises(AttributeError, match="the user has no 'age'"):
        _ = graph_user(ADA).age
    assert "org_id" not in graph_user(ADA)


def test_a_user_s_repr_tells_who_and_nothing_else():
    assert repr(graph_user(ADA)) == "GraphUser('ada')"


def test_nobody_stays_nobody():
    assert graph_user(None) is None
