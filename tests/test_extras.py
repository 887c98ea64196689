"""Packages that an extra brings, and what works without any."""

import subprocess
import sys

import pytest

from checkrail.extras import MissingExtraError, needs

WITHOUT_EXTRAS = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {"aiohttp", "google", "httpx2", "orjson", "sqlalchemy"}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Hidden())
from checkrail.builtin import BUILTINS

for name, hook in BUILTINS.items():
    hook.make(dict(hook.example), base=None, outside=None)
"""


def test_a_missing_package_is_named_with_what_to_install():
    told = r'chat needs rich: pip install "checkrail\[cli\]"'
    with pytest.raises(MissingExtraError, match=told), needs("rich", "chat", "cli"):
        raise ImportError("no rich")


def test_built_in_hooks_need_no_package_of_an_extra():
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
