"""The claims of one worker: each has a number, and those whose answers did not come are remembered.

The store may have carried such a claim out, and given jobs to this worker of which it knows nothing; or it may yet do
so. The heartbeat asks for what came of it, and that is released. Where another server has taken over, such as a replica
that had the claim of a job and not its end, it asks for what came of all claims.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from threading import Lock
from typing import Protocol

from queue_core.model.job import Claim, Outcome
from queue_core.ports.store import ClaimRequest, Doubt
from queue_core.worker.attempt import RunningAttempt

ASK_OFTEN_SECONDS = 15.0
"""Seconds after a failed claim during which each heartbeat asks; later each one that renews all leases."""
KEEP_SECONDS = 600.0
"""Seconds after which it is taken for not carried out: a server may have been frozen with it, but for how long?"""
MAX_NUMBER = 2**31 - 1
"""The last number of a claim: what the integer of a database holds."""
MAX_CLAIMS = 1000
"""Claims in doubt that are remembered: the newest."""


class Claims:
    """Used by the event loop and by the heartbeat's thread."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._last = 0
        # number -> queue of those on their way
        self._open: dict[int, str] = {}
        # those of them whose answers come too late
        self._void: set[int] = set()
        # number -> its queue and when it failed, in seconds of time.monotonic
        self._failed: dict[int, tuple[str, float]] = {}
        # the last claim before another server took over, and when that was noted, in seconds of time.monotonic
        self._taken_over: tuple[int, float] = 0, float("-inf")

    def begin(self, queue: str, number: int = 0) -> int:
        """Return the number of a claim that is about to be sent; one that is sent again keeps its number."""
        with self._lock:
            if not number:
                # From 1 again: at 1,000 a second the last one comes after 25 days.
                self._last = number = self._last % MAX_NUMBER + 1
            self._open[number] = queue
            return number

    def answered(self, number: int) -> bool:
        """Note that its answer is there; False: it came too late, and is in doubt like a failed one."""
        with self._lock:
            if number not in self._void:
                return self._open.pop(number, None) is not None
        self.failed(number)
        return False

    def void(self) -> tuple[bool, int]:
        """Accept the answers no more that have not been read yet; return whether there are any, and the last number."""
        with self._lock:
            self._void |= self._open.keys()
            return bool(self._open), self._last

    def failed(self, number: int) -> None:
        """Note that no answer will come."""
        with self._lock:
            queue = self._open.pop(number, None)
            self._void.discard(number)
            if queue is not None:
                self._failed.pop(number, None)
                self._failed[number] = (queue, time.monotonic())
                if len(self._failed) > MAX_CLAIMS:
                    del self._failed[next(iter(self._failed))]

    def forget(self, number: int) -> None:
        """Note that the answer to a claim in doubt has come after all."""
        with self._lock:
            self._failed.pop(number, None)

    def note_takeover(self) -> None:
        """Note that another server has taken over, which may lack the ends of any jobs that were claimed before."""
        with self._lock:
            self._taken_over = self._last, time.monotonic()

    def doubt_until(self) -> int:
        """Return the number up to which to ask for all claims now but those on their way; 0: not at all."""
        with self._lock:
            number, since = self._taken_over
            if time.monotonic() - since >= ASK_OFTEN_SECONDS:
                return 0
            return min([number, *(one - 1 for one in self._open)])

    def doubts(self, full: bool) -> list[Doubt]:
        """Return the claims to ask for now; of those that are on their way again the answer may just be read."""
        with self._lock:
            now = time.monotonic()
            if self._failed:
                self._failed = {n: one for n, one in self._failed.items() if now - one[1] < KEEP_SECONDS}
            return [
                Doubt(queue, number)
                for number, (queue, since) in self._failed.items()
                if number not in self._open and (full or now - since < ASK_OFTEN_SECONDS)
            ]


class Successors(Protocol):
    """Who takes jobs that are claimed in the trip that ends others; see `queue_core.worker.fetcher`."""

    # queue -> how many of its jobs may run at a time
    concurrencies: dict[str, int]

    def ask(self, outcomes: Sequence[Outcome], held: Mapping[str, RunningAttempt]) -> Sequence[ClaimRequest]:
        """Return what to claim behind these ends; their answer goes to `take_over` or `give_up`."""
        ...

    def take_over(self, requests: Sequence[ClaimRequest], claims: Sequence[Claim]) -> Sequence[Claim]:
        """Accept the claims that came of it; return those that were in time."""
        ...

    def give_up(self, requests: Sequence[ClaimRequest]) -> None:
        """Note that no answer has come."""
        ...

    def note_ended(self, outcomes: Sequence[Outcome], claims: Sequence[Claim]) -> None:
        """Note the ends that are stored, and what was claimed behind them."""
        ...
