"""The clients: how each is started, with what environment, and the tool that runs commands."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
AGENTS = Path(__file__).parent / "agents"
PACKAGES = ROOT / ".envs/coding_agents/node_modules"
PROGRAM_OF_AIDER = ROOT / ".envs/aider/bin/aider"

LONGEST = 240
"""Seconds after which a client is taken to hang."""

COLOURS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_PERMISSION": json.dumps({"*": "allow"}),
    "AIDER_ANALYTICS": "false",
    "AIDER_CHECK_UPDATE": "false",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
}
"""What keeps them from calling home, and from asking for permission."""


@dataclass(frozen=True)
class Client:
    """A client, and the words that start it with a prompt, which it may also `read`.

    Its tool takes a command as `argument`, and `more` with each.
    """

    name: str
    words: Callable[[str, str], list[str]]
    tool: str | None = "shell"
    argument: str = "command"
    model: str = "model-1"
    reads: bool = False
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Ended:
    """What came of a client: its exit code, and what its user sees."""

    code: int
    shown: str


def _claude(_url: str, prompt: str) -> list[str]:
    command = [str(PACKAGES / ".bin/claude"), "-p", prompt, "--allowedTools", "Bash"]
    return [*command, "--model", "claude-sonnet-4-5"]


def _codex(url: str, prompt: str) -> list[str]:
    command = [str(PACKAGES / ".bin/codex"), "exec", "-c", f'openai_base_url="{url}/v1"']
    free = ["--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"]
    return [*command, *free, "--model", "gpt-5", prompt]


def _opencode(_url: str, prompt: str) -> list[str]:
    return [str(PACKAGES / ".bin/opencode"), "run", "-m", "anthropic/claude-sonnet-4-5", prompt]


def _aider(_url: str, _prompt: str) -> list[str]:
    plain = ["--no-git", "--no-pretty", "--no-show-model-warnings", "--no-check-update"]
    free = ["--yes-always", "--edit-format", "diff", "--no-suggest-shell-commands"]
    lines = ["--load", "/dev/stdin", "--exit"]
    return [str(PROGRAM_OF_AIDER), "--model", "openai/gpt-4.1", *plain, *free, *lines]


def _script(file: str, api: str) -> Callable[[str, str], list[str]]:
    runs = [sys.executable] if file.endswith(".py") else ["node"]
    return lambda _url, prompt: [*runs, file, api, prompt]


CLAUDE = Client("Claude Code", _claude, "Bash", model="claude-sonnet-4-5")
CODEX = Client(
    "Codex",
    _codex,
    "exec_command",
    "cmd",
    "gpt-5",
    more={"yield_time_ms": 30_000},  # the most that it waits for a command
)
OPENCODE = Client("opencode", _opencode, "bash", model="claude-sonnet-4-5")
APIS = ("chat", "messages", "responses")
SDKS = [
    Client(f"{name}, {api}", _script(file, api))
    for name, file in (
        ("Python", "sdk_agent.py"),
        ("JavaScript", "sdk_agent.mjs"),
        ("Vercel", "ai_agent.mjs"),
    )
    for api in APIS
]
CLIENTS = [CLAUDE, CODEX, OPENCODE, *SDKS]
AIDER = Client("aider", _aider, None, model="gpt-4.1", reads=True)


class Workplace:
    """A home and a folder of a client's own, in front of a gateway."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.work = folder / "work"
        self.home.mkdir()
        self.work.mkdir()
        self._programs = folder / "programs"
        shutil.copytree(AGENTS, self._programs)
        (self._programs / "node_modules").symlink_to(PACKAGES)
        prices = self.home / ".aider/caches/model_prices_and_context_window.json"
        prices.parent.mkdir(parents=True)
        prices.write_text("{}")  # fetched otherwise

    def run(self, client: Client, url: str, prompt: str) -> Ended:
        """Run a client to its end."""
        with self.running(client, url, prompt) as process:
            shown, _ = process.communicate(timeout=LONGEST)
        return Ended(process.returncode, COLOURS.sub("", shown))

    @contextlib.contextmanager
    def running(self, client: Client, url: str, prompt: str) -> Iterator[subprocess.Popen[str]]:
        """Start a client, and leave nothing of it at the end."""
        words = client.words(url, prompt)
        words = [
            str(self._programs / word) if word.endswith((".py", ".mjs")) else word for word in words
        ]
        lines = self.home / "lines"
        lines.write_text(prompt if client.reads else "")
        with lines.open() as given:
            process = subprocess.Popen(
                words,
                cwd=self.work,
                env=self._build_environment(url),
                stdin=given,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()

    def _build_environment(self, url: str) -> Mapping[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "CI": "1",
            "ANTHROPIC_BASE_URL": url,
            "OPENAI_BASE_URL": f"{url}/v1",
            "OPENAI_API_BASE": f"{url}/v1",
            "ANTHROPIC_API_KEY": "sk-caller",
            "OPENAI_API_KEY": "sk-caller",
            "CODEX_API_KEY": "sk-caller",
            "NO_PROXY": "127.0.0.1",
            **QUIET,
        }
