"""Runs every snippet in README.md and docs/, so that what a reader copies works.

A document is one session: its snippets run in order, in one namespace and one empty folder.

- ``python`` runs, top-level ``await`` included. With ``no-run`` after the language, it compiles.
- ``yaml`` has to parse as YAML 1.2.
- ``console`` runs its lines ``$ checkrail ...``. Each line of output that is shown has to occur in
  the real output; ``...`` stands for anything. With ``no-run`` it is only for reading.
  ``checkrail dev``, ``serve`` and ``gateway`` are started, and serve the snippets below until the
  next server starts or the document ends: on a free port, which in addresses takes the place of
  2024 and 4000. What a document serves itself, at 4001, gets another one.
- ``<!-- file: name -->`` above a snippet writes it to that file; Python is then not run.
- ``<!-- exit: N -->`` above a console snippet is the exit code of its commands, 0 unless said.

Documents in `INSTALLED` start the command that is installed. For others it is forked from a process
that has imported everything, unless the line is for a shell.
"""

import ast
import asyncio
import importlib
import inspect
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import CodeType, ModuleType
from typing import Self

import pytest
from ruamel.yaml import YAML
from ruamel.yaml.constructor import DuplicateKeyError
from tests.server.harness import zygote
from tests.server.zygote import Forked

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
INSTALLED = ("README.md", "good.md", "bad.md")

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
PORT = re.compile(r"(?:(?<=127\.0\.0\.1:)|(?<=localhost:))(2024|4000|4001)\b")
OWN = "4001"
SERVING = ("dev", "serve", "gateway")
FOR_A_SHELL = re.compile(r"[|&;<>$`*?~(]|--workers")  # workers start the command line themselves


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


class Server:
    """The server that a document has started, if it has."""

    def __init__(self) -> None:
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | Forked | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self, command: str, log: Path, *, installed: bool) -> str:
        """Start a server, and give what it has said when it is there."""
        self.stop()
        words = [*shlex.split(command), "--port", str(self.port)]
        process: subprocess.Popen[bytes] | Forked
        with log.open("wb") as out:
            if installed:
                process = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment(self)
                )
            else:
                process = zygote().start(words[1:], Path.cwd(), environment(self), out.fileno())
        until = time.monotonic() + 60
        while not self.answers():
            said = log.read_text(encoding="utf-8")
            assert process.poll() is None, f"$ {command}\n{said}"
            if time.monotonic() > until:
                process.send_signal(signal.SIGKILL)
                pytest.fail(f"no server yet: $ {command}\n{said}")
            time.sleep(0.05)
        self.process = process
        return log.read_text(encoding="utf-8")

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/ok", timeout=5):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        """Stop the server, which has to be glad to."""
        if self.process is None:
            return
        process, self.process = self.process, None
        process.send_signal(signal.SIGTERM)
        try:
            assert process.wait(60) == 0
        finally:
            process.send_signal(signal.SIGKILL)


def free_port() -> int:
    with socket.socket() as given:
        given.bind(("127.0.0.1", 0))
        port: int = given.getsockname()[1]
        return port


def environment(server: Server) -> dict[str, str]:
    path = sysconfig.get_path("scripts") + os.pathsep + os.environ["PATH"]
    shown = {"COLUMNS": "100", "NO_COLOR": "1", "CHECKRAIL_SERVER": server.url}
    return {**os.environ, **shown, "PATH": path}


def run_document(document: Path, namespace: dict[str, object]) -> None:
    """Run the snippets of a document in the current folder."""
    own = free_port()
    with asyncio.Runner() as runner, Server() as server:

        def port(found: re.Match[str]) -> str:
            return str(own if found[1] == OWN else server.port)

        for snippet in snippets(document):
            text = PORT.sub(port, snippet.text)
            try:
                run_snippet(replace(snippet, text=text), namespace, runner, server)
            except BaseException as error:
                error.add_note(f"in the snippet at {document.name}, line {snippet.line}")
                raise


def run_snippet(
    snippet: Snippet, namespace: dict[str, object], runner: asyncio.Runner, server: Server
) -> None:
    match snippet.info[0]:
        case "python":
            run_python(snippet, namespace, runner)
        case "yaml":
            list(YAML(typ="safe", pure=True).load_all(snippet.text))
        case "console" if "no-run" not in snippet.info:
            run_console(snippet, server)
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


def run_console(snippet: Snippet, server: Server) -> None:
    for command, expected in snippet.commands():
        words = command.split()
        if words[:1] != ["checkrail"]:
            continue
        installed = snippet.document.name in INSTALLED or bool(FOR_A_SHELL.search(command))
        if words[1:2] and words[1] in SERVING:
            said = server.start(command, Path("../server.log"), installed=installed)
        else:
            run = run_command if installed else fork_command
            code, said = run(command, server)
            assert code == int(snippet.marks.get("exit", "0")), f"$ {command}\n{said}"
        for line in expected:
            pattern = ".*".join(map(_pattern_of, line.split("...")))
            assert re.search(pattern, said), f"{line!r} is not in: $ {command}\n{said}"


def _pattern_of(text: str) -> str:
    """Return a pattern for a text; how wide a column is depends on how long its times are."""
    return " +".join(map(re.escape, re.split(" +", text)))


def run_command(command: str, server: Server) -> tuple[int, str]:
    done = subprocess.run(
        command,
        shell=True,
        check=False,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(server),
    )
    return done.returncode, done.stdout


def fork_command(command: str, server: Server) -> tuple[int, str]:
    with tempfile.TemporaryFile() as out:
        words = shlex.split(command, comments=True)[1:]
        forked = zygote().start(words, Path.cwd(), environment(server), out.fileno())
        try:
            code = forked.wait(60)
        finally:
            forked.send_signal(signal.SIGKILL)
        out.seek(0)
        return code, out.read().decode()


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
    "```console\n$ checkrail dev\n```": AssertionError,  # for there is no server
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
