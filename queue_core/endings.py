"""What is said and offered once the end of an attempt is stored, whoever ran it."""

from __future__ import annotations

from collections.abc import Iterable

from queue_core.dispatch import Dispatcher, DispatchUnavailable
from queue_core.events import Event, EventName
from queue_core.job import Failure, Outcome, Ready, Settled
from queue_core.losses import summary


def events_of(outcome: Outcome, answer: Settled) -> list[Event]:
    """Return the events of an attempt that ended like this."""
    job_id, token, queue, type_ = outcome.id, outcome.token, outcome.queue, outcome.type
    if outcome.kind == "completed":
        return [Event(EventName.COMPLETED, queue, job_id, type_, token, {"ms": outcome.run_us / 1000})]
    if outcome.failure is None or answer.cancelled:
        name = EventName.RELEASED if outcome.kind == "released" and not answer.cancelled else EventName.CANCELLED
        return [Event(name, queue, job_id, type_, token, {} if answer.due is None else {"due": answer.due})]
    said = _said(outcome.failure)
    failed = Event(EventName.FAILED, queue, job_id, type_, token, said)
    if outcome.kind == "retrying":
        again = {"error": said["error"], "due": answer.due}
        return [failed, Event(EventName.RETRYING, queue, job_id, type_, token, again)]
    name = EventName.RELEASED if outcome.kind == "released" else EventName.DEAD
    return [failed, Event(name, queue, job_id, type_, token, said)]


def _said(failure: Failure) -> dict[str, str]:
    return {"error": summary(failure), "signature": failure.signature, "title": failure.title, "kind": failure.kind}


async def dispatch(dispatcher: Dispatcher | None, ends: Iterable[tuple[Outcome, Settled]]) -> None:
    """Offer jobs that are ready again or whose ordering key is free now.

    What does not get there the leader finds.
    """
    ready: list[Ready] = []
    for outcome, answer in ends:
        if answer.due is None and answer.rank is not None:
            ready.append(Ready(outcome.id, outcome.queue, answer.rank))
        ready += answer.opened
    if dispatcher is None or not ready:
        return
    try:
        await dispatcher.offer(ready)
    except DispatchUnavailable:
        return  # the audit offers what is ready
