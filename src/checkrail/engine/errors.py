"""What can go wrong around hooks. Every message says what happened, to what, and what to do."""

from __future__ import annotations

from collections.abc import Iterable


class CheckrailError(Exception):
    """The base of all errors that Checkrail raises itself.

    `public` is what may be said of it to whoever asked for the work; the rest is for the log.
    """

    public: str = ""


class CodeExited(CheckrailError):
    """Somebody's code raised what is no `Exception`: `error` is what it was."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        super().__init__(error)

    def __str__(self) -> str:
        if isinstance(self.error, SystemExit):
            code = "" if self.error.code is None else repr(self.error.code)
            return f"called sys.exit({code}){self._place()}"
        return f"raised {type(self.error).__name__}{self._place()}"

    def _place(self) -> str:
        """Return the function that raised it, which is the one to look at."""
        trace = self.error.__traceback__
        if trace is None:
            return ""
        while trace.tb_next is not None:
            trace = trace.tb_next
        return f" in {trace.tb_frame.f_code.co_name}, line {trace.tb_lineno}"


class ControlFlow(BaseException):
    """The base of what is raised to leave some work, and is no error."""


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
    """A hook was refused when it was registered.

    `keys` are the options that the problem is about; `fn` among them is what is called.
    """

    def __init__(self, hook: str, problem: str, remedy: str, *keys: str) -> None:
        self.hook = hook
        self.problem = problem
        self.remedy = remedy
        self.keys = keys
        super().__init__(hook, problem, remedy)

    def __str__(self) -> str:
        return f"hook {self.hook!r} was refused: {self.problem}. {self.remedy}"


class InvalidOutcomeError(CheckrailError):
    """A hook broke its contract: raise it in a hook, or let the engine find out."""


class UnreachableError(CheckrailError):
    """What a hook depends on could not be reached."""


class TimedOutError(CheckrailError):
    """What a hook waited for took longer than it may: raise it in a hook, and that timed out."""


def error_type(error: BaseException | None) -> str:
    """Return the name of an error's type, of the original's where it was contained."""
    return type(error.error if isinstance(error, CodeExited) else error).__name__


def describe_error(error: BaseException) -> str:
    """Return what an exception says, after its name."""
    try:
        return f"{error_type(error)}: {error}"
    except BaseException:  # noqa: BLE001 - one that cannot be shown is still a failure
        return error_type(error)


def suggestion(name: str, known: Iterable[str], alike: float = 0.6) -> str:
    """Return which known name was probably meant, or nothing: it has to be `alike`, from 0 to 1.

    A name that is known is what was meant.
    """
    import difflib  # slow to import, and only needed where something is wrong

    near = difflib.get_close_matches(name, [str(item) for item in known], n=1, cutoff=alike)
    return f" (did you mean {near[0]!r}?)" if near and near[0] != name else ""
