"""Documents: YAML 1.2, JSON and TOML read into plain data that knows its lines."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from checkrail.config.nodes import UnreadableError
from checkrail.config.problems import Report, Where

MAX_BYTES = 1024 * 1024
FORMATS = {".yaml": "yaml", ".yml": "yaml", ".json": "json", ".toml": "toml"}


@dataclass(frozen=True, slots=True)
class Document:
    """The plain data of a file; `base` is the folder that its relative paths start from."""

    data: Any = field(repr=False)
    lines: Mapping[Where, int] = field(repr=False)
    file: str
    base: Path
    digest: str


def read(path: Path, report: Report) -> Document | None:
    """Read a file, or report why not."""
    kind = FORMATS.get(path.suffix.lower())
    if kind is None and path.is_dir():
        report.add((), "a folder", "a file")
        return None
    if kind is None:
        expected = f"a file name that ends in {', '.join(FORMATS)}"
        report.add((), f"a file of unknown format {path.name!r}", expected)
        return None
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        report.add((), f"the file cannot be read: {reason}", "a file that can be read")
        return None
    return parse(content, kind, path.absolute().parent, report)


def parse(content: bytes, kind: str, base: Path, report: Report) -> Document | None:
    """Parse the bytes of a document, or report what is wrong with them."""
    if len(content) > MAX_BYTES:
        report.add((), f"more than {MAX_BYTES} bytes", f"a document of at most {MAX_BYTES} bytes")
        return None
    text = _decoded(content, report)
    if text is None:
        return None
    try:
        data, lines = _parse(text, kind, report)
    except UnreadableError as error:
        report.add((), error.found, error.expected, line=error.line)
        return None
    report.lines = lines
    return Document(data, lines, report.file, base, hashlib.sha256(content).hexdigest())


def _decoded(content: bytes, report: Report) -> str | None:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        report.add((), f"the byte 0x{content[error.start]:02x}", "text in UTF-8", line=line)
        return None


def _parse(text: str, kind: str, report: Report) -> tuple[Any, dict[Where, int]]:
    if kind == "yaml":
        from checkrail.config.yaml_text import parse_yaml

        return parse_yaml(text, report)
    if kind == "json":
        from checkrail.config.json_text import parse_json

        return parse_json(text, report)
    from checkrail.config.toml_text import parse_toml

    return parse_toml(text)
