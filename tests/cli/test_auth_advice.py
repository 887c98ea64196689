"""What `checkrail check` says of an Auth object whose handlers keep nobody apart."""

import pytest

AUTH = """
from langgraph_sdk import Auth

auth = Auth()


@auth.authenticate
async def who(authorization: str | None):
    return authorization or "nobody"


@auth.on{on}
async def rule(ctx, value):
    def helper():
        return {{"not": "ours"}}

    if value is None:
        return {first}
    return {last}
"""


@pytest.fixture
def warned(invoke, tmp_path):
    def warned(on="", first="None", last="True", isolate=""):
        (tmp_path / "auth.py").write_text(AUTH.format(on=on, first=first, last=last))
        file = tmp_path / "checkrail.yaml"
        file.write_text(f"auth: {{path: './auth.py:auth'{isolate}}}\nhooks: {{}}\n")
        done = invoke("check", str(file), "--json")
        assert done.code == 0, done.out
        return [(item["path"], item["found"]) for item in done.data["warnings"]]

    return warned


@pytest.mark.parametrize("on", ["", ".threads", ".threads.read", "(actions='search')"])
def test_a_handler_that_lets_everybody_through_is_told(warned, on):
    told = "'rule' in ./auth.py:auth returns no filter: users may read each other's threads"
    assert warned(on) == [("auth", told)]


@pytest.mark.parametrize("filtered", ["{'owner': ctx.user.identity}", "helper()", "value"])
def test_one_that_may_return_a_filter_is_not(warned, filtered):
    assert warned(last=filtered) == warned(first=filtered) == []


@pytest.mark.parametrize("on", [".assistants", ".store", ".threads.create"])
def test_what_is_not_about_reading_threads_is_left_to_its_author(warned, on):
    assert warned(on) == []


def test_isolation_that_is_asked_for_is_enough(warned):
    assert warned(isolate=", isolate: owner") == []
