"""Which proxy stands between this machine and a URL."""

import pytest

from checkrail.actions.addresses import find_proxy

PROXY = "http://proxy.example:3128"


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    for name in ("http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("https_proxy", PROXY)


@pytest.mark.parametrize("url", ["https://slack.com/api/", "wss://wss-primary.slack.com/link/"])
def test_a_proxy_is_found_for_requests_and_sockets(url):
    assert find_proxy(url) == PROXY


@pytest.mark.parametrize(
    "url", ["http://slack.com", "ws://slack.com", "https://127.0.0.1:1", "wss://localhost", ""]
)
def test_other_schemes_and_this_machine_have_none(url):
    assert find_proxy(url) is None


def test_exceptions_are_heeded(monkeypatch):
    monkeypatch.setenv("no_proxy", "slack.com")
    assert find_proxy("https://slack.com/api/") is None
    assert find_proxy("wss://wss-primary.slack.com/") is None
    assert find_proxy("https://other.example/") == PROXY
