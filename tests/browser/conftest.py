"""A server with the project that is looked at, and a real Chromium that looks."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from ..processes import environment  # noqa: F401, TID252 - tests are no package
from ..server.harness import Served, on_sqlite  # noqa: TID252

PROJECT = Path(__file__).parent / "project" / "checkrail.yaml"
NAMES = ("chromium", "chromium-browser", "google-chrome")
PATIENCE = 20_000  # ms

expect.set_options(timeout=PATIENCE)


class Looked:
    """A server, and requests to it by its API."""

    def __init__(self, served: Served, data: Path) -> None:
        self.served = served
        self.url = served.url
        self.data = data
        self.http = httpx.Client(base_url=served.url, timeout=30)

    def run(self, agent: str, parameters: Any, **more: Any) -> dict[str, Any]:
        body = {"agent_name": agent, "parameters": parameters, "execution_mode": "sync", **more}
        answer = self.http.post("/runs", json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def say(self, agent: str, text: str) -> dict[str, Any]:
        return self.run(agent, {"messages": [{"role": "user", "content": text}]})

    def begin(self, agent: str, parameters: Any) -> str:
        return self.run(agent, parameters, execution_mode="async_poll")["run_id"]

    def open_gate(self, name: str) -> None:
        (self.data / f"go-{name}").touch()


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Iterator[Looked]:
    data = tmp_path_factory.mktemp("data")
    log = tmp_path_factory.mktemp("log") / "server.log"
    log.touch()
    served = Served(on_sqlite(data), log, config=PROJECT, command="dev").start()
    looked = Looked(served, data)
    yield looked
    looked.http.close()
    served.stop()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    found = next(filter(None, map(shutil.which, NAMES)), None)
    flags = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=found, args=flags)
        yield started
        started.close()


def watch(page: Page, found: list[str]) -> None:
    """Note what must not happen on any page: errors of scripts, and what the CSP forbids."""
    page.on("pageerror", lambda error: found.append(f"{page.url}: {error}"))

    def note(message: Any) -> None:
        if message.type == "error" and "Failed to load resource" not in message.text:
            found.append(f"{page.url}: {message.text}")

    page.on("console", note)
    page.on("dialog", lambda dialog: found.append(f"{page.url}: a dialog, {dialog.message}"))


def press_when_ready(page: Page) -> None:
    """Have keys wait for the page's scripts: whoever comes by a link may be there before them."""
    press = page.keyboard.press

    def press_key(key: str, **more: Any) -> None:
        page.locator("html[data-ready]").wait_for(state="attached")
        press(key, **more)

    page.keyboard.press = press_key  # type: ignore[method-assign]


@pytest.fixture
def new_context(browser, site) -> Iterator[Callable[..., BrowserContext]]:
    """Make browsers of one's own; none of their pages may have had an error."""
    made: list[BrowserContext] = []
    errors: list[str] = []

    def make(**options: Any) -> BrowserContext:
        context = browser.new_context(base_url=site.url, **options)
        context.set_default_timeout(PATIENCE)
        context.on("page", lambda page: watch(page, errors))
        context.on("page", press_when_ready)
        made.append(context)
        return context

    yield make
    for context in made:
        context.close()
    assert not errors


@pytest.fixture
def page(new_context) -> Page:
    return new_context(viewport={"width": 1280, "height": 900}).new_page()
