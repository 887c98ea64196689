"""Functions and tools that are places."""

from raising import pass_by


async def function(parameters: dict):
    pass_by("function", parameters)
    return {"done": True}


def plain_function(parameters: dict):
    pass_by("plain function", parameters)
    return {"done": True}


async def leave(way: str) -> str:
    """Raise."""
    pass_by("tool", {"place": "tool", "way": way})
    return "well"


def plainly_leave(way: str) -> str:
    """Raise."""
    return pass_by("tool", {"place": "tool", "way": way})
