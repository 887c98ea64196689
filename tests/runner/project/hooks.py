"""Hooks that run where the server is."""

import os
from pathlib import Path

from checkrail import Continue


def begin(event):
    """Change what the run is given."""
    return Continue({**event.value, "begun_by": os.getpid()})


def rule(event):
    """Change what came of it."""
    return Continue({**event.value, "ruled_by": os.getpid()})


def opened(event):
    """See a session begin."""


def ended(event):
    """Note which session has ended, and where its hook was called."""
    said = f"{event.value.session_id} {os.getpid()}"
    Path(__file__).with_name("ended.txt").write_text(said)
