"""A runner's process: opened with its project, and stopped by a signal."""

from __future__ import annotations

import asyncio
import signal

from checkrail.runner.api import Api
from checkrail.runner.projects import RunnerProject
from checkrail.runner.runner import Runner, RunnerSettings


async def serve(
    project: RunnerProject, server: str, key: str | None, settings: RunnerSettings
) -> None:
    """Run until SIGTERM or SIGINT."""
    api = Api(server, key)
    try:
        async with project.opened():
            runner = Runner(project, api, settings)
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, runner.stop)
            await runner.serve()
    finally:
        await api.aclose()
