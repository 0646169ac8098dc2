"""The loop that sends gaps ends with its owner, whatever becomes of the last ones."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from queue_core.delivery.gaps import GapNotices
from queue_core.errors import StoreUnavailable


async def test_nothing_is_sent_after_the_end() -> None:
    """What could not be sent at the end was noted again, for a loop of its own."""
    tried: list[list[str]] = []

    async def fail(queues: Sequence[str]) -> None:
        tried.append(list(queues))
        notices.note(queues)
        raise StoreUnavailable("postgres", "away")

    notices = GapNotices(fail)
    before = asyncio.all_tasks()
    notices.note(["a"])
    await notices.close()
    assert tried == [["a"]]
    assert asyncio.all_tasks() == before
    await notices.close()
    assert tried == [["a"]]
