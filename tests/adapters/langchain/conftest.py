import pytest

from .support_graphs import RAN


@pytest.fixture(autouse=True)
def _nothing_ran():
    RAN.clear()
