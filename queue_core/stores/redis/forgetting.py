"""Which operations leave Redis: those that nobody started, and those over their retention, with all their keys."""

from __future__ import annotations

from collections.abc import Iterable

from queue_core.operations import ABANDONED, NEVER_STARTED
from queue_core.stores.redis.link import CHUNK, Link
from queue_core.stores.redis.operationrows import member_of, operation_of
from queue_core.stores.redis.operationstates import move_call

ROUNDS = 20
"""Parts of members, or of operations, that are looked at in one go."""
ABANDONED_US = round(ABANDONED * 1e6)


async def abandon_operations(link: Link, now: int) -> None:
    """Cancel operations that are still preparing long after their last change."""
    preparing = await _older(link, "preparing", now - ABANDONED_US)
    await link.run_many([move_call(link, number, "cancelled", NEVER_STARTED, ABANDONED_US) for number in preparing])


async def _older(link: Link, name: str, until: int) -> list[int]:
    commands = link.batch()
    commands.zrangebyscore(link.keys.operations_in(name), "-inf", f"({until}", start=0, num=CHUNK)
    (numbers,) = await link.send(commands)
    return [int(number) for number in numbers]


class Forgetting:
    """One bounded round at a time."""

    def __init__(self, link: Link, kept: float | None) -> None:
        self._link = link
        # us that ended operations are kept; None: for ever
        self._kept = None if kept is None else round(kept * 1e6)

    async def run(self, now: int) -> None:
        """Cancel what nobody starts; forget what ended before all that is kept."""
        await abandon_operations(self._link, now)
        if self._kept is None:
            return
        rounds = ROUNDS
        for number in await _older(self._link, "ended", now - self._kept):
            rounds -= await self._forget(number, rounds)
            if rounds <= 0:
                break

    async def _forget(self, number: int, rounds: int) -> int:
        """Forget an operation, or as many of its members; return how many parts of them there were."""
        await self._hide(number)
        keys = self._link.keys
        members = keys.operation(number, "members")
        for done in range(rounds):
            commands = self._link.batch()
            commands.lrange(members, 0, CHUNK - 1)
            (texts,) = await self._link.send(commands)
            commands = self._link.snapshot()
            for key in keys.changes(member_of(text).id for text in texts):
                commands.zrem(key, number)
            commands.ltrim(members, len(texts), -1)
            if len(texts) < CHUNK:
                # Last of all, for until then the next round goes on here.
                commands.zrem(keys.operations_in("ended"), number)
                await self._link.send(commands)
                return done + 1
            await self._link.send(commands)
        return rounds

    async def _hide(self, number: int) -> None:
        """Let nobody find an operation any more."""
        keys = self._link.keys
        commands = self._link.batch()
        commands.hgetall(keys.operation(number))
        (row,) = await self._link.send(commands)
        signatures: Iterable[str] = operation_of(number, row).asked.signatures if row else ()
        commands = self._link.snapshot()
        commands.unlink(keys.operation(number), *(keys.operation(number, name) for name in ("ids", "marks")))
        names = ["unfinished", *(f"of:{signature}" for signature in signatures)]
        for key in (keys.operations, *map(keys.operations_in, names)):
            commands.zrem(key, number)
        await self._link.send(commands)
