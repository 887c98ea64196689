"""Runs one agent twice: alone with its model, and with a gateway between them. Offline."""

import os
import subprocess
import sys
from pathlib import Path

from model import running

HERE = Path(__file__).parent
AGENT = [sys.executable, str(HERE / "agent.py")]
WITH = ["with", "--hooks", str(HERE / "hooks.yaml"), "--"]


def run(*words: str, model: str) -> None:
    """Run a command that finds its model where it always does, and show all that it says."""
    there = {**os.environ, "OPENAI_BASE_URL": model, "OPENAI_API_KEY": "sk-none"}
    sys.stdout.flush()
    subprocess.run(words, env=there, stderr=subprocess.STDOUT, check=True)


def main() -> None:
    with running() as model:
        print("python agent.py")
        run(*AGENT, model=model)
        print("\ncheckrail with -- python agent.py")
        run(sys.executable, "-m", "checkrail", *WITH, *AGENT, model=model)


if __name__ == "__main__":
    main()
