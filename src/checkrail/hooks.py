"""Run hooks, as a server's users import them."""

from checkrail.engine.outcomes import RejectRun
from checkrail.engine.values import User
from checkrail.styles.run_context import RunContext
from checkrail.styles.run_hooks import RunHooks

__all__ = ["RejectRun", "RunContext", "RunHooks", "User"]
