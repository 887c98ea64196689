"""Hooks around a conversation that are places."""

from raising import pass_by

from checkrail import Hooks

hooks = Hooks()


def given(value):
    """Return what the id of a user says."""
    place, _, way = getattr(value, "user_id", "").partition("-")
    return {"place": place, "way": way}


@hooks.hook("before_inbound", "before_outbound", "on_session_start", on_error="continue")
async def passing(event, value):
    pass_by(str(event.point), given(value))


@hooks.hook("on_session_end")
async def ending(event, value):
    pass_by(str(event.point), given(value))
