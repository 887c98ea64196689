"""Where the dashboard stands: in front of the API, unless it is turned off."""

from types import SimpleNamespace

import pytest

from checkrail.config.server import HttpConfig
from checkrail.dashboard.startup import add_dashboard


async def api(scope, receive, send):
    raise LookupError(scope["path"])


def front(**http):
    return add_dashboard(api, SimpleNamespace(config=SimpleNamespace(http=HttpConfig(**http))))


def test_it_can_be_turned_off():
    assert front(disabled=frozenset({"dashboard"})) is api


@pytest.mark.parametrize(
    ("kind", "path"),
    [("http", "/runs"), ("http", "/uix"), ("http", "/ok"), ("websocket", "/ui/"), ("http", "")],
)
async def test_the_rest_is_left_to_the_api(kind, path):
    with pytest.raises(LookupError):
        await front()({"type": kind, "path": path}, None, None)


async def test_the_root_stays_with_the_projects_own_app():
    with pytest.raises(LookupError):
        await front(app="./own.py:app")({"type": "http", "path": "/"}, None, None)
