"""What docs/moving.md says of files of other servers is what the loader does."""

import re
from pathlib import Path

from checkrail.config.schema import OTHER_SERVERS
from checkrail.config.server_keys import AUTH, CHECKPOINTER, HTTP, STORE

PAGE = (Path(__file__).parents[1] / "docs" / "moving.md").read_text(encoding="utf-8")


def test_the_keys_that_are_left_alone_are_named():
    line = re.search(r"^These are left alone, .*$", PAGE, re.MULTILINE)[0]
    sections = {"auth", "http", "checkpointer"}
    left = AUTH.left | HTTP.left | CHECKPOINTER.left | STORE.left | OTHER_SERVERS - {"$schema"}
    assert {*re.findall(r"`(\w+)`", line)} - sections == left
