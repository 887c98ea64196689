"""The processes that are measured: the gateway and LiteLLM's proxy, in front of one upstream."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from environments import ENVS, python_with
from gateway_clients import KEY
from processes import BENCH, environment
from server_processes import Served, free_port, until_open

PROJECT = BENCH / "gateway_project"
LITELLM = "litellm[proxy]>=1.106"
CALLBACK = "checkrail.adapters.litellm.callback"
COMPILED = {"PYTHONDONTWRITEBYTECODE": ""}
"""LiteLLM tries an import with every request: without this, it is compiled again each time."""
_PATIENCE = 240.0  # seconds; LiteLLM's proxy takes a minute on a busy machine


@contextmanager
def upstream() -> Iterator[Served]:
    """Run the model that everybody is in front of."""
    command = [sys.executable, "-m", "gateway_upstream"]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Served(int(process.stdout.readline()), process.pid)
        finally:
            process.terminate()


@contextmanager
def gateway(folder: Path, hooks: str, model: Served) -> Iterator[Served]:
    """Run `checkrail gateway` with a file of hooks."""
    project = folder / Path(hooks).stem
    shutil.copytree(PROJECT, project)
    where = {"url": f"http://127.0.0.1:{model.port}", "format": "chat"}
    section = json.dumps({"upstreams": {"here": where}})
    text = (PROJECT / hooks).read_text()
    (project / "hooks.yaml").write_text(f"{text}\ngateway: {section}\n")
    command = [sys.executable, "-m", "checkrail", "gateway"]
    with _running(command, project, {}) as served:
        yield served


@contextmanager
def litellm(folder: Path, model: Served, *, callback: bool) -> Iterator[Served]:
    """Run LiteLLM's proxy: one process, set up as for production, without a database."""
    python = litellm_python()
    project = folder / ("litellm_callback" if callback else "litellm")
    shutil.copytree(PROJECT, project)
    params = {
        "model": "openai/model-1",
        "api_base": f"http://127.0.0.1:{model.port}/v1",
        "api_key": KEY,
    }
    settings = {"telemetry": False} | ({"callbacks": [CALLBACK]} if callback else {})
    models = [{"model_name": "model-1", "litellm_params": params}]
    config = {"model_list": models, "litellm_settings": settings}
    (project / "config.yaml").write_text(json.dumps(config))  # JSON is YAML
    command = [str(python.with_name("litellm")), "--config", "config.yaml", "--host", "127.0.0.1"]
    known = {
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        "LITELLM_LOG": "ERROR",
        "LITELLM_MODE": "PRODUCTION",
        "LITELLM_MASTER_KEY": KEY,  # without one it does not start
        "CHECKRAIL_HOOKS": "ten.yaml",
    }
    with _running(command, project, known) as served:
        yield served


def litellm_python() -> Path:
    """The Python of an environment that has LiteLLM's proxy, and this Checkrail."""
    return python_with(LITELLM, "-e", f"{BENCH.parent}[config]", env=ENVS / "litellm_proxy")


@contextmanager
def _running(command: list[str], folder: Path, more: Mapping[str, str]) -> Iterator[Served]:
    port = free_port()
    said = folder / "process.log"
    with said.open("w") as log:
        process = subprocess.Popen(
            [*command, "--port", str(port)],
            cwd=folder,
            env=os.environ | COMPILED | more,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        until_open(process, port, said, _PATIENCE)
        yield Served(port, process.pid)
    finally:
        process.terminate()
        process.wait(60)
