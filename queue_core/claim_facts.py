"""The facts of a claim that a handler's context and a job claimed by hand both tell."""

from __future__ import annotations

from queue_core.job import Claim, attempt_of


class ClaimFacts:
    """The facts of a claim, under the names that programs use."""

    __slots__ = ("_claim",)

    def __init__(self, claim: Claim) -> None:
        self._claim = claim

    @property
    def token(self) -> int:
        """The lease token of this attempt: higher than that of every attempt before."""
        return self._claim.token

    @property
    def type(self) -> str:
        """The job's type, which is its task's name."""
        return self._claim.type

    @property
    def queue(self) -> str:
        """The queue that the job came from."""
        return self._claim.queue

    @property
    def priority(self) -> int:
        """The job's priority."""
        return self._claim.priority

    @property
    def tags(self) -> tuple[str, ...]:
        """The job's tags."""
        return self._claim.tags

    @property
    def attempt(self) -> int:
        """1 for the first attempt; crashes and losses count, releases do not."""
        return attempt_of(self._claim)

    @property
    def max_retries(self) -> int:
        """How often the job may be retried."""
        return self._claim.max_retries

    @property
    def ordering_key(self) -> str | None:
        """The key under which jobs of this queue run one at a time and in order, if it has one."""
        return self._claim.ordering_key
