"""Hooks that run where the server is."""

import os

from checkrail import Continue


def begin(event):
    """Change what the run is given."""
    return Continue({**event.value, "begun_by": os.getpid()})


def rule(event):
    """Change what came of it."""
    return Continue({**event.value, "ruled_by": os.getpid()})
