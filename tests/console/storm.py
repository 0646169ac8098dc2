"""A store in which everything happens at random, and a channel that loses, doubles and reorders what is told of it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from random import Random

from queue_core import JobQueue
from queue_core.client.effects import creation_events, events_of
from queue_core.delivery.redis_events import _judged
from queue_core.model.events import Event, EventBatch, EventName, by_queue
from queue_core.model.job import Claim
from queue_core.ports.store import ClaimRequest
from tests.conformance.making import LEASE, failure, held, new_job, outcome, worker_beat

QUEUES = ("crm", "images", "mail")
TYPES = ("resize_image", "send_email", "sync_crm")
KINDS = ("completed", "completed", "completed", "retrying", "dead", "released")
CALM = 150
"""Running jobs that a snapshot holds all of."""
CROWD = 400
"""Running jobs of which it holds the longest running only."""
ERRORS = tuple(failure(f"error {number}", signature=f"{number:012x}", title=f"error {number}") for number in range(40))


class Shop:
    """Producers, workers and operators at work; each step answers with the events that they announce."""

    def __init__(self, jobs: JobQueue, chance: Random) -> None:
        self.jobs = jobs
        self.chance = chance
        self.heart = jobs.store.open_heartbeat()
        self.running: dict[str, Claim] = {}
        self.progress: dict[str, int] = {}
        # jobs that operators may come across
        self._ended: deque[str] = deque(maxlen=400)
        self._steps = (self._enqueue, self._claim, self._claim, self._go_on, self._go_on, self._end, self._end,
                       self._operate)  # fmt: skip

    async def step(self) -> list[Event]:
        """Do something."""
        return await self.chance.choice(self._steps)()

    async def calm_down(self) -> list[Event]:
        """Have no more jobs running than a snapshot holds."""
        events: list[Event] = []
        while len(self.running) > CALM:
            events += await self._end()
        return events

    async def _enqueue(self) -> list[Event]:
        chance = self.chance
        given = {"queue": chance.choice(QUEUES), "type": chance.choice(TYPES), "priority": chance.choice((0, 5, 10))}
        if chance.random() < 0.1:
            given["delay"] = 3600.0
        new = [new_job(**given) for _ in range(chance.randint(1, 40))]
        return creation_events(new, await self.jobs.store.insert(new))

    async def _claim(self) -> list[Event]:
        await self.jobs.store.promote(100)
        room = min(CROWD - len(self.running), 30)
        if room <= 0:
            return []
        claims = await self.jobs.store.claim(
            ClaimRequest(
                queue=self.chance.choice(QUEUES), worker="worker-1", types=TYPES, lease=LEASE * 1_000, limit=room
            )
        )
        self.running |= {claim.id: claim for claim in claims}
        said = {"worker": "worker-1", "priority": 5, "attempt": 1}
        return [Event(EventName.CLAIMED, one.queue, one.id, one.type, one.token, said) for one in claims]

    async def _go_on(self) -> list[Event]:
        """Some jobs report progress: as an event at once, and to the store with a heartbeat."""
        claims = self._some(12)
        for claim in claims:
            self.progress[claim.id] = min(100, self.progress.get(claim.id, 0) + self.chance.randint(1, 30))
        beats = [held(one, self.progress[one.id], self._message(one)) for one in claims]
        self.heart.renew(worker_beat(*beats, lease=LEASE * 1_000))
        return [
            Event(
                EventName.PROGRESS, one.queue, one.id, one.type, one.token,
                {"progress": self.progress[one.id], "message": self._message(one)},
            )
            for one in claims
        ]  # fmt: skip

    async def _end(self) -> list[Event]:
        claims = self._some(20)
        ends = [outcome(claim, self.chance.choice(KINDS)) for claim in claims]
        ends = [
            end._replace(delay=0.0 if end.kind == "retrying" else end.delay, failure=self.chance.choice(ERRORS))
            if end.failure
            else end
            for end in ends
        ]
        answers = await self.jobs.store.settle(ends)
        for claim in claims:
            del self.running[claim.id]
            self.progress.pop(claim.id, None)
            self._ended.append(claim.id)
        assert all(answer.accepted for answer in answers)
        return [event for end, answer in zip(ends, answers, strict=True) for event in events_of(end, answer)]

    async def _operate(self) -> list[Event]:
        """What operators do: also to jobs that are no longer in the state for it."""
        chance = self.chance
        verb, name = chance.choice(
            (("retry", EventName.RETRIED), ("delete", EventName.DELETED), ("restore", EventName.RESTORED),
             ("purge", EventName.DELETED))
        )  # fmt: skip
        found = list(self._ended)
        operations = (await self.jobs.backend()).operations
        changed = await operations.change(verb, chance.sample(found, min(len(found), 15)))
        return [Event(name, "", job_id) for job_id in changed.ids]

    def _some(self, most: int) -> list[Claim]:
        ids = list(self.running)
        return [self.running[one] for one in self.chance.sample(ids, min(len(ids), self.chance.randint(1, most)))]

    def _message(self, claim: Claim) -> str:
        return f"{self.progress[claim.id]} of 100"


class Channel:
    """Numbers messages as the publisher does, mistreats them, and judges them as the subscriber does."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        self._numbers: dict[str, int] = {}
        self._last: dict[str, tuple[str, int]] = {}
        self._late: list[EventBatch] = []
        # messages that may come once more
        self.old: deque[EventBatch] = deque(maxlen=100)

    def send(self, events: list[Event]) -> Iterator[EventBatch]:
        """Yield what arrives now: what was sent, something older, the same twice, or nothing."""
        for queue, of_queue in by_queue(events).items():
            number = self._numbers[queue] = self._numbers.get(queue, 0) + 1
            batch = EventBatch(queue, "g", number, 0.0, of_queue)
            self.old.append(batch)
            luck = self._chance.random()
            if luck < 0.02:
                continue
            if luck < 0.05:
                self._late.append(batch)
                continue
            yield self._arrived(batch)
            if luck < 0.08:
                yield self._arrived(batch)
        if self._late and self._chance.random() < 0.1:
            yield self._arrived(self._late.pop(self._chance.randrange(len(self._late))))

    def rest(self) -> Iterator[EventBatch]:
        """Yield what is still on its way."""
        self._chance.shuffle(self._late)
        while self._late:
            yield self._arrived(self._late.pop())

    def _arrived(self, batch: EventBatch) -> EventBatch:
        return _judged(batch, self._last)
