"""Whose a call is, by what LiteLLM knows of keys; the proxy of the other tests has one key only."""

import hashlib
from types import SimpleNamespace

from checkrail.adapters.litellm.calls import ids_of
from checkrail.adapters.litellm.requests import body_of, format_at, format_of
from checkrail.engine.values import User

CHAT, MESSAGES = format_of("acompletion"), format_of("anthropic_messages")


def key(**known):
    return SimpleNamespace(**known)


def test_a_key_with_an_alias_is_called_by_it_and_belongs_to_its_user():
    data = {"litellm_call_id": "c-1", "user": "bob"}
    ids = ids_of(data, key(key_alias="desk", api_key="0" * 64, user_id="ann", team_id="t"))
    assert ids["request_id"] == "c-1"
    assert ids["user"] == User("ann", org_id="t")
    assert ids["metadata"] == {"api_key": "desk", "end_user": "bob", "team": "t"}


def test_a_key_without_an_alias_is_called_by_its_digest_as_in_the_gateway():
    digest = hashlib.sha256(b"sk-1").hexdigest()
    for kept in (digest, "sk-1"):
        ids = ids_of({}, key(api_key=kept, user_id="ann"))
        assert ids["metadata"] == {"api_key": f"key-{digest[:16]}"}


def test_metadata_of_callers_is_found_where_litellm_puts_it():
    said = {"session_id": "s-1", "user_id": "ann"}
    mixed = ids_of({"metadata": {"requester_metadata": said, "user_api_key_hash": "0"}}, None)
    apart = ids_of({"metadata": said, "litellm_metadata": {"user_api_key_hash": "0"}}, None)
    for ids in (mixed, apart):
        assert (ids["session_id"], ids["user"]) == ("s-1", "ann")


def test_only_what_the_caller_sent_is_its_request():
    sent = {"model": "m", "messages": [], "temperature": 1, "foo": 2, "metadata": {"a": 1}}
    own = {"secret_fields": {"raw_headers": {}}, "litellm_call_id": "c", "api_key": "sk-1"}
    data = sent | own | {"proxy_server_request": {"body": sent | own}, "deployment": "d"}
    assert body_of(CHAT, data) == {key: sent[key] for key in sent if key != "metadata"}
    assert body_of(MESSAGES, data) == sent


def test_what_litellm_knows_of_a_key_is_nobodys_metadata():
    data = {"model": "m", "input": "Hi", "metadata": {"user_api_key_hash": "0", "headers": {}}}
    assert "metadata" not in body_of(format_of("aresponses"), data)
    assert (
        ids_of(data | {"metadata": data["metadata"] | {"user_id": "eve"}}, None).get("user") is None
    )


def test_on_a_pass_through_route_all_that_is_there_was_sent():
    logged = SimpleNamespace(litellm_call_id="c-1")
    data = {"model": "m", "messages": [], "top_k": 1, "litellm_logging_obj": logged}
    assert body_of(MESSAGES, data) == {"model": "m", "messages": [], "top_k": 1}
    assert ids_of(data, None)["request_id"] == "c-1"


def test_other_calls_of_a_proxy_are_not_looked_at():
    assert format_of("aembedding") is None
    assert format_at("/v1/embeddings") is None
    assert format_at("/v1/threads/t/messages") is None
    assert format_at("/v1/responses/r") is None


def test_odd_spellings_of_a_path_are_that_path():
    for path in ("/chat/completions", "/v1/chat//completions", "/V1/Chat/Completions/"):
        assert format_at(path) is CHAT
    assert format_at("/anthropic/v1/x/../messages") is MESSAGES
