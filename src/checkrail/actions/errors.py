"""What can be wrong with a declared action."""

from __future__ import annotations

from checkrail.engine.errors import CheckrailError


class ActionError(CheckrailError):
    """A declared hook cannot be built, or what it was told to do cannot be done.

    Of one at work callers read only what is `public`: the problem may quote what others wrote.
    """

    def __init__(self, problem: str, remedy: str = "", *, public: str = "") -> None:
        self.problem = problem
        self.remedy = remedy
        self.public = public
        super().__init__(problem, remedy)

    def __str__(self) -> str:
        return f"{self.problem}. {self.remedy}" if self.remedy else self.problem
