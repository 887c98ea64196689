"""An upstream that fails is called again by the caller or by the gateway, and never by both."""

import json

import aiohttp
import pytest
from google import genai

from .command import gateway_process, here
from .dialects import DIALECTS
from .place import PATHS
from .provider import Fail, Provider, Say
from .sdks import SDKS, WAYS, settled

BUSY = Fail(503, "Come back", headers={"retry-after-ms": "1"})
HOOKS = {"nothing": "hooks: {}\n", "rules": "hooks: {before_tool_call: [{block: Never}]}\n"}
RETRIES = 2


@pytest.fixture(scope="module")
def provider():
    with Provider() as made:
        yield made


@pytest.fixture(autouse=True)
def anew(provider):
    provider.anew()
    yield
    provider.always(Say("Hello"))


@pytest.fixture(scope="module", params=HOOKS)
def gateway(request, provider, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateway")
    upstreams = {"here": here(provider, retries=RETRIES)}
    with gateway_process(folder, HOOKS[request.param], upstreams) as running:
        yield running


@pytest.fixture(params=SDKS)
def sdk(request):
    return SDKS[request.param]


@pytest.fixture
async def ask(sdk, gateway):
    """Call by an SDK as it is when nothing is said, or with another number of retries."""
    clients = []

    async def asked(way, **more):
        clients.append(sdk.client(gateway.url, sync=False, **{"max_retries": 2, **more}))
        return await getattr(sdk, way)(clients[-1], sdk.question("Go on."))

    yield asked
    for client in clients:
        await settled(client.close())


@pytest.mark.parametrize("way", WAYS)
async def test_an_sdk_does_not_notice_one_failure(way, ask, provider):
    provider.say(BUSY, Say("Here I am"))
    assert (await ask(way)).text == "Here I am"
    assert len(provider.requests) == 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("retries", [0, 2, 4])
async def test_an_sdk_calls_as_often_as_it_was_told(way, retries, sdk, ask, provider):
    provider.always(BUSY)
    with pytest.raises(sdk.package.InternalServerError) as caught:
        await ask(way, max_retries=retries)
    assert "Come back" in str(caught.value)
    assert len(provider.requests) == retries + 1


async def send(gateway, dialect, **headers):
    """Call without an SDK."""
    path, asked = dialect.sent(PATHS[dialect.name], dialect.request("Go on."))
    body, url = json.dumps(asked), gateway.url + path
    headers = {"content-type": "application/json", **headers}
    async with (
        aiohttp.ClientSession() as session,
        session.post(url, data=body, headers=headers) as response,
    ):
        return response.status


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
async def test_for_others_the_gateway_calls_again(dialect, gateway, provider):
    provider.say(BUSY, Say("Here I am"))
    assert await send(gateway, dialect) == 200
    provider.always(BUSY)
    provider.requests.clear()
    assert await send(gateway, dialect) == 503
    assert len(provider.requests) == RETRIES + 1


@pytest.mark.parametrize(
    "agent",
    [
        "codex_exec/0.169.0 (Debian 12.0.0; x86_64) dumb (codex_exec; 0.169.0)",
        "codex_cli_rs/0.169.0 (Debian 12.0.0; x86_64)",
        "opencode/1.18.33 ai-sdk/provider-utils/4.0.46 runtime/bun/1.3.14",
        "GeminiCLI/0.61.0/gemini-3-pro (linux; x64; terminal)",
        "google-genai-sdk/1.52.0 gl-node/v20.20.2",
        "ai/6.0.326 ai-sdk/openai/3.0.141 ai-sdk/provider-utils/4.0.40 runtime/node.js/20",
    ],
)
async def test_agents_that_call_again_are_known_by_their_name(agent, gateway, provider):
    provider.always(BUSY)
    assert await send(gateway, DIALECTS["chat"], **{"user-agent": agent}) == 503
    assert len(provider.requests) == 1


@pytest.mark.parametrize("attempts", [None, 3])
async def test_googles_sdk_calls_as_often_as_it_was_told(attempts, gateway, provider):
    provider.always(BUSY)
    again = attempts and genai.types.HttpRetryOptions(attempts=attempts, initial_delay=0.01)
    options = genai.types.HttpOptions(base_url=gateway.url, retry_options=again or None)
    with (
        genai.Client(api_key="AIza-caller", http_options=options) as client,
        pytest.raises(genai.errors.ServerError, match="Come back"),
    ):
        client.models.generate_content(model="m", contents="Go on.")
    assert len(provider.requests) == (attempts or 1)


async def test_a_fallback_is_asked_at_once(sdk, tmp_path, provider):
    with Provider(models=("spare",)) as spare:
        upstreams = {
            "here": here(provider, retries=RETRIES),
            "spare": here(spare, retries=RETRIES, key="sk-spare"),
        }
        provider.always(BUSY)
        spare.always(Say("From the spare one"))
        with gateway_process(tmp_path, HOOKS["nothing"], upstreams) as gateway:
            client = sdk.client(gateway.url, sync=True, max_retries=2)
            told = await sdk.create(client, sdk.question("Go on."))
            client.close()
    assert told.text == "From the spare one"
    assert (len(provider.requests), len(spare.requests)) == (1, 1)


async def test_one_that_cannot_be_reached_is_left_to_the_sdk(sdk, tmp_path):
    upstreams = {"gone": {"url": "http://127.0.0.1:9", "format": [*DIALECTS], "retries": RETRIES}}
    own = """
hooks:
  before_llm_call: [{name: asked, builtin: log_request, config: {verbose: true}}]
"""
    with gateway_process(tmp_path, own, upstreams) as gateway:
        client = sdk.client(gateway.url, sync=True, max_retries=2)
        with pytest.raises(sdk.package.InternalServerError, match="cannot be reached"):
            await sdk.create(client, sdk.question("Go on."))
        client.close()
        assert gateway.log.count("cannot be reached") == 3
