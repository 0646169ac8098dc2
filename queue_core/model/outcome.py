"""How an attempt ends: from an exception, or a lost worker, to the outcome that is stored."""

from __future__ import annotations

import sys
import traceback
from concurrent.futures import Future
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType

from queue_core.errors import SoftTimeLimitExceeded
from queue_core.model.codec import encode_result
from queue_core.model.job import Claim, Failure, Outcome, OutcomeKind, Stray
from queue_core.model.retry import Policy, Reschedule, RetryLater
from queue_core.model.settings import Limits
from queue_core.model.signature import failure_of, readable, sign
from queue_core.model.text import cut, type_name
from queue_core.model.validation import check_delay

SUSPECT_LOSSES = 2
"""Losses from which on a job runs alone in a process of its own, so that its worker sees whether it is to blame."""

EXCEPTION = "WorkerLost"
LOST_ONCE = "a worker was lost while it ran this job"


def lost_too_often(bound: int) -> str:
    """Return why a job is buried whose workers were lost this often."""
    return LOST_ONCE if bound == 1 else f"{bound} workers were lost while they ran this job"


def failure_of_loss(worker: str, losses: int, bound: int) -> Failure:
    """Return why the attempt ended, given the worker's name, the job's losses with this one, and how many bury it.

    The worker's name is in the message only: all losses are one group, whichever worker was lost.
    """
    what = lost_too_often(bound) if losses >= bound else LOST_ONCE
    signature, title = sign(EXCEPTION, what)
    return Failure("lost", EXCEPTION, f"{what} (last: {worker})", "", signature, title)


MISFIT_SECONDS = 1.0
"""What a job waits at least whose payload did not fit: at once, the same worker would be the first to have room."""


class TimeLimitExceeded(Exception):
    """The attempt ran longer than its task's time limit."""


def completed(claim: Claim, run_us: int, result: object, limits: Limits) -> Outcome:
    """Return the outcome of a handler that returned."""
    return Outcome(
        claim.id,
        claim.token,
        claim.queue,
        claim.type,
        "completed",
        run_us,
        encode_result(result, limits.result),
        ordering_key=claim.ordering_key,
    )


def _outcome(
    claim: Claim, kind: OutcomeKind, run_us: int, failure: Failure | None = None, delay: float = 0.0
) -> Outcome:
    key = claim.ordering_key
    return Outcome(claim.id, claim.token, claim.queue, claim.type, kind, run_us, None, failure, delay, ordering_key=key)


def released(claim: Claim, run_us: int) -> Outcome:
    """Return the outcome that gives a job back without using an attempt."""
    return _outcome(claim, "released", run_us)


def released_stray(stray: Stray) -> Outcome:
    """Return the outcome that gives a job back whose claim never reached its worker."""
    return Outcome(stray.id, stray.token, stray.queue, stray.type, "released", ordering_key=stray.ordering_key)


def rescheduled(claim: Claim, run_us: int, asked: Reschedule) -> Outcome:
    """Return the outcome of a handler that gave its job back for another time."""
    again = _outcome(claim, "released", run_us, delay=asked.delay)
    return again._replace(to_back=True, run_at=asked.run_at)


def cancelled(claim: Claim, run_us: int) -> Outcome:
    """Return the outcome of a job that was cancelled by request."""
    return _outcome(claim, "cancelled", run_us)


def failed(claim: Claim, run_us: int, error: BaseException, policy: Policy, limits: Limits) -> Outcome:
    """Return the outcome of a handler that raised, whatever its exception answers: retried by its policy, or buried."""
    try:
        return _failed(claim, run_us, error, policy, limits)
    except BaseException:  # noqa: BLE001  a job's own attributes, they may raise anything
        return _failed(claim, run_us, readable(error), policy, limits)


def _failed(claim: Claim, run_us: int, error: BaseException, policy: Policy, limits: Limits) -> Outcome:
    if isinstance(error, Reschedule):
        return rescheduled(claim, run_us, error)
    asked = error.delay if isinstance(error, RetryLater) else None
    if isinstance(error, RetryLater) and error.__cause__ is not None:
        error = error.__cause__
    kind = "timeout" if isinstance(error, TimeLimitExceeded | SoftTimeLimitExceeded) else "error"
    failure = failure_of(error, kind, limits.traceback)  # type: ignore[arg-type]
    own = policy.of(error)
    if claim.retry_count >= policy.limit(own, claim.max_retries) or isinstance(error, policy.never):
        return buried(claim, run_us, failure)
    delay = own.wait(claim.retry_count) if asked is None else check_delay(asked)
    return _outcome(claim, "retrying", run_us, failure, delay)


def crashed(claim: Claim, run_us: int, failure: Failure, policy: Policy) -> Outcome:
    """Return the outcome of a handler that took its own process down: retried by its policy, or buried."""
    if claim.retry_count >= claim.max_retries:
        return buried(claim, run_us, failure)
    delay = policy.wait(claim.retry_count)
    return _outcome(claim, "retrying", run_us, failure, delay)


def lost(claim: Claim, run_us: int, failure: Failure, bound: int) -> Outcome:
    """Return the outcome of an attempt whose process ended, for which the job is not known to be to blame."""
    if claim.losses + 1 >= bound:
        return buried(claim, run_us, failure)
    return _outcome(claim, "released", run_us, failure)


def lost_with_worker(worker: str, claim: Claim, run_us: int, bound: int) -> Outcome:
    """Return the outcome of an attempt that its worker gives back while it is lost itself."""
    return lost(claim, run_us, failure_of_loss(worker, claim.losses + 1, bound), bound)


def buried(claim: Claim, run_us: int, failure: Failure) -> Outcome:
    """Return the outcome of a job that goes into the dead-letter queue now."""
    return _outcome(claim, "dead", run_us, failure)


def unreadable(claim: Claim, error: Exception, limits: Limits) -> Outcome:
    """Return the outcome of a job whose stored payload is no JSON object; another attempt would not help."""
    return buried(claim, 0, failure_of(error, "invalid_payload", limits.traceback))


def payload_misfit(claim: Claim, run_us: int, error: Exception, policy: Policy, limits: Limits) -> Outcome:
    """Return the outcome of a job whose payload its handler cannot take: workers of another version may be able to.

    It is retried by the task's policy, and once more than after other failures, which may have used up its retries.
    """
    failure = failure_of(error, "invalid_payload", limits.traceback)
    if claim.retry_count > claim.max_retries:
        return buried(claim, run_us, failure)
    return _outcome(claim, "retrying", run_us, failure, max(MISFIT_SECONDS, policy.wait(claim.retry_count)))


_UNFINISHED = {CoroutineType: "a coroutine", GeneratorType: "a generator", AsyncGeneratorType: "an async generator"}


def check_finished(result: object) -> None:
    """Close what a handler returned that is work still to be done, and no result.

    Raises:
        TypeError: it is a coroutine, a generator, a future or something else that can be awaited.
    """
    kind = type(result)  # never the object itself, whose attributes may raise anything
    if not hasattr(kind, "__await__") and not issubclass(kind, GeneratorType | AsyncGeneratorType | Future):
        return
    what = _UNFINISHED.get(kind, f"an object of the type '{type_name(kind)}'")
    if isinstance(result, CoroutineType | GeneratorType):
        result.close()  # else Python warns that it was never awaited
    if isinstance(result, GeneratorType | AsyncGeneratorType):
        raise TypeError(f"the handler returned {what}, whose body nothing runs: return list(…) of it, or run it")
    raise TypeError(
        f"the handler returned {what}, which nothing awaits: make it an 'async def' that awaits it, or let what wraps "
        "the 'async def' be one"
    )


def raisable(error: BaseException) -> BaseException:
    """Return what a coroutine raises for an error of its handler's thread: of some, it would take its own end."""
    if not issubclass(type(error), StopIteration | GeneratorExit):
        return error
    instead = RuntimeError(f"the handler raised {type_name(type(error))}")
    instead.__cause__ = error
    return instead


def time_limit_error(seconds: float, cause: BaseException, thread: int | None) -> TimeLimitExceeded:
    """Return the error of an attempt that ran too long, saying where it was.

    A coroutine's place is in the traceback of its cancellation; a thread's is read off the thread, which goes on.
    """
    error = TimeLimitExceeded(f"ran longer than its time limit of {seconds:g} s")
    error.__cause__ = cause
    if thread is not None:
        frame = sys._current_frames().get(thread)
        if frame is not None:
            error.add_note("its thread was at:\n" + cut(_stack(frame), 8 << 10))
    return error


def _stack(frame: FrameType) -> str:
    return "".join(traceback.format_stack(frame))
