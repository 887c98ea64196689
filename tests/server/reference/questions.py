"""Questions to a server as data: named stories of HTTP requests, in `questions/*.yaml`.

A story is a list of steps. A step is a line like `GET /threads/{thread}`, or a mapping whose first
key is such a line and whose value is the JSON body, with:

- `keep: {name: path}`: values of the answer that later steps use as `{name}`;
- `headers`, `params`: of the request; `raw`: a body that is no JSON of ours;
- `poll: {key: value}`: repeated until the answer has these;
- `read: text`: a stream is read up to the first event that contains the text;
- `background: name`: not waited for, but that a stream with `read` is open; the step `await name`
  has its answer;
- `unordered: true`: a list whose order nobody promises.

What is under `given` prepares the story: it has to succeed, and its answers are not compared.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

FOLDER = Path(__file__).parent / "questions"
OPTIONS = {"keep", "headers", "params", "raw", "poll", "read", "background", "unordered"}


@dataclass(frozen=True)
class Step:
    """One request, and what to do with its answer."""

    line: str
    body: Any = None
    keep: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    params: Mapping[str, Any] = field(default_factory=dict)
    raw: str | None = None
    poll: Mapping[str, Any] = field(default_factory=dict)
    read: str | None = None
    background: str | None = None
    unordered: bool = False

    @property
    def method(self) -> str:
        return self.line.split(" ", 1)[0]

    @property
    def path(self) -> str:
        return self.line.split(" ", 1)[1]


@dataclass(frozen=True)
class Question:
    """A story that is told to a server from a clean start."""

    name: str
    given: tuple[Step, ...]
    steps: tuple[Step, ...]


def load_questions(folder: Path = FOLDER) -> list[Question]:
    """Return all questions, named `file: name`."""
    questions = [one for file in sorted(folder.glob("*.yaml")) for one in _read_file(file)]
    names = [question.name for question in questions]
    assert len(set(names)) == len(names), "two questions have one name"
    return questions


def _read_file(file: Path) -> Iterator[Question]:
    for name, story in YAML(typ="safe", pure=True).load(file).items():
        told = story if isinstance(story, dict) else {"steps": story}
        given, steps = (
            tuple(_parse_step(step) for step in told.get(key) or ()) for key in ("given", "steps")
        )
        yield Question(f"{file.stem}: {name}", given, steps)


def _parse_step(step: str | dict[str, Any]) -> Step:
    if isinstance(step, str):
        return Step(step)
    (line, body), *options = step.items()
    unknown = {key for key, _ in options} - OPTIONS
    assert not unknown, f"{line}: nobody knows {unknown}"
    return Step(line, body, **dict(options))
