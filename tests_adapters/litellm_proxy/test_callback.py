"""The callback by itself: which LiteLLM it takes, and what it lets pass that no hook sees."""

import json
from types import SimpleNamespace

import pytest
from fastapi import HTTPException
from litellm import exceptions
from litellm.integrations.custom_logger import CustomLogger

from checkrail.adapters.litellm.callback import UnknownLiteLLMError, callback_of, check_litellm
from checkrail.config.hook_files import find_gateway_files
from checkrail.gateway.startup import OpenGateway

RULE = {"name": "closed", "block": "We are closed", "when": "request.model == 'closed'"}


@pytest.fixture
def made(tmp_path):
    def make(hooks=(RULE,), **settings):
        file = tmp_path / "hooks.yaml"
        told = {"hooks": {"before_llm_call": list(hooks)}, "gateway": settings}
        file.write_text(json.dumps(told))
        return callback_of(OpenGateway(find_gateway_files(hooks=str(file))))

    return make


async def before(callback, call_type, route="", **data):
    key = SimpleNamespace(request_route=route)
    return await callback.async_pre_call_hook(key, None, data, call_type)


@pytest.mark.parametrize(
    "call_type", ["atext_completion", "aembedding", "acreate_batch", "agenerate_content"]
)
async def test_what_no_hook_sees_passes_unless_the_file_forbids(made, call_type):
    assert await before(made(), call_type, model="m") is None
    with pytest.raises(HTTPException, match="no hook sees this") as refused:
        await before(made(pass_through=False), call_type, model="m")
    assert refused.value.status_code == 403


async def test_pass_through_of_other_things_than_calls_of_models(made):
    through = "pass_through_endpoint"
    assert await before(made(), through, "/openai/v1/threads/t/messages", messages=[]) is None
    assert await before(made(), through, "/anthropic/v1/messages") is None  # a list of them
    with pytest.raises(HTTPException):
        await before(made(pass_through=False), through, "/openai/v1/files")
    relayed = {"endpoint": "v1/embeddings"}, "allm_passthrough_route"
    assert await made().async_pre_call_deployment_hook(*relayed) is None
    with pytest.raises(HTTPException):
        await made(pass_through=False).async_pre_call_deployment_hook(*relayed)


async def test_what_is_seen_passes_whatever_the_file_forbids(made):
    said = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
    assert await before(made(pass_through=False), "acompletion", **said) == said


async def test_without_hooks_no_way_is_shut(made):
    callback = made(hooks=())
    assert await before(callback, "_aresponses_websocket", model="m") is None
    queued = {"proxy_server_request": {"url": "http://here/queue/chat/completions"}}
    assert await callback.async_pre_call_deployment_hook(queued, None) is None


def test_a_litellm_that_is_too_old_is_refused():
    with pytest.raises(
        UnknownLiteLLMError, match=r"would not hold in LiteLLM 1\.80\.3: it is too old"
    ):
        check_litellm("1.80.3", CustomLogger, exceptions)


def test_a_litellm_that_asks_otherwise_is_refused():
    with pytest.raises(UnknownLiteLLMError, match="lacks async_pre_call_hook"):
        check_litellm("1.106.2", object, exceptions)
    with pytest.raises(UnknownLiteLLMError, match="lacks ModifyResponseException"):
        check_litellm("1.106.2", CustomLogger, object())


def test_a_newer_litellm_is_taken_with_a_warning(caplog):
    check_litellm("1.106.9", CustomLogger, exceptions)
    assert caplog.messages == []
    check_litellm("2.0.0", CustomLogger, exceptions)
    assert "LiteLLM 2.0.0 is newer than" in caplog.text


WRONG = '''
from checkrail import Block, Reject

STATUSES = [200, 99, 600, 402.5, "402"]


class Careless(Block):
    """A decision that forgets to check itself."""

    def __post_init__(self):
        """Check nothing."""


def refuse(event):
    way, _, number = event.value.model.partition("-")
    status = STATUSES[int(number)] if number else 402
    if way == "made":
        return Block("no", status)
    if way == "careless":
        return Careless("no", status)
    if way == "words":
        return Careless({"why": "no"}, status)
    error = Reject("no", 402)
    if way == "later":
        error.status = status
    if way == "later_words":
        error.reason = {"why": "no"}
    raise error
'''

WAYS = [f"{way}-{number}" for way in ("made", "careless", "later") for number in range(5)]


@pytest.mark.parametrize("model", [*WAYS, "words", "later_words"])
@pytest.mark.parametrize("call_type", ["acompletion", "anthropic_messages", "aresponses"])
async def test_a_refusal_that_http_could_not_say_is_an_error_of_the_hook(
    made, tmp_path, call_type, model
):
    (tmp_path / "wrong.py").write_text(WRONG)
    callback = made([{"path": "./wrong.py:refuse", "name": "careless"}])
    said = {"messages": [{"role": "user", "content": "Hi"}], "input": "Hi", "max_tokens": 5}
    with pytest.raises(Exception, match="hook 'careless' at before_llm_call broke") as refused:
        await before(callback, call_type, model=model, **said)
    told = vars(refused.value)
    assert str(told.get("status_code") or told["code"]) == "500"
    error = told.get("detail", told)
    assert isinstance(error.get("error", error)["message"], str)
