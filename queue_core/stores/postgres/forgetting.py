"""Removes the lines of jobs that are gone: a walk over all logs in the order of their key, a bounded step at a time.

A day of the history is dropped whole and the dead expire by thousands; to remove their lines in the same statement
would hold locks for as many lines as there happen to be. Nobody sees the lines of a job that is not there.
"""

from __future__ import annotations

from queue_core.stores.postgres.lane import Lane

LIMIT = 5_000
"""Lines looked at in a statement: some 15 ms."""
STEPS = 40
"""Statements in one go, so that the leader's other duties do not wait."""
START = ("00000000-0000-0000-0000-000000000000", 0)


class Forgetting:
    """One walk at a time."""

    def __init__(self, lane: Lane) -> None:
        self._lane = lane
        # the last key looked at; None: no walk is under way
        self._place: tuple[str, int] | None = None
        self._rounds = 0
        # jobs went behind the walk's back
        self._again = False

    async def run(self, gone: bool) -> None:
        """Go on with the walk, and begin one when jobs are `gone`."""
        self._rounds += 1
        if self._place is None:
            # A leader before this one may have left a walk half done. In the first round there is enough to do.
            if not gone and self._rounds != 2:
                return
            self._place = START
        else:
            self._again |= gone
        for _ in range(STEPS):
            job, number = self._place
            rows = await self._lane.run("upkeep/forget_logs", {"job": job, "number": number, "limit": LIMIT})
            if not rows or rows[0][2] < LIMIT:
                self._place, self._again = (START if self._again else None), False
                return
            self._place = rows[0][:2]
