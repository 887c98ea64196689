"""One proxy for all tests: it takes a minute to start."""

import pytest
from tests.gateway.place import Place, prepare
from tests.gateway.provider import Provider

from .proxy import MODELS, config_for, started

CALLBACK = "checkrail.adapters.litellm.callback"


@pytest.fixture(scope="session")
def proxy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proxy")
    hooks = prepare(folder)
    with Provider() as provider:
        config = config_for(provider, callbacks=[CALLBACK])
        with started(folder, config, CHECKRAIL_HOOKS=str(hooks)) as running:
            assert running.wait(), running.told()[-3000:]
            running.place = Place(running.url, running.key, provider, folder, MODELS)
            yield running


@pytest.fixture
def place(proxy):
    proxy.place.provider.anew()
    return proxy.place
