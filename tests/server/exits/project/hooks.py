"""Hooks that are places."""

from raising import pass_by

from checkrail import Hooks

hooks = Hooks()
GIVEN = "before_run", "on_run_start"
FINISH = "after_run", "on_run_error"


def pass_point(event, value, kind=""):
    given = getattr(value, "input", value)
    pass_by(f"{event.point}{kind}", given)


@hooks.hook(*GIVEN, *FINISH, name="asked", on_error="continue")
async def asked(event, value):
    pass_point(event, value)


@hooks.hook("on_result", name="ruled", on_error="continue")
def ruled(event, value):
    pass_by(str(event.point), value.get("reduced") if hasattr(value, "get") else value)


@hooks.hook(*GIVEN, *FINISH, name="threaded", thread=True, on_error="continue")
def threaded(event, value):
    pass_point(event, value, " in a thread")


@hooks.hook(*FINISH, name="behind", background=True)
async def behind(event, value):
    pass_point(event, value, " in the background")


def is_met(event):
    pass_point(event, event.value, " when")


@hooks.hook(*GIVEN, name="conditional", when=is_met, on_error="continue")
def conditional(event, value):
    return None
