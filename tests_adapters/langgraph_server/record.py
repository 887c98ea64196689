"""Writes down what LangGraph's own server answers: `make record-reference`."""

import sys
import tempfile
from pathlib import Path

from tests.server.reference.answers import Answer, collect_all_answers, save_answers
from tests.server.reference.differences import find_differences
from tests.server.reference.questions import load_questions

from .servers import run_reference


def main() -> None:
    """Put all questions to two fresh servers: what is chance must not be written down."""
    once, again = _collect_from_new_server(), _collect_from_new_server()
    changed = [
        difference
        for name, story in once.items()
        for difference in find_differences(name, again[name], story)
    ]
    if changed:
        sys.exit("It does not answer the same twice:\n" + "\n".join(map(str, changed)))
    save_answers(once)


def _collect_from_new_server() -> dict[str, list[Answer]]:
    with tempfile.TemporaryDirectory() as folder, run_reference(Path(folder)) as url:
        return collect_all_answers(url, load_questions())


if __name__ == "__main__":
    main()
