import contextlib

import pytest
from tests_adapters.langgraph_server.servers import run_ours, run_reference


@pytest.fixture(scope="session")
def servers(tmp_path_factory):
    """The addresses of our server and of LangGraph's own, which all stories share."""
    with contextlib.ExitStack() as stack:
        yield {
            name: stack.enter_context(run(tmp_path_factory.mktemp(name)))
            for name, run in (("ours", run_ours), ("theirs", run_reference))
        }
