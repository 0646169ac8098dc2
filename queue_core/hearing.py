"""The protocol of notifications: whether what others send by the server arrives in this process."""

from __future__ import annotations

from typing import Protocol


class Hearing(Protocol):
    """Notifications only save looks into the store: where they do not arrive, everybody looks."""

    @property
    def arriving(self) -> bool:
        """Whether a notification was heard lately; False until the first one."""
        ...

    @property
    def reason(self) -> str:
        """Why they do not arrive; "" while they do, and while it is not known."""
        ...

    @property
    def lost_since(self) -> float | None:
        """The seconds since the epoch since when they are known not to arrive; None: they do, or it is not known."""
        ...

    async def known(self, seconds: float) -> bool:
        """Listen, wait until it is known whether they arrive, at most so long, and return whether they do."""
        ...
