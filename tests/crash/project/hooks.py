"""Hooks at every point of a run's life, each of which is a place."""

from places import reach


async def stop(event, value):
    given = getattr(value, "input", value)  # the finish points are told of the input, too
    do = given.get("do") if hasattr(given, "get") else None
    await reach(str(event.point), do, run_id=event.run_id, attempt=event.attempt)
