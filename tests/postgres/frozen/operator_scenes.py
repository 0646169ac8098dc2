"""What operators and consoles do, as scenes like those of processes that work on a queue."""

from __future__ import annotations

from queue_core.model.operation import Author, ChangeOptions, OperationRequest
from queue_core.stores.postgres.operations import dry_run
from tests.conformance.making import outcome
from tests.postgres.frozen.scenes import APART, KEY, Process, Scene, dead, keyed, nothing, running

AUTHOR = Author("a", "b")


async def begin(process: Process, asked: OperationRequest, *ids: str) -> None:
    number = process.kept["number"] = (await process.operations.create(asked)).number
    await process.operations.add(number, ids)
    assert await process.operations.move(number, "running")


async def asked(process: Process) -> None:
    """Ask for the dead job to be retried."""
    await dead(process)
    await begin(process, OperationRequest("retry", "retry", AUTHOR), process.kept["claim"].id)


async def step(process: Process) -> None:
    done = (await process.operations.step(process.kept["number"], 10)).operation
    assert (done.done, done.processed) == (1, 1)


async def cancel(process: Process) -> None:
    await process.operations.change("cancel", [process.kept["claim"].id])


async def delete(process: Process) -> None:
    assert (await process.operations.change("delete", [process.kept["claim"].id])).ids


async def to_be_moved(process: Process) -> None:
    """Ask for a waiting job with the key to be moved to another queue."""
    jobs = await process.insert(3, ordering_key=KEY)
    way = ChangeOptions(queue=f"{process.queue}-else")
    await begin(process, OperationRequest("move", "move", AUTHOR, options=way), jobs[1].id)


async def write_down(process: Process) -> None:
    """Write an operation down, let it go on, and count an error."""
    await begin(process, OperationRequest("retry", "retry", AUTHOR), process.kept["claim"].id)
    await process.operations.fail_member(process.kept["number"], "no such job")


async def look_after(process: Process) -> None:
    await process.operations.abandon()
    assert await process.operations.list_operations(10) is not None


async def many_dead(process: Process) -> None:
    """Bury several jobs, two of which hold their keys."""
    process.kept["ids"] = []
    for key in (KEY, APART):
        await process.insert(2, ordering_key=key)
    claims = await process.claim(2)
    outcomes = [outcome(claim, "dead", ordering_key=claim.ordering_key) for claim in claims]
    await process.store.settle(outcomes)
    process.kept["ids"] = [claim.id for claim in claims]


async def retry(process: Process) -> None:
    await process.operations.change("retry", process.kept["ids"])


async def trash(process: Process) -> None:
    """Delete several jobs, and remove them for good."""
    await process.operations.change("delete", process.kept["ids"])
    await process.operations.change("purge", process.kept["ids"])


async def cancel_all(process: Process) -> None:
    await process.operations.change("cancel", [job.id for job in process.kept["jobs"]])


async def waiting(process: Process) -> None:
    process.kept["jobs"] = await process.insert(3, ordering_key=KEY) + await process.insert(3, ordering_key=APART)


async def pause(process: Process) -> None:
    await process.operations.pause(process.queue)
    await process.operations.resume(process.queue)


async def look(process: Process) -> None:
    await process.inspector.overview()


async def check(process: Process) -> None:
    """Ask what doctor asks, without its wait for a notification."""
    assert await dry_run(process.inspector._pool, process.rules) == ""


OPERATORS: dict[str, Scene] = {
    "a step of an operation": Scene({}, asked, step, keyed),
    "another step of an operation": Scene({}, asked, step, step),
    "a step that moves a job": Scene({}, to_be_moved, step, keyed, points=range(1, 25)),
    "an operation is written down": Scene({}, running, write_down, look_after, points=range(1, 30)),
    "a job is cancelled": Scene({}, running, cancel, keyed),
    "jobs are cancelled": Scene({}, waiting, cancel_all, keyed),
    "a job is deleted": Scene({"dead_blocks_key": True}, dead, delete, keyed),
    "dead jobs are retried": Scene({"dead_blocks_key": True}, many_dead, retry, keyed),
    "dead jobs are deleted": Scene({"dead_blocks_key": True}, many_dead, trash, keyed),
    "a queue is paused": Scene({}, nothing, pause, lambda one: one.insert()),
    "a console's picture": Scene({}, running, look, keyed, timeout=3.0, may_fail=True),
    "doctor's rehearsal": Scene({}, nothing, check, keyed, timeout=3.0, may_fail=True, points=(1, 20, 60)),
}
