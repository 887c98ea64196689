"""The official SDKs through the real gateway: they notice nothing, whatever hooks there are."""

import pytest

from .command import HOOKS, gateway_process, here
from .dialects import DIALECTS
from .provider import Provider, Say
from .sdks import ALL_SDKS, WAYS

CALL = ("forecast", {"city": "Zürich", "days": 3})


@pytest.fixture(scope="module")
def provider():
    with Provider() as made:
        yield made


@pytest.fixture(scope="module", params=HOOKS)
def gateway(request, provider, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateway")
    with gateway_process(folder, HOOKS[request.param], {"here": here(provider)}) as running:
        yield running


@pytest.fixture(params=ALL_SDKS)
def sdk(request):
    return ALL_SDKS[request.param]


@pytest.fixture(params=["sync", "async"])
async def client(request, sdk, gateway):
    made = sdk.client(gateway.url, sync=request.param == "sync")
    yield made
    await sdk.close(made)


@pytest.mark.parametrize("way", WAYS)
async def test_a_conversation_with_a_tool(way, sdk, client, provider):
    provider.say(Say("Let me look.", [CALL]), Say("Sunny: 21 °C ☀"))
    ask = getattr(sdk, way)
    asked = sdk.question("What will the weather be?")
    told = await ask(client, asked)
    assert (told.text, told.stop) == ("Let me look.", sdk.calling)
    assert told.calls == [(sdk.first_id, *CALL)]
    assert told.usage == (11, 7)
    dialect = DIALECTS[sdk.name]
    assert provider.last.json["tools"] == sdk.sent_tools(asked)
    assert dialect.said(provider.last.json) == ["Be short.", "What will the weather be?"]
    told = await ask(client, sdk.with_results(asked, told, '{"celsius": 21}'))
    assert (told.text, told.calls) == ("Sunny: 21 °C ☀", [])
    assert told.stop == sdk.plain
    assert dialect.result(provider.last.json) == '{"celsius": 21}'
    assert "sk-caller" in str(provider.last.headers)


async def test_a_stream_that_comes_byte_by_byte(sdk, client, provider):
    provider.say(Say("Größe 😀", [CALL], cut=1))
    told = await sdk.streamed(client, sdk.question("How large?"))
    assert (told.text, told.calls) == ("Größe 😀", [(sdk.first_id, *CALL)])
