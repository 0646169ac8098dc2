"""What a store adds that can claim jobs in the trip in which it ends others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from queue_core.model.job import Claim, Outcome, Settled
from queue_core.ports.store import ClaimRequest


def restrict_to_unblocked(request: ClaimRequest, settled: Iterable[Settled]) -> ClaimRequest:
    """Return a request for the jobs that these ends unblocked, where it names ids; else as it is."""
    if request.ids is None:
        return request
    return request._replace(ids=[one.id for end in settled for one in end.unblocked if one.queue == request.queue])


@runtime_checkable
class HandoverStore(Protocol):
    """A store in which the end of a job and the claim of the next one take one trip."""

    async def settle_and_claim(
        self, outcomes: Sequence[Outcome], requests: Sequence[ClaimRequest]
    ) -> tuple[list[Settled], list[Claim]]:
        """End attempts as `settle` does, and then claim as `claim` does, for one request a queue.

        A request without ids is for the best ranks; one with any ids, an empty list above all, is for the jobs that
        these ends unblocked. The claims are hints of speed: there may be fewer than a claim of its own would find.

        Raises:
            StoreUnavailable: as of `settle`; the ends may be stored or not, and jobs claimed or not.
        """
        ...
