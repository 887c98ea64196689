"""The gateway, held to what callers may rely on wherever hooks hold."""

import pytest

from checkrail.config.hook_files import find_gateway_files
from checkrail.gateway.startup import OpenGateway

from .behaviours import Behaviours
from .dialects import EVERY
from .place import Place, prepare
from .provider import Provider, Say
from .serving import serving, upstreams_at

MODELS = dict.fromkeys(EVERY, "test-model") | {f"{name}-2": "other" for name in EVERY}


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """A gateway whose file of hooks is written anew for each test."""
    folder = tmp_path_factory.mktemp("place")
    hooks = prepare(folder)
    with Provider() as provider:
        gateway = OpenGateway(find_gateway_files(hooks=hooks))
        gateway.use_upstreams(upstreams_at(provider))
        with serving(gateway.build_app()) as url:
            yield Place(url, "sk-1234567890", provider, folder, MODELS)


@pytest.fixture
def place(running):
    running.provider.anew()
    return running


class TestTheGateway(Behaviours):
    async def test_a_hook_can_have_the_model_asked_again(self, place):
        again = {"when": 'message.content == "Bad"', "retry": "Better, please"}
        await place.rules(after_llm_call=[again])
        for name in EVERY:
            for stream in (False, True):
                place.provider.say(Say("Bad"), Say("Good"))
                assert (await place.ask(name, stream=stream)).heard.text == "Good"
