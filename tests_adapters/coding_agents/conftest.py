import contextlib
import json
import os
import time

import pytest
from tests.gateway.command import gateway_process, here
from tests.gateway.provider import Provider

from .clients import LONGEST, Workplace
from .model import Script

SECRET = "AKIAIOSFODNN7EXAMPLE"

RULES = """
hooks:
  before_llm_call:
    - name: closed
      models: [MODEL]
      when: request.text.contains("Open the door")
      block: We are closed
    - name: spent
      models: [MODEL]
      builtin: budget
      config: {tokens: TOKENS, per: total, by: [key]}
    - name: no_secrets
      redact: secrets
  before_tool_call:
    - name: no_force
      when: tool_call.text.contains("push --force")
      block: Nobody pushes with force here
"""

COUNTED = """  after_llm_call:
    - {name: counted, lane: gate, when: "false", block: Never}
"""
"""What has an answer wait until budgets have counted it."""


class House:
    """A model with a script, a gateway with rules in front of it, and a place for a client."""

    def __init__(self, folder, provider, client):
        self.place = Workplace(folder)
        self.client = client
        self.provider = provider
        self.folder = folder / "gateway"
        self.folder.mkdir()
        self.records = self.folder / "records.jsonl"
        self.port = None

    @contextlib.contextmanager
    def gateway(self, *, more="", tokens=1_000_000, **settings):
        """Run the gateway; the next time it is at the same address."""
        rules = RULES.replace("MODEL", self.client.model).replace("TOKENS", str(tokens)) + more
        arguments = ("--records", str(self.records))
        upstreams = {"here": here(self.provider)}
        with gateway_process(
            self.folder, rules, upstreams, *arguments, port=self.port, **settings
        ) as running:
            self.port = running.port
            yield running

    def script(self, *turns):
        """Give the model a script."""
        made = Script(self.client.tool, self.client.argument, turns, self.client.more)
        self.provider.decide(made.answer)
        return made

    def run(self, gateway, prompt="Do the work"):
        """Run the client to its end."""
        return self.place.run(self.client, gateway.url, prompt)

    def run_over_a_restart(self, prompt):
        """Return what a client shows that reads from `wait` while the gateway restarts."""
        wait = self.place.work / "wait"
        os.mkfifo(wait)
        with self.gateway() as gateway, self.place.running(self.client, gateway.url, prompt) as run:
            file = open_for_reader(wait, run)
            gateway.process.terminate()
            gateway.process.wait()
            with self.gateway():
                os.write(file, b"it is back\n")
                os.close(file)
                shown, _ = run.communicate(timeout=LONGEST)
        assert run.returncode == 0, shown
        return shown

    def blocks(self, hook):
        """Return how often a hook has blocked."""
        lines = self.records.read_text().splitlines() if self.records.exists() else ()
        records = [json.loads(line) for line in lines]
        return sum(each["hook"] == hook and each.get("decision") == "block" for each in records)

    @property
    def made(self):
        """The files that the client has made."""
        return {file.name for file in self.place.work.iterdir()}


def open_for_reader(pipe, process):
    """Open a pipe for writing as soon as somebody reads from it."""
    while process.poll() is None:
        try:
            file = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.05)
        else:
            os.set_blocking(file, True)
            return file
    raise AssertionError(process.communicate()[0])


@pytest.fixture
def build_house(tmp_path):
    """Gives a house for a client."""
    with Provider() as provider:
        yield lambda client: House(tmp_path, provider, client)
