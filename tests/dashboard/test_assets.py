"""What pages load: ours, pinned, and small."""

import gzip
import hashlib
import json
import re
from importlib.resources import files

STATIC = files("checkrail.dashboard") / "static"
TEMPLATES = files("checkrail.dashboard") / "templates"
VENDOR = json.loads((STATIC / "vendor" / "vendor.json").read_text())


def texts(folder, ending):
    for each in folder.iterdir():
        if each.is_dir():
            yield from texts(each, ending)
        elif each.name.endswith(ending):
            yield each.name, each.read_text()


def test_every_vendored_file_is_the_one_that_is_pinned():
    pinned = {
        name: told["sha256"] for one in VENDOR.values() for name, told in one["files"].items()
    }
    licences = {one["licence_file"] for one in VENDOR.values()}
    there = {each.name: each for each in (STATIC / "vendor").iterdir()}
    assert {*there} == {*pinned, *licences, "vendor.json"}
    for name, digest in pinned.items():
        assert hashlib.sha256(there[name].read_bytes()).hexdigest() == digest


def test_the_first_load_is_small():
    scripts = [each.read_bytes() for each in (STATIC / "js").iterdir()]
    scripts += [(STATIC / "vendor" / name).read_bytes() for name in VENDOR["htmx.org"]["files"]]
    styles = [(STATIC / name).read_bytes() for name in ("tokens.css", "app.css")]
    assert sum(len(gzip.compress(each)) for each in scripts) < 29_000
    assert sum(len(gzip.compress(each)) for each in styles) < 15_000


def test_no_template_lets_html_through_or_needs_what_the_policy_forbids():
    for name, text in texts(TEMPLATES, ".html"):
        assert not re.search(r"\|\s*safe\b|autoescape false|Markup", text), name
        assert not re.search(r'\son\w+="|\sstyle="|hx-on|js:|https?://(?!…)', text), name


def test_no_script_of_ours_writes_html():
    for name, text in texts(STATIC / "js", ".js"):
        assert not re.search(
            r"innerHTML\s*=|outerHTML|insertAdjacentHTML|eval\(|new Function", text
        ), name


def test_every_icon_is_in_the_sprite():
    sprite = (STATIC / "vendor" / "icons.svg").read_text()
    known = {*re.findall(r'<symbol id="([\w-]+)"', sprite)}
    used = set()
    for _, text in texts(TEMPLATES, ".html"):
        used |= {*re.findall(r'icon\("([\w-]+)"', text)}
    assert used <= known
