"""Objects that the server needs of a project: graphs, auth, an app, a checkpointer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from checkrail.actions.expression_fields import kind_of
from checkrail.config.modules import extend_search_path
from checkrail.config.problems import Report
from checkrail.config.server_keys import reference
from checkrail.config.targets import Importer, NotLoadedError

Expected = type | tuple[type, ...] | None
_NO_SECRETS: Mapping[str, str] = MappingProxyType({})


def load_object(
    path: str,
    base: Path,
    label: str,
    expected: Expected = None,
    *,
    roots: Sequence[Path] = (),
    secrets: Mapping[str, str] = _NO_SECRETS,
) -> Any:
    """Import what `./file.py:name` or `package.module:name` names, or raise `ConfigError`.

    The folder of the file and the `roots` stay on the search path, for graphs import while they
    run. `label` says what it is, as in "the graph 'support'"; `secrets` are told in no message.
    """
    report = Report(label)
    report.secrets = {**secrets}
    importer = Importer(base, roots)
    if not reference(path, (), report):
        report.raise_if_any()
    file = path.rpartition(":")[0]
    beside = [(base / file).resolve().parent] if file.endswith(".py") or "/" in file else []
    try:
        with extend_search_path((), (*roots, *beside)):
            found = importer.import_path(path)
    except NotLoadedError as error:
        report.add((), error.found, error.expected, error.hint)
        found = None
    else:
        _check_type(found, path, expected, report)
    report.raise_if_any(sorted(importer.files))
    return found


def _check_type(found: Any, path: str, expected: Expected, report: Report) -> None:
    if expected is None or isinstance(found, expected):
        return
    kinds = expected if isinstance(expected, tuple) else (expected,)
    wanted = " or ".join(
        f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}" for kind in kinds
    )
    report.add((), f"{path!r} is {kind_of(found)}", wanted)
