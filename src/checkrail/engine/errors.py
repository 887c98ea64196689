"""What can go wrong around hooks. Every message says what happened, to what, and what to do."""

from __future__ import annotations

from collections.abc import Iterable


class CheckrailError(Exception):
    """The base of all errors that Checkrail raises itself."""


class UnknownPointError(CheckrailError, LookupError):
    """A point was named that does not exist."""

    def __init__(self, name: object, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(name)

    def __str__(self) -> str:
        return (
            f"there is no hook point {str(self.name)!r}{suggestion(str(self.name), self.known)}. "
            f"The points are: {', '.join(self.known)}"
        )


class HookRefusedError(CheckrailError, ValueError):
    """A hook was refused when it was registered."""

    def __init__(self, hook: str, problem: str, remedy: str) -> None:
        self.hook = hook
        self.problem = problem
        self.remedy = remedy
        super().__init__(hook, problem, remedy)

    def __str__(self) -> str:
        return f"hook {self.hook!r} was refused: {self.problem}. {self.remedy}"


class InvalidOutcomeError(CheckrailError):
    """A hook broke its contract: raise it in a hook, or let the engine find out."""


class UnreachableError(CheckrailError):
    """What a hook depends on could not be reached."""


def told(error: BaseException) -> str:
    """Say what an exception says, after its name."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:  # noqa: BLE001 - one that cannot be shown is still a failure
        return type(error).__name__


def suggestion(name: str, known: Iterable[str]) -> str:
    """Say which known name was probably meant, or nothing."""
    import difflib  # slow to import, and only needed where something is wrong

    near = difflib.get_close_matches(name, [str(item) for item in known], n=1, cutoff=0.6)
    return f" (did you mean {near[0]!r}?)" if near else ""
