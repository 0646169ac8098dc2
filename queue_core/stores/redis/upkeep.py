"""The rounds of the leader: what there is to do, in few commands, and what is removed after its retention."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from queue_core.errors import StoreRefused
from queue_core.model.rules import Rules, rules_of
from queue_core.model.settings import RedisSettings, RetentionSettings
from queue_core.ports.store import DueWork
from queue_core.redis.scripts import Call
from queue_core.stores.redis.capacity import dead_holds
from queue_core.stores.redis.change import STATE_FIELDS, VerbScripts, state_of
from queue_core.stores.redis.delivery import LEADER, ORDER, RedisSignals
from queue_core.stores.redis.hints import DueHints, Presence
from queue_core.stores.redis.operations.members import OperationRemoval
from queue_core.stores.redis.operations.transit import end_moves
from queue_core.stores.redis.records import entries_of
from queue_core.stores.redis.schedules import first_tick, schedule_keys
from queue_core.stores.redis.session import JOBS_PER_SCRIPT, RedisLink, chunks

logger = logging.getLogger("queue_core.worker")

PARTS_PER_ROUND = 20
"""Parts of one kind and queue removed in one go: 10,000 jobs a second at the least."""
SERIES_SECONDS = 2 * 86400
"""How long minutes are kept."""
LOST_SECONDS = 86400
"""How long the entry of a lost worker is shown."""
SELDOM_SECONDS = 60.0
"""Seconds between two checks of what grows slowly."""
SETS_AT_ONCE = 500
"""Queues of which the sizes of sets are compared in one go: some 4 ms of the server."""
SETS_PER_ROUND = 100
"""Sets looked at in one round. While none of them has anything to remove, that is all."""
AGAIN_US = 3600 * 1_000_000
"""Microseconds after which a set is looked at again at the latest. What comes to it is newer than what is there, so it
is known when the next one leaves; but an operator may restore what died long ago."""

_Set = tuple[str, str]
"""A queue and the name of one of its sets."""
_BY_MINUTE = ("minutes", "deaths")
_NOTHING = ("",) * len(STATE_FIELDS)


class _Kept(NamedTuple):
    """How long jobs stay in a set."""

    # what they count as afterwards
    outcome: str
    microseconds: int


class _Agenda:
    """When each set of a queue next has something to remove, as far as is known: it need not be asked before."""

    def __init__(self, link: RedisLink, kept: Mapping[str, int]) -> None:
        self._link = link
        # set -> how long its members stay, in microseconds
        self._kept = kept
        # microseconds of the server's clock
        self._next: dict[_Set, int] = {}
        self._last: _Set = ("", "")

    async def due(self, queues: Sequence[str], now: int) -> list[_Set]:
        """Return sets whose first member is over its time, of those of which that is not known to be otherwise."""
        sets = ((queue, name) for queue in queues for name in self._kept)
        wanted = self._turn([one for one in sets if self._next.get(one, 0) <= now])
        commands = self._link.batch()
        for queue, name in wanted:
            commands.zrange(self._link.keys.of(queue, name), 0, 0, withscores=True)
        firsts = await self._link.send(commands) if wanted else []
        due: list[_Set] = []
        for one, first in zip(wanted, firsts, strict=True):
            # What comes to an empty set comes now or later.
            over = (_moment(one[1], first[0][1]) if first else now) + self._kept[one[1]]
            if first and over < now:
                due.append(one)
            else:
                self._next[one] = min(over + 1, now + AGAIN_US)
        return due

    def _turn(self, wanted: Sequence[_Set]) -> Sequence[_Set]:
        if len(wanted) > SETS_PER_ROUND:
            turn = [one for one in wanted if one > self._last] + [one for one in wanted if one <= self._last]
            wanted = turn[:SETS_PER_ROUND]
            self._last = wanted[-1]
        return wanted


def _moment(name: str, score: float) -> int:
    """Return the time of a member in microseconds."""
    return (int(score) >> 27) * 60_000_000 if name in _BY_MINUTE else int(score)


_STATES = ("pending", "blocked", "scheduled", "retrying", "running")
"""The sets in one of which each unfinished job is."""
_PLACES = ("unfinished", *_STATES, "completed", "cancelled", "dlq", "admitted", "order_wait")


class StateSets:
    """Puts jobs back into the sets that their states ask for.

    A script is not undone when it fails in its middle, as where the user lacks a command or a key holds something else.
    Its jobs would never run, for they are looked for in these sets, whose sizes add up to that of `unfinished` else.
    """

    def __init__(self, link: RedisLink, rules: Rules) -> None:
        self._link = link
        self._rules = rules
        self._last = ""

    async def run(self, queues: Sequence[str]) -> None:
        """Look at queues, some at a time, in turn; and at each job of those whose sizes do not agree."""
        turn = [one for one in queues if one > self._last] + [one for one in queues if one <= self._last]
        turn = turn[:SETS_AT_ONCE]
        self._last = turn[-1] if turn else ""
        calls = [Call("agree", self._link.of(queue, ("unfinished", *_STATES)), []) for queue in turn]
        for queue, agree in zip(turn, await self._link.run_many(calls), strict=True):
            if not agree:
                await self.repair(queue)

    async def repair(self, queue: str) -> None:
        """Look at each job of a queue."""
        changed, rules = 0, rules_of(self._rules, queue)
        for key in self._link.of(queue, ("unfinished", *_STATES)):
            cursor = -1
            while cursor:
                commands = self._link.batch()
                commands.zscan(key, max(cursor, 0), count=JOBS_PER_SCRIPT)
                ((cursor, found),) = await self._link.send(commands)
                for ids in chunks([job_id for job_id, _ in found]):
                    keys = self._link.of(queue, (*_PLACES, *(f"job:{job_id}" for job_id in ids)))
                    changed += await self._link.run("put_right", keys, [rules.open_keys, dead_holds(rules), *ids])
        if changed:
            logger.warning("put %d jobs of queue '%s' where their states ask for: a script has failed", changed, queue)


class RedisUpkeep:
    """One bounded round at a time."""

    def __init__(self, link: RedisLink, retention: RetentionSettings, rules: Rules) -> None:
        self._link = link
        self._verbs = VerbScripts(link, rules)
        self._operation_removal = OperationRemoval(link, retention.operations)
        self._state_sets = StateSets(link, rules)
        retentions = {
            "completed": ("expired_completed", retention.completed),
            "cancelled": ("expired_cancelled", retention.completed),
            "dlq": ("expired_dead", retention.dead),
            "trash": ("expired_dead", retention.trash),
        }
        self._kept = {
            place: _Kept(outcome, round(seconds * 1e6))
            for place, (outcome, seconds) in retentions.items()
            if seconds is not None
        }
        lasting = dict.fromkeys(_BY_MINUTE, (SERIES_SECONDS + 60) * 1_000_000)
        self._agenda = _Agenda(link, {place: kept.microseconds for place, kept in self._kept.items()} | lasting)
        self._keyed = Presence(link, "unique_expires")
        self._seldom_at = float("-inf")

    async def run(self) -> None:
        """Remove what is over its retention."""
        queues, now = await self._link.queues_and_time()
        due = await self._agenda.due(queues, now)
        await self._expire([one for one in due if one[1] in self._kept], now)
        await self._trim([one for one in due if one[1] in _BY_MINUTE], now)
        await self._forget_keys(sorted(await self._keyed.find(queues)))
        await self._operation_removal.run(now)
        await end_moves(self._link, queues, now)
        if time.monotonic() - self._seldom_at >= SELDOM_SECONDS:
            self._seldom_at = time.monotonic()
            await self._forget_workers(now)
            await self._forget_ticks(now)
            await self._state_sets.run(queues)

    async def _expire(self, wanted: Sequence[_Set], now: int) -> None:
        for _ in range(PARTS_PER_ROUND):
            commands = self._link.batch()
            for queue, place in wanted:
                before = now - self._kept[place].microseconds
                commands.zrangebyscore(
                    self._link.keys.of(queue, place), "-inf", f"({before}", start=0, num=JOBS_PER_SCRIPT
                )
            found = await self._link.send(commands) if wanted else []
            over = {key: ids for key, ids in zip(wanted, found, strict=True) if ids}
            for (queue, place), ids in over.items():
                await self._remove(queue, place, ids)
            wanted = [key for key, ids in over.items() if len(ids) == JOBS_PER_SCRIPT]

    async def _remove(self, queue: str, place: str, ids: Sequence[str]) -> None:
        """Remove jobs of a queue that are in this set. The audit finds the jobs that these release by ordering keys."""
        found = await self._link.read({queue: ids}, STATE_FIELDS)
        # An entry whose hash was deleted is removed, too.
        jobs = [state_of(job_id, queue, found.get((queue, job_id), _NOTHING)) for job_id in ids]
        await self._link.run_many([self._verbs.remove(queue, place, jobs, self._kept[place]).call])

    async def _forget_keys(self, queues: Sequence[str]) -> None:
        """Forget unique keys whose time is over; those that hold while a job is unfinished go with their job."""
        for _ in range(PARTS_PER_ROUND):
            calls = [
                Call("forget", self._link.of(queue, ("unique", "unique_expires")), [JOBS_PER_SCRIPT])
                for queue in queues
            ]
            found = await self._link.run_many(calls)
            queues = [queue for queue, n in zip(queues, found, strict=True) if n == JOBS_PER_SCRIPT]

    async def _trim(self, sets: Sequence[_Set], now: int) -> None:
        """Drop the minutes that no series shows any more."""
        first = (now // 1_000_000 - SERIES_SECONDS) // 60
        for queue, name in sets:
            await self._drop_below(self._link.keys.of(queue, name), first << 27)

    async def _forget_ticks(self, now: int) -> None:
        """Drop the ticks of schedules that passed before the completed jobs that are kept."""
        kept = self._kept.get("completed")
        if kept is None:
            return
        commands = self._link.batch()
        commands.hgetall(self._link.keys.schedules)
        (homes,) = await self._link.send(commands)
        for name, queue in homes.items():
            await self._drop_below(schedule_keys(self._link, queue, name)[2], now - kept.microseconds)

    async def _drop_below(self, key: str, score: int) -> None:
        for _ in range(PARTS_PER_ROUND):
            commands = self._link.batch()
            commands.zrangebyscore(key, "-inf", f"({score}", start=0, num=JOBS_PER_SCRIPT)
            (members,) = await self._link.send(commands)
            if members:
                commands = self._link.batch()
                commands.zrem(key, *members)
                await self._link.send(commands)
            if len(members) < JOBS_PER_SCRIPT:
                break

    async def _forget_workers(self, now: int) -> None:
        commands = self._link.batch()
        commands.hgetall(self._link.keys.workers)
        (entries,) = await self._link.send(commands)
        first = now - LOST_SECONDS * 1_000_000
        heard = {worker for worker, entry in entries_of(entries).items() if entry.heartbeat_at >= first}
        gone = entries.keys() - heard
        if gone:
            commands = self._link.batch()
            commands.hdel(self._link.keys.workers, *gone)
            await self._link.send(commands)


SWEEP = "sweep"
"""The duty whose leader all processes hear of."""
TICKS_KNOWN = 10.0
"""Seconds for which the next tick is known while notifications of changed schedules arrive."""


class Leadership:
    """Of one process, whether it leads or not."""

    def __init__(self, link: RedisLink, settings: RedisSettings) -> None:
        self._link = link
        self.hints = self._hints = DueHints(link)
        self.signals = self._signals = RedisSignals(settings)
        self._pending = Presence(link, "pending")
        self._paused = Presence(link, "paused")
        # the names of all queues, as of the last repair or round of the audit
        self._names: list[str] | None = None
        # the worker of this process that leads the sweeps, as far as is known, and until which time.monotonic
        self._leader, self._leads_until = "", 0.0
        # the next tick in microseconds of the server's clock, and the time.monotonic at which it was read
        self._tick: tuple[float | None, float] = (None, float("-inf"))

    async def close(self) -> None:
        """Stop listening, and put back what was taken; doing it twice is safe."""
        await self.signals.close()
        await self.hints.settled()

    async def acquire_leadership(self, duty: str, worker: str, seconds: float) -> bool:
        notification = ["", ""]
        if duty == SWEEP:
            self._signals.start()
            notification = [self._link.keys.notifications, f"{LEADER} {worker}"]
        args, sent = [duty, worker, round(seconds * 1e6), *notification], time.monotonic()
        leads = bool(await self._link.run("lead", [self._link.keys.leaders], args))
        if duty == SWEEP:
            # The one before may have been killed between a change and its hint.
            took_over = leads and (self._leader != worker or sent > self._leads_until)
            self._hints.doubtful = self._hints.doubtful or took_over
            self._leader, self._leads_until = worker if leads else "", sent + seconds
        return leads

    async def unregister_worker(self, worker: str, place: str) -> None:
        """Give up a worker's leaderships, and notify the others, and those at its place of its end."""
        channel = self._link.keys.notifications
        await self._link.run("resign", [self._link.keys.leaders], [worker, SWEEP, channel, f"{LEADER} "])
        commands = self._link.batch()
        commands.publish(channel, f"{ORDER} {place}")
        with suppress(StoreRefused):  # not allowed: then no worker rests that would need the message
            await self._link.send(commands)

    async def next_work(self) -> DueWork:
        """Return what a leader has to do."""
        if self._names is None or self._hints.doubtful:
            await self.repair()
        commands = self._link.batch()
        for name in ("unfinished", "uncounted"):
            commands.zcard(self._link.keys.operations_in(name))
        # At a time: a job that is due waits for this.
        (now, due, lease), busy, operations = await asyncio.gather(
            self._hints.first(), self._pending.any(self._names or []), self._link.send(commands)
        )
        tick = await self._next_tick(now)
        return DueWork(_until(due, now), _until(tick, now), busy, False, any(operations), _until(lease, now))

    async def _next_tick(self, now: int) -> float | None:
        tick, read_at = self._tick
        known = self._signals.hears() and not self._signals.ticks_changed and time.monotonic() - read_at < TICKS_KNOWN
        if known and (tick is None or tick > now):
            return tick
        self._signals.ticks_changed = False
        tick = await first_tick(self._link)
        self._tick = tick, time.monotonic()
        return tick

    async def repair(self) -> None:
        """Learn the names of all queues, and note what has lost its hint."""
        self._names, _ = await self._link.queues_and_time()
        await self._hints.repair(self._names)

    async def ready_queues(self) -> list[str]:
        """Return the queues that are not paused and have ready jobs."""
        self._names, _ = await self._link.queues_and_time()
        ready = sorted(await self._pending.find(self._names))
        paused = await self._paused.find(ready, whole=True) if ready else set()
        return [queue for queue in ready if queue not in paused]

    async def queues(self) -> dict[str, bool]:
        names, _ = await self._link.queues_and_time()
        paused = await Presence(self._link, "paused").find(names, whole=True)
        return {name: name in paused for name in names}


def _until(at: float | None, now: int) -> float | None:
    return None if at is None else (at - now) / 1e6
