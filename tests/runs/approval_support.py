"""Short ways to see and answer what hooks ask."""

from checkrail.engine.outcomes import Ask
from checkrail.runs.approvals import Answer
from checkrail.store import approvals

from .support import until


def asks(question="may it?", **options):
    """A hook that asks each time it is called."""

    def four_eyes(event):
        return Ask(question, **options)

    return four_eyes


async def asked(service, run, number=1, status="open"):
    """The question of a run that was put last, once there are so many."""
    run_id = run if isinstance(run, str) else run.run_id

    async def found():
        rows = await questions(service, run_id)
        return rows[-1] if len(rows) == number and rows[-1].status == status else None

    return await until(found, f"question {number}")


async def waiting(service, run, number=1):
    """The same, once the run is left and waits for it."""
    row = await asked(service, run, number)

    async def is_left():
        return (await service.row(run)).phase == "waiting"

    await until(is_left, "the run to be left")
    left = await service.row(run)
    assert (left.status, left.worker_id) == ("running", None)
    return row


async def questions(service, run):
    run_id = run if isinstance(run, str) else run.run_id
    return await service.read(lambda reads: approvals.of_run(reads, run_id))


async def approve(service, row, **more):
    return await service.service.approver.answer(
        row.approval_id, Answer(approved=True, by="eve", **more)
    )


async def deny(service, row, **more):
    return await service.service.approver.answer(
        row.approval_id, Answer(approved=False, by="eve", **more)
    )


async def told(service, run):
    """What a run's events tell of its questions."""
    found = await service.followed(run)
    return [(each.data["point"], each.data["status"]) for each in found if each.event == "approval"]
