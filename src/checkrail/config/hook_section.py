"""The section `hooks`: an object by its path, and the hooks of each point."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from checkrail.config.builder import Builder
from checkrail.config.entries import Entry, EntryReader
from checkrail.config.kinds import hook_form, is_reference, seconds, text
from checkrail.config.problems import Report, Where, described
from checkrail.engine.errors import UnknownPointError
from checkrail.engine.points import ALIASES, HookPoint, places


def build_hooks(hooks: Any, where: Where, reader: EntryReader, builder: Builder) -> None:
    """Read everything under `hooks`: an object by its path, and the hooks of each point."""
    report = reader.report
    if hooks is None:
        return
    if not isinstance(hooks, dict):
        expected = "a mapping: `path`, or points and their hooks"
        hint = f"write hooks: {{path: {hooks}}}" if is_reference(hooks) else ""
        report.add(where, f"found {described(hooks)}", expected, hint)
        return
    _build_object(hooks, where, reader, builder)
    points = {key: value for key, value in hooks.items() if key not in ("path", "timeout")}
    builder.add_entries([*_entries(points, where, reader)])


def _build_object(
    hooks: Mapping[str, Any], where: Where, reader: EntryReader, builder: Builder
) -> None:
    report, at = reader.report, (*where, "path")
    timeout = hooks.get("timeout")
    if timeout is not None and not seconds(timeout, (*where, "timeout"), report):
        timeout = None
    if "path" in hooks and text(hooks["path"], at, report):
        before = len(report.problems)
        path = reader.environment.expand(hooks["path"], at)
        if len(report.problems) == before:
            builder.add_object(path, timeout, at)
    elif "timeout" in hooks and "path" not in hooks:
        hint = "defaults.timeout is for all hooks"
        found = "`timeout` without `path`"
        report.add((*where, "timeout"), found, "a `path` that it is for", hint)


def _entries(points: Mapping[str, Any], where: Where, reader: EntryReader) -> Iterator[Entry]:
    for point, given in points.items():
        at = (*where, point)
        known = _is_point(point, at, reader.report)
        if given is None:
            continue
        if not isinstance(given, (dict, list)):
            expected = "a hook, or a list of hooks"
            reader.report.add(at, f"found {described(given)}", expected, hook_form(given))
            continue
        items = given if isinstance(given, list) else [given]
        for number, item in enumerate(items):
            entry = reader.read(item, point, (*at, number) if isinstance(given, list) else at)
            if known:
                yield entry


def _is_point(name: str, where: Where, report: Report) -> bool:
    try:
        places(name)
    except UnknownPointError:
        report.unknown(where, "point", name, [*HookPoint, *ALIASES])
        return False
    return True
