"""A LiteLLM proxy with the callback, held to what callers may rely on wherever hooks hold."""

from tests.gateway.behaviours import Behaviours


class TestTheProxy(Behaviours):
    pass
