"""Runs every snippet in README.md and docs/, so that what a reader copies works.

A document is one session: its snippets run in order, in one namespace and one empty folder.

- ``python`` runs, top-level ``await`` included. With ``no-run`` after the language, it compiles.
- ``yaml`` has to parse as YAML 1.2.
- ``console`` runs its lines ``$ checkrail ...``. Each line of output that is shown has to occur in
  the real output; ``...`` stands for anything. With ``no-run`` it is only for reading.
- ``<!-- file: name -->`` above a snippet writes it to that file; Python is then not run.
- ``<!-- exit: N -->`` above a console snippet is the exit code of its commands, 0 unless said.
"""

import ast
import asyncio
import importlib
import inspect
import os
import re
import subprocess
import sys
import sysconfig
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

SNIPPET = re.compile(
    r"""
    (?P<marks>(?:^[ ]*<!--[^\n]*-->\s*\n)*)         # comments right above
    ^(?P<indent>[ ]*)(?P<fence>`{3,})(?P<info>[^`\n]*)\n
    (?P<text>.*?)
    ^(?P=indent)(?P=fence)[ ]*$
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)
MARK = re.compile(r"<!--\s*(file|exit):\s*(\S+)\s*-->")


@dataclass(frozen=True)
class Snippet:
    """One fenced block of a document."""

    document: Path
    line: int  # of the first line of its text
    info: list[str]
    text: str
    marks: dict[str, str]

    def compile(self) -> CodeType:
        """Compile as Python, with the line numbers of the document."""
        source = "\n" * (self.line - 1) + self.text
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code: CodeType = compile(source, str(self.document), "exec", flags, dont_inherit=True)
        return code

    def commands(self) -> Iterator[tuple[str, list[str]]]:
        """Each command of a console snippet, with the lines of output shown for it."""
        for part in re.split(r"^\$ ", self.text, flags=re.MULTILINE)[1:]:
            command, _, output = re.sub(r"\\\n\s*", " ", part).partition("\n")
            yield command, [line.strip() for line in output.splitlines() if line.strip()]


def snippets(document: Path) -> Iterator[Snippet]:
    """The fenced blocks of a Markdown file, in order."""
    markdown = document.read_text(encoding="utf-8")
    for found in SNIPPET.finditer(markdown):
        yield Snippet(
            document=document,
            line=markdown.count("\n", 0, found.start("text")) + 1,
            info=found["info"].split() or ["text"],
            text=textwrap.dedent(found["text"]),
            marks=dict(MARK.findall(found["marks"])),
        )


def run_document(document: Path, namespace: dict[str, object]) -> None:
    """Run the snippets of a document in the current folder."""
    with asyncio.Runner() as runner:
        for snippet in snippets(document):
            try:
                run_snippet(snippet, namespace, runner)
            except BaseException as error:
                error.add_note(f"in the snippet at {document.name}, line {snippet.line}")
                raise


def run_snippet(snippet: Snippet, namespace: dict[str, object], runner: asyncio.Runner) -> None:
    match snippet.info[0]:
        case "python":
            run_python(snippet, namespace, runner)
        case "yaml":
            list(YAML(typ="safe", pure=True).load_all(snippet.text))
        case "console" if "no-run" not in snippet.info:
            run_console(snippet)
        case "py" | "yml" as short:
            pytest.fail(f"the language {short!r} is not run: write it out")
    if name := snippet.marks.get("file"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(snippet.text, encoding="utf-8")
        importlib.invalidate_caches()


def run_python(snippet: Snippet, namespace: dict[str, object], runner: asyncio.Runner) -> None:
    code = snippet.compile()
    if "no-run" in snippet.info or "file" in snippet.marks:
        return
    result = eval(code, namespace)
    if inspect.iscoroutine(result):
        runner.run(result)


def run_console(snippet: Snippet) -> None:
    path = sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"]
    for command, expected in snippet.commands():
        if command.split()[:1] != ["checkrail"]:
            continue
        done = subprocess.run(
            command,
            shell=True,
            check=False,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PATH": path, "COLUMNS": "100", "NO_COLOR": "1"},
        )
        said = f"$ {command}\n{done.stdout}"
        assert done.returncode == int(snippet.marks.get("exit", "0")), said
        for line in expected:
            pattern = ".*".join(map(re.escape, line.split("...")))
            assert re.search(pattern, done.stdout), f"{line!r} is not in: {said}"


@pytest.fixture
def namespace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, object]]:
    """The globals of a fresh ``__main__`` in an empty current folder."""
    main = ModuleType("__main__")
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setitem(sys.modules, "__main__", main)
    yield vars(main)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(folder)):
            del sys.modules[name]


@pytest.mark.parametrize(
    "document", DOCUMENTS, ids=[path.relative_to(ROOT).as_posix() for path in DOCUMENTS]
)
def test_every_snippet_works(document: Path, namespace: dict[str, object]) -> None:
    run_document(document, namespace)


GOOD = """
<!-- file: rules.py -->
```python
limit = 1000
```

<!-- file: pkg/hooks.yaml -->
```yaml
on: no
```

1. Indented, in a list:

   ```python
   import asyncio
   from pathlib import Path
   from rules import limit

   await asyncio.sleep(0)
   assert Path("pkg/hooks.yaml").read_text() == "on: no\\n"
   ```

```python
assert asyncio.run(asyncio.sleep(0, limit)) == 1000
```

```python no-run
raise SystemExit
```

<!-- exit: 3 -->
```console
$ rm -rf /no/such/folder
$ checkrail check \\
    hooks.yaml
checked ... hooks.yaml

...
```
"""

BAD = {
    "```python\nassert not 1\n```": AssertionError,
    "```python\nawait sleep(0)\nassert not 1\n```": AssertionError,
    "```python no-run\nif\n```": SyntaxError,
    "```yaml\na: 1\na: 2\n```": DuplicateKeyError,
    "```console\n$ checkrail check\n```": AssertionError,  # for its exit code
    "<!-- exit: 3 -->\n```console\n$ checkrail check\nfine\n```": AssertionError,  # for its output
    "```py\n1\n```": pytest.fail.Exception,
}


@pytest.fixture
def fake_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A ``checkrail`` that says what it was given and exits with 3."""
    script = tmp_path / "checkrail"
    script.write_text('#!/bin/sh\necho "checked with $@"\nexit 3\n')
    script.chmod(0o755)
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path))


@pytest.mark.usefixtures("fake_command")
def test_a_good_document_passes(tmp_path: Path, namespace: dict[str, object]) -> None:
    document = tmp_path / "good.md"
    document.write_text(GOOD)
    assert len(list(snippets(document))) == 6
    run_document(document, namespace)
    assert namespace["limit"] == 1000


@pytest.mark.usefixtures("fake_command")
@pytest.mark.parametrize(("text", "error"), BAD.items())
def test_a_bad_snippet_fails_and_says_where(
    text: str, error: type[BaseException], tmp_path: Path, namespace: dict[str, object]
) -> None:
    document = tmp_path / "bad.md"
    document.write_text("```python\nfrom asyncio import sleep\n```\n\n" + text)
    with pytest.raises(error) as caught:
        run_document(document, namespace)
    assert "bad.md, line" in caught.value.__notes__[0]
