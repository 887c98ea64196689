"""What a refusal is to the official SDKs: one call, and an error that says why."""

import contextlib

import pytest

from .command import gateway_process, here
from .provider import Provider, Say
from .sdks import SDKS, settled

OWN = """
from pathlib import Path

CALLS = Path(__file__).parent / "calls" / "calls"


def count(event, value):
    with CALLS.open("a") as file:
        file.write("x")
"""
HOOKS = """
hooks:
  before_llm_call:
    - {path: "./own.py:count", lane: transform}
    - {when: 'request.model == "model-closed"', block: We are closed}
    - {when: 'request.model == "model-busy"', block: {reason}, status: 409}
    - {when: 'request.model == "model-often"', block: {reason}, status: 429}
    - {when: 'request.model == "model-early"', block: {reason}, status: 429, retry_after: 3600}
    - {when: 'request.model == "model-down"', block: {reason}, status: 503, retry_after: 90}
    - {when: 'request.model == "model-broken"', fail: We are closed}
    - {when: 'request.model == "model-soon"', block: {reason}, status: 429, retry_after: 1}
    - name: spent
      models: [model-spent]
      builtin: budget
      config: {tokens: 1, per: total, by: []}
    - name: rare
      models: [model-rare]
      builtin: rate_limit
      config: {limit: 1, per: 1d, by: []}
""".replace("{reason}", "We are closed")


@pytest.fixture(scope="module")
def provider():
    with Provider() as made:
        yield made


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("gateway")
    (made / "own.py").write_text(OWN)
    (made / "calls").mkdir()  # apart, for the folder of the hooks is watched
    return made


@pytest.fixture(scope="module")
def gateway(folder, provider):
    with gateway_process(folder, HOOKS, {"here": here(provider)}) as running:
        yield running


@pytest.fixture
def calls(folder):
    """Counts the calls that come since the test began."""
    file = folder / "calls" / "calls"
    file.write_text("")
    return lambda: len(file.read_text())


@pytest.fixture(params=SDKS)
def sdk(request):
    return SDKS[request.param]


@pytest.fixture(params=["sync", "async"])
async def client(request, sdk, gateway):
    made = sdk.client(gateway.url, sync=request.param == "sync", max_retries=2)
    yield made
    await settled(made.close())


@pytest.fixture(params=["create", "streamed", "helper"])
def ask(request, sdk, client):
    async def asked(model):
        question = {**sdk.question("Go on."), "model": model}
        return await getattr(sdk, request.param)(client, question)

    return asked


async def refused(sdk, ask, model):
    """Return the error of a call that is refused."""
    with pytest.raises(sdk.package.APIStatusError) as caught:
        await ask(model)
    return caught.value


async def test_a_block_that_names_no_status_is_a_bad_request(sdk, ask, calls):
    error = await refused(sdk, ask, "model-closed")
    assert isinstance(error, sdk.package.BadRequestError)
    assert "We are closed" in str(error)
    assert calls() == 1


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("model-busy", (409, None)),
        ("model-often", (429, None)),
        ("model-early", (429, "3600")),
        ("model-down", (503, "90")),
        ("model-broken", (500, None)),
    ],
)
async def test_a_refusal_that_waiting_does_not_change_is_one_call(model, told, sdk, ask, calls):
    error = await refused(sdk, ask, model)
    assert (error.status_code, error.response.headers.get("retry-after")) == told
    assert "We are closed" in str(error)
    assert calls() == 1


@pytest.mark.parametrize("model", ["model-spent", "model-rare"])
async def test_a_limit_that_lasts_is_one_call(model, sdk, ask, calls, provider):
    provider.always(Say("Hello"))
    for _ in range(3):  # what streams used is counted behind the caller's back
        with contextlib.suppress(sdk.package.BadRequestError):
            await ask(model)
    before = calls()
    error = await refused(sdk, ask, model)
    assert isinstance(error, sdk.package.BadRequestError)
    assert (error.response.headers.get("retry-after") is None) is (model == "model-spent")
    assert error.response.headers["x-should-retry"] == "false"
    assert calls() - before == 1


async def test_a_limit_that_ends_soon_is_waited_for(sdk, ask, calls):
    error = await refused(sdk, ask, "model-soon")
    assert error.response.headers["retry-after"] == "1"
    assert "x-should-retry" not in error.response.headers
    assert calls() == 3
