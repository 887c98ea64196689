"""Regular expressions that files and requests bring: the time they take grows with the text alone.

They are compiled with RE2, which never goes back over what it has read. Patterns in Python code
are `re`'s, for who writes code could stop the process in any case.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from time import thread_time
from typing import Any

from checkrail.engine.errors import CheckrailError

LARGEST = 4000
"""How many steps a compiled pattern may have: one `\\pL` is some 1,200 of them."""

MOST_WORK = 1_000_000_000
"""Steps times characters: no search takes longer than that many of RE2's smallest moves."""

MOST_INLINE = 25_000_000
"""The same for a search while everybody waits, as matchers and conditions do."""

MOST_LABELS = 10_000_000
"""How many characters the labels of one text may have together."""

MOST_SECONDS = 5.0
"""CPU time for all matches in one text: to find the next may take going through the rest of it."""

_MEMORY = 1 << 20
_LONGEST = 4000
_LONGEST_GLOB = 1000
_LESS = "Make the pattern smaller, or look at less of the value"
_PYTHON = "A hook in Python may use any pattern of `re`"
_WITHOUT = {
    "(?=": ("lookahead", "match what follows too, or say the rest in `when`"),
    "(?!": ("lookahead", "match what may follow instead, or say the rest in `when`"),
    "(?<=": ("lookbehind", "match what stands in front too, or say the rest in `when`"),
    "(?<!": ("lookbehind", "match what may stand in front, or say the rest in `when`"),
    "(?P=": ("a backreference", "write what it refers to once more"),
    "(?(": ("a conditional group", "write both forms, with | between them"),
    "(?>": ("an atomic group", "leave out the `>`: nothing is gone over twice here"),
    "++": ("a possessive repeat", "leave out the second `+`: nothing is gone over twice here"),
    "(?#": ("a comment in a pattern", "leave it out"),
    "\\Z": ("\\Z", "write \\z for the end of the text"),
    "\\u": ("\\u", "write \\x{00e9} for a character by its number, or the character itself"),
}


class PatternError(CheckrailError, ValueError):
    """A pattern that cannot be, or a text that is too much for it."""

    def __init__(self, problem: str, remedy: str) -> None:
        self.problem = problem
        self.remedy = remedy
        super().__init__(f"{problem}. {remedy}")


class Regex:
    """A compiled pattern, with the methods of `re.Pattern` that hooks use.

    `written` is how it stands in its file: variables in it may be secret.
    """

    __slots__ = ("_compiled", "pattern", "size", "written")

    def __init__(self, pattern: str, compiled: Any, written: str) -> None:
        self.pattern = pattern
        self.written = written
        self.size: int = compiled.programsize
        self._compiled = compiled

    def __repr__(self) -> str:
        return f"Regex({self.written!r})"

    def __str__(self) -> str:
        return self.written if len(self.written) <= 80 else f"{self.written[:77]}..."

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Regex) and other.pattern == self.pattern

    def __hash__(self) -> int:
        return hash(self.pattern)

    def search(self, text: str) -> Any:
        """Return the first match in a text, or None."""
        return self._compiled.search(self._encodable(text, MOST_INLINE))

    def fullmatch(self, text: str) -> Any:
        """Return the match of a whole text, or None."""
        return self._compiled.fullmatch(self._encodable(text, MOST_INLINE))

    def sub(self, label: str, text: str) -> str:
        """Return a text with a label in place of each match."""
        end, pieces = 0, []
        for start, stop in self.iter_spans(text, len(label)):
            pieces += [text[end:start], label]
            end = stop
        return "".join([*pieces, text[end:]])

    def iter_spans(self, text: str, label_size: int = 0) -> Iterator[tuple[int, int]]:
        """Yield where the matches in a text begin and end, each of which will get a label."""
        grown = 0
        until = thread_time() + MOST_SECONDS
        for found in self._compiled.finditer(self._encodable(text, MOST_WORK)):
            grown += label_size
            if grown > MOST_LABELS:
                problem = f"the pattern {self} was found so often that its labels fill the text"
                raise PatternError(problem, "Match more at once, as in \\d+, or shorten the label")
            if thread_time() > until:
                problem = f"the pattern {self} took longer than {MOST_SECONDS:g} s for one text"
                raise PatternError(problem, _LESS)
            yield found.start(), found.end()

    def _encodable(self, text: str, most: int) -> str:
        """Return a text of the same length that UTF-8 can hold, or refuse one that is too long."""
        if len(text) * self.size > most:
            problem = f"a text of {len(text)} characters is too long for the pattern {self}"
            raise PatternError(problem, _LESS)
        if text.isascii():
            return text
        return text.encode(errors="replace").decode()  # half of a surrogate pair is one character


def compile_pattern(pattern: str, written: str | None = None) -> Regex:
    """Compile a regular expression, or raise `PatternError` with the reason and a remedy."""
    found = _find_compiled(pattern)
    if isinstance(found, PatternError):
        raise PatternError(found.problem, found.remedy)
    return Regex(pattern, found, pattern if written is None else written)


def read_pattern(given: str) -> str | Regex:
    """Return a glob as it is, and what stands between slashes as a compiled pattern."""
    if len(given) > 1 and given[0] == given[-1] == "/":
        return compile_pattern(given[1:-1], str(getattr(given, "written", given)))
    if len(given) > _LONGEST_GLOB:
        problem = f"a pattern of {len(given)} characters; {_LONGEST_GLOB} is the limit"
        raise PatternError(problem, "Make several of it")
    return given


@functools.lru_cache(maxsize=512)
def _find_compiled(pattern: str) -> Any:
    """Return a compiled pattern, or why it cannot be: to find that out may take longer."""
    try:
        return _compile_re2(pattern)
    except PatternError as error:
        return PatternError(error.problem, error.remedy)


def _compile_re2(pattern: str) -> Any:
    try:
        import re2
    except ImportError as error:
        problem = "regular expressions need the package google-re2, which is not installed"
        raise PatternError(problem, 'Run: pip install "checkrail[config]"') from error
    if len(pattern) > _LONGEST:
        problem = f"a pattern of {len(pattern)} characters; {_LONGEST} is the limit"
        raise PatternError(problem, "Make several of it")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        compiled = re2._Regexp(pattern, options)  # noqa: SLF001 - `compile` keeps 128 of anybody's
    except UnicodeEncodeError:
        problem = "a pattern with half of a surrogate pair"
        raise PatternError(problem, "Write the whole character") from None
    except re2.error as error:
        raise _explain_refusal(pattern, error.args[0].decode(errors="replace")) from None
    if compiled.programsize > LARGEST:
        raise _too_large()
    return compiled


def _explain_refusal(pattern: str, told: str) -> PatternError:
    """Return why RE2 refused a pattern, in the words of who wrote it for `re`."""
    what, _, sign = told.partition(": ")
    if "too large" in what or what == "invalid repetition size":
        return _too_large(sign)
    if sign == "(?P":
        sign = "(?P="
    if re.fullmatch(r"\\[1-9]", sign):
        name, instead = _WITHOUT["(?P="]
    else:
        name, instead = _WITHOUT.get(sign, ("", ""))
    if name:
        shown = "" if name == sign else f" ({sign})"
        problem = f"{name}{shown} is not in the patterns of files and requests, which are RE2's"
        return PatternError(problem, f"{instead[0].upper()}{instead[1:]}. {_PYTHON}")
    problem = f"{what} in {pattern[:80]!r}" if not sign else f"{what}: {sign}"
    return PatternError(problem, f"Patterns of files and requests are RE2's. {_PYTHON}")


def _too_large(sign: str = "") -> PatternError:
    where = f" ({sign})" if sign else ""
    problem = f"the pattern is too large{where}: repeats count as what they repeat, that often"
    return PatternError(problem, "Repeat less, or name fewer characters: \\w is small, \\pL is not")
