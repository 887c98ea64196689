"""Clients in JavaScript see on our server what they see on LangGraph's own."""

import json
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from .compare import find_differences, normalise

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "tests_adapters/javascript/stories"
PACKAGES = ROOT / ".envs/javascript/node_modules"
FILES = ("sdk.mjs", "use_stream.mjs", "react.mjs", "ag_ui.mjs")
STORIES = [
    (file, story)
    for file in FILES
    for story in re.findall(
        r"^export async function (\w+)", (FOLDER / file).read_text(), re.MULTILINE
    )
]


@pytest.fixture(scope="session")
def results(servers, tmp_path_factory):
    """What the stories saw, by file and server; four files at a time, for they mostly wait."""
    folder = tmp_path_factory.mktemp("javascript")
    shutil.copytree(FOLDER, folder, dirs_exist_ok=True)
    (folder / "node_modules").symlink_to(PACKAGES)

    def run_file(file, name):
        command = ["node", "run.mjs", file, servers[name]]
        ended = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=150)
        assert ended.returncode == 0, ended.stderr.decode()[-3000:]
        return json.loads(ended.stdout)

    pairs = [(file, name) for file in FILES for name in servers]
    with ThreadPoolExecutor(4) as pool:
        return dict(zip(pairs, pool.map(run_file, *zip(*pairs, strict=True)), strict=True))


@pytest.mark.parametrize(("file", "story"), STORIES, ids=lambda part: part.removesuffix(".mjs"))
def test_a_client_cannot_tell_the_servers_apart(results, file, story):
    ours, theirs = (normalise(results[file, name][story]) for name in ("ours", "theirs"))
    assert "failed" not in theirs, theirs["failed"]
    assert "failed" not in ours, ours["failed"]
    differences = "\n".join(find_differences(ours, theirs))
    assert not differences, differences
