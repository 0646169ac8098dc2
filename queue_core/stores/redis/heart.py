"""The heartbeat's own blocking connection, used by one thread."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import redis
from redis.exceptions import NoScriptError, RedisError, ResponseError

from queue_core.redis.client import keys_of, make_thread_client
from queue_core.redis.scripts import Call, digest, source
from queue_core.settings import RedisSettings
from queue_core.store import Beat, BeatReply, Neighbour, Stray, WorkerBeat
from queue_core.stores.redis.link import PACKAGE, chunks, unavailable
from queue_core.stores.redis.news import DUE, ORDER
from queue_core.stores.redis.records import entry_text

HOMES = 10_000
"""Jobs whose queues are remembered; a worker holds fewer at a time."""


DAY = 86400


class RedisHeart:
    """A few round trips a heartbeat: the worker's entry and its orders, its leases, who is to be cancelled."""

    def __init__(self, settings: RedisSettings) -> None:
        self._settings = settings
        self._keys = keys_of(settings)
        self._client: redis.Redis | None = None
        # the queues of jobs that were held some time
        self._homes: dict[str, str] = {}
        # the worker whose process others find at its place
        self._placed = ""

    def beat(self, beat: WorkerBeat) -> BeatReply:
        """Prolong the leases that still hold and renew the worker's entry.

        Raises:
            StoreUnavailable: no connection or no answer in time.
        """
        try:
            return self._beat(beat)
        except (RedisError, OSError) as error:
            self.close()
            raise unavailable(error) from error

    def _beat(self, beat: WorkerBeat) -> BeatReply:
        (order,) = self._run([Call("beat", [self._keys.workers], [beat.worker, entry_text(beat)])])
        if beat.process and self._placed != beat.worker:
            self._show(beat)
        queues = sorted(self._names() if beat.held_in is None else beat.held_in)
        homes = self._find(beat.leases, queues)
        groups: dict[str, list[Beat]] = {}
        for lease in beat.leases:
            if lease.id in homes:
                groups.setdefault(homes[lease.id], []).append(lease)
        parts = [(queue, part) for queue, leases in groups.items() for part in chunks(leases)]
        held = self._run([self._extend(queue, part, beat.lease) for queue, part in parts])
        kept = {
            (lease.id, lease.token)
            for (_, part), answers in zip(parts, held, strict=True)
            for lease, answer in zip(part, answers, strict=True)
            if answer
        }
        self._remember({job_id: homes[job_id] for job_id, _ in kept})
        lost = tuple(lease.id for lease in beat.leases if (lease.id, lease.token) not in kept)
        return BeatReply(
            lost,
            tuple(self._unwanted(beat.worker, queues)),
            order,
            self._neighbours(beat) if beat.look else None,
            tuple(self._strays(beat)) if beat.doubts else (),
        )

    def hand_back(self, worker: str, begun: Sequence[str]) -> None:
        """End the leases of a worker but for these jobs, as not begun.

        Raises:
            StoreUnavailable: no connection or no answer in time.
        """
        try:
            ended: list[int | str] = []
            for queue in self._names():
                mine = [job_id for job_id, (whose, *_) in self._running(queue).items() if whose == worker]
                keys = [self._keys.of(queue, "running")]
                for part in chunks([job_id for job_id in mine if job_id not in begun]):
                    self._run_one("end", keys + self._keys.jobs(queue, part), [worker, 1, *part])
                    ended += [0, queue]
            if ended:
                self._run_one("hint", [self._keys.hints("leases")], [self._keys.news, DUE, "1", *ended])
        except (RedisError, OSError) as error:
            self.close()
            raise unavailable(error) from error

    def _running(self, queue: str) -> dict[str, list[Any]]:
        """Return worker, claim, token, type and ordering key of a queue's running jobs; there are never many."""
        ids: Any = self._connected().zrange(self._keys.of(queue, "running"), 0, -1)
        found: dict[str, list[Any]] = {}
        for part in chunks(ids):
            rows = self._run_one(
                "read", self._keys.jobs(queue, part), ["worker", "claim", "token", "type", "ordering_key"]
            )
            found.update({job_id: row for job_id, row in zip(part, rows, strict=True) if row})
        return found

    def _strays(self, beat: WorkerBeat) -> Iterator[Stray]:
        numbers = {str(doubt.number) for doubt in beat.doubts}
        for queue in {doubt.queue for doubt in beat.doubts}:
            for job_id, (worker, claim, token, type_, key) in self._running(queue).items():
                if worker == beat.worker and (claim or "").partition(".")[0] in numbers:
                    yield Stray(job_id, int(token), queue, type_ or "", key)

    def _show(self, beat: WorkerBeat) -> None:
        """Let others at this worker's place know of its process."""
        key = self._keys.residents(beat.place)
        self._connected().hset(key, beat.worker, beat.process)
        self._connected().expire(key, DAY)
        with suppress(ResponseError):  # not allowed: then nobody rests who would have to hear of it
            self._connected().publish(self._keys.news, f"{ORDER} {beat.place}")
        self._placed = beat.worker

    def _neighbours(self, beat: WorkerBeat) -> tuple[Neighbour, ...]:
        found: Any = self._connected().hgetall(self._keys.residents(beat.place))
        if beat.worker not in found:  # the server has forgotten it
            self._placed = ""
        return tuple(Neighbour(worker, process) for worker, process in found.items() if worker != beat.worker)

    def _names(self) -> Iterable[str]:
        names: Any = self._connected().smembers(self._keys.queues)
        return names  # type: ignore[no-any-return]

    def _find(self, leases: Sequence[Beat], queues: Iterable[str]) -> dict[str, str]:
        """Return the queue of each job, looking for those that the last heartbeat did not hold."""
        homes = {lease.id: self._homes[lease.id] for lease in leases if lease.id in self._homes}
        unknown = [lease.id for lease in leases if lease.id not in homes]
        places = [(queue, part) for queue in queues for part in chunks(unknown)]
        calls = [Call("read", self._keys.jobs(queue, part), ["status"]) for queue, part in places]
        for (queue, part), rows in zip(places, self._run(calls), strict=True):
            homes.update({job_id: queue for job_id, row in zip(part, rows, strict=True) if row})
        return homes

    def _remember(self, homes: dict[str, str]) -> None:
        """Keep in mind where jobs are; they are found again where this forgets them."""
        if len(self._homes) > HOMES:
            self._homes.clear()
        self._homes |= homes

    def _extend(self, queue: str, leases: Sequence[Beat], seconds: float) -> Call:
        keys = [self._keys.of(queue, "running"), *self._keys.jobs(queue, (lease.id for lease in leases))]
        args: list[Any] = [round(seconds * 1e6)]
        for lease in leases:
            progress = "" if lease.progress is None else lease.progress
            args += (lease.id, lease.token, progress, lease.message, int(lease.begun))
        return Call("extend", keys, args)

    def _unwanted(self, worker: str, queues: Sequence[str]) -> list[str]:
        """Return the ids of this worker's jobs that somebody asked to cancel."""
        commands = self._connected().pipeline(transaction=False)
        for queue in queues:
            commands.hgetall(self._keys.of(queue, "cancelling"))
        return [job_id for asked in commands.execute() for job_id, whose in asked.items() if whose == worker]

    def _run(self, calls: Sequence[Call]) -> list[Any]:
        """Run scripts one after the other; a heartbeat has few of them."""
        return [self._run_one(*call) for call in calls]

    def _run_one(self, name: str, keys: Sequence[str], args: Sequence[Any]) -> Any:
        client = self._connected()
        try:
            return client.evalsha(digest(PACKAGE, name), len(keys), *keys, *args)
        except NoScriptError:
            return client.eval(source(PACKAGE, name), len(keys), *keys, *args)

    def _connected(self) -> redis.Redis:
        if self._client is None:
            self._client = make_thread_client(self._settings)
        return self._client

    def close(self) -> None:
        """Give the connection back; doing it twice is safe."""
        client, self._client = self._client, None
        if client is not None:
            client.close()
