"""The heartbeat: a worker's entry and its orders, its leases, who is to be cancelled."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from redis.exceptions import NoScriptError, RedisError, ResponseError

from queue_core.model.addresses import Host
from queue_core.model.job import Stray
from queue_core.model.settings import RedisSettings
from queue_core.ports.store import HeartbeatReply, HeartbeatRequest, LeaseRenewal, Neighbour
from queue_core.redis.keys import ClusterKeys
from queue_core.redis.scripts import Call, digest, source
from queue_core.redis.threads import Nodes, ThreadClient
from queue_core.stores.redis.delivery import DUE, ORDER
from queue_core.stores.redis.logs import RedisStacks
from queue_core.stores.redis.records import entry_text
from queue_core.stores.redis.session import PACKAGE, chunks, unavailable

MAX_HOMES = 10_000
"""Attempts whose queues are remembered; a worker holds fewer at a time."""
DAY_SECONDS = 86400
NODE_WAIT_SHARE, NODE_WAIT_LEASE_SHARE = 0.5, 0.2
"""Parts of the time limit of a call, and of a lease, for which a node is waited for when another one has answered."""

_ENTRY = "entry"
"""In place of a node: the worker's entry, which belongs to no queue."""
_Attempt = tuple[str, int]


class _Held(NamedTuple):
    """What one server answers about the leases in its queues."""

    # the queues of the attempts whose leases hold
    kept: dict[_Attempt, str]
    # ids of jobs with a cancel request
    cancel: list[str]
    strays: list[Stray]
    # which server it is, and the id of its run; "" where it may not be asked for that
    server: str
    run: str


class RedisHeartbeat(RedisStacks):
    """A few round trips a heartbeat. On a cluster each node is asked in a thread of its own, and answers for itself."""

    def __init__(self, settings: RedisSettings) -> None:
        super().__init__(settings)
        self._apart = isinstance(self._keys, ClusterKeys)
        self._nodes = Nodes()
        # the queues of attempts, by id and token: a job that an operator moves comes back under another token
        self._homes: dict[_Attempt, str] = {}
        # the worker whose process others find at its place
        self._placed = ""
        # an order that was taken from the worker's entry
        self._order = ""

    def renew(self, request: HeartbeatRequest) -> HeartbeatReply:
        """Prolong the leases that still hold and renew the worker's entry.

        Raises:
            StoreUnavailable: no connection or no answer in time, of a cluster of none of its nodes.
        """
        try:
            if self._apart:
                return self._renew_apart(request)
            neighbours = self._enter(request)
            return self._reply(request, [self._hold(request, self._concerned(request))], neighbours)
        except (RedisError, OSError) as error:
            self.close()
            raise unavailable(error) from error

    def _renew_apart(self, request: HeartbeatRequest) -> HeartbeatReply:
        """Ask all nodes at a time: one that is away is to keep no lease on another one from being renewed."""
        client = self._connected()
        assert isinstance(client, ThreadClient), "which is what a cluster has"
        parts: dict[Host | None, list[str]] = {}
        for queue in {*self._concerned(request), *request.queues}:
            parts.setdefault(client.owner_of(self._keys.of(queue, "running")), []).append(queue)
        calls: dict[Hashable, Callable[[], Any]] = {_ENTRY: partial(self._enter, request)}
        calls |= {part: partial(self._hold, request, queues, part) for part, queues in parts.items()}
        patience = min(self._settings.timeout * NODE_WAIT_SHARE, request.lease * NODE_WAIT_LEASE_SHARE)
        found, failure = self._nodes.ask(calls, patience)
        if failure is not None and not found:
            raise unavailable(failure) from failure
        silent = {queue for part, queues in parts.items() if part not in found for queue in queues}
        neighbours = found.pop(_ENTRY, None)
        reply = self._reply(request, list(found.values()), neighbours, silent)
        return reply if failure is None else reply._replace(failure=unavailable(failure))

    def _reply(
        self,
        request: HeartbeatRequest,
        found: Sequence[_Held],
        neighbours: tuple[Neighbour, ...] | None,
        silent: Collection[str] = (),
    ) -> HeartbeatReply:
        """Return the answer to a heartbeat, given the queues of which nothing is known now."""
        kept = {attempt: queue for held in found for attempt, queue in held.kept.items()}
        lost: list[str] = []
        unknown: list[str] = []
        for lease in request.leases:
            attempt = lease.id, lease.token
            if attempt not in kept:
                home = self._homes.get(attempt)
                hidden = home in silent if home is not None else bool(silent)
                (unknown if hidden else lost).append(lease.id)
        self._remember(kept)
        order, self._order = self._order, ""
        return HeartbeatReply(
            tuple(lost),
            tuple(job_id for held in found for job_id in held.cancel),
            order,
            neighbours,
            tuple(stray for held in found for stray in held.strays),
            marks={held.server: held.run for held in found if held.run},
            unknown=tuple(unknown),
        )

    def _enter(self, request: HeartbeatRequest) -> tuple[Neighbour, ...] | None:
        """Renew the worker's entry and take its order; return the other workers at its place, where they are wanted."""
        (order,) = self._run([Call("beat", [self._keys.workers], [request.worker, entry_text(request)])])
        self._order = order or self._order
        if request.process and self._placed != request.worker:
            self._show(request)
        return self._neighbours(request) if request.with_neighbours else None

    def _hold(self, request: HeartbeatRequest, among: Sequence[str], server: Host | None = None) -> _Held:
        """Prolong the leases that still hold in these queues of a server, of a cluster that of this node."""
        may_hold = frozenset(self._queues_of(request))
        queues = [queue for queue in among if queue in may_hold]
        homes = self._find(request.leases, queues)
        groups: dict[str, list[LeaseRenewal]] = {}
        for lease in request.leases:
            if (lease.id, lease.token) in homes:
                groups.setdefault(homes[lease.id, lease.token], []).append(lease)
        parts = [(queue, part) for queue, leases in groups.items() for part in chunks(leases)]
        held = self._run([self._extend(queue, part, request.lease) for queue, part in parts])
        kept = {
            (lease.id, lease.token): queue
            for (queue, part), answers in zip(parts, held, strict=True)
            for lease, answer in zip(part, answers, strict=True)
            if answer
        }
        strays = list(self._strays(request, among))
        return _Held(kept, self._unwanted(request.worker, queues), strays, str(server or ""), self._run_of(server))

    def hand_back(self, worker: str, started: Sequence[str], last: int) -> None:
        """End the leases of a worker's claims up to a number but for these jobs, as not started.

        Raises:
            StoreUnavailable: no connection or no answer in time.
        """
        try:
            ended: list[int | str] = []
            for queue in self._names():
                mine = [
                    job_id
                    for job_id, (whose, claim, *_) in self._running(queue).items()
                    if whose == worker and int((claim or "0").partition(".")[0]) <= last
                ]
                keys = [self._keys.of(queue, "running")]
                for part in chunks([job_id for job_id in mine if job_id not in started]):
                    self._run_one("end_leases", keys + self._keys.jobs(queue, part), [worker, 1, *part])
                    ended += [0, queue]
            if ended:
                self._run_one("hint", [self._keys.hints("leases")], [self._keys.notifications, DUE, "1", *ended])
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

    def _strays(self, request: HeartbeatRequest, among: Sequence[str]) -> Iterator[Stray]:
        numbers = {doubt.number for doubt in request.doubts}
        doubted = {doubt.queue for doubt in request.doubts}
        for queue in [queue for queue in among if queue in doubted or request.doubt_until]:
            for job_id, (whose, name, token, type_, key) in self._running(queue).items():
                number = int((name or "0").partition(".")[0])
                if whose == request.worker and (number in numbers or 0 < number <= request.doubt_until):
                    yield Stray(job_id, int(token), queue, type_ or "", key)

    def _show(self, request: HeartbeatRequest) -> None:
        """Notify the other workers at this place of this worker's process."""
        key = self._keys.workers_of_place(request.place)
        self._connected().hset(key, request.worker, request.process)
        self._connected().expire(key, DAY_SECONDS)
        with suppress(ResponseError):  # not allowed: then no worker rests that would need the message
            self._connected().publish(self._keys.notifications, f"{ORDER} {request.place}")
        self._placed = request.worker

    def _neighbours(self, request: HeartbeatRequest) -> tuple[Neighbour, ...]:
        found: Any = self._connected().hgetall(self._keys.workers_of_place(request.place))
        if request.worker not in found:  # the server has forgotten it
            self._placed = ""
        return tuple(Neighbour(worker, process) for worker, process in found.items() if worker != request.worker)

    def _concerned(self, request: HeartbeatRequest) -> list[str]:
        """Return the queues to ask about."""
        doubted = request.queues if request.doubt_until else [doubt.queue for doubt in request.doubts]
        return sorted({*self._queues_of(request), *doubted})

    def _queues_of(self, request: HeartbeatRequest) -> list[str]:
        """Return the queues in which something may be held."""
        return sorted(self._names() if request.held_in is None else request.held_in)

    def _names(self) -> Iterable[str]:
        names: Any = self._connected().smembers(self._keys.queues)
        return names  # type: ignore[no-any-return]

    def _find(self, leases: Sequence[LeaseRenewal], queues: Sequence[str]) -> dict[_Attempt, str]:
        """Return the attempts in these queues, looking for those that the last heartbeat did not hold."""
        among = frozenset(queues)
        known = {(lease.id, lease.token): self._homes.get((lease.id, lease.token)) for lease in leases}
        homes = {attempt: home for attempt, home in known.items() if home is not None and home in among}
        unknown = [attempt for attempt, home in known.items() if home is None]
        places = [(queue, part) for queue in queues for part in chunks(unknown)]
        calls = [
            Call("read", self._keys.jobs(queue, (job_id for job_id, _ in part)), ["status"]) for queue, part in places
        ]
        for (queue, part), rows in zip(places, self._run(calls), strict=True):
            homes.update({attempt: queue for attempt, row in zip(part, rows, strict=True) if row})
        return homes

    def _remember(self, homes: Mapping[_Attempt, str]) -> None:
        """Keep in mind where attempts are; they are found again where this forgets them."""
        if len(self._homes) > MAX_HOMES:
            self._homes.clear()
        self._homes |= homes

    def _extend(self, queue: str, leases: Sequence[LeaseRenewal], seconds: float) -> Call:
        keys = [self._keys.of(queue, "running"), *self._keys.jobs(queue, (lease.id for lease in leases))]
        args: list[Any] = [round(seconds * 1e6)]
        for lease in leases:
            progress = "" if lease.progress is None else lease.progress
            args += (lease.id, lease.token, progress, lease.message, int(lease.started))
        return Call("extend", keys, args)

    def _unwanted(self, worker: str, queues: Sequence[str]) -> list[str]:
        """Return the ids of this worker's jobs with a cancel request."""
        commands = self._connected().pipeline(transaction=False)
        for queue in queues:
            commands.hgetall(self._keys.of(queue, "cancelling"))
        return [job_id for asked in commands.execute() for job_id, whose in asked.items() if whose == worker]

    def _run_of(self, server: Host | None) -> str:
        """Return the id of the run of a server, which its next start and its successor do not have; "" if unknown."""
        client = self._connected()
        try:
            found = client.info_of(server) if isinstance(client, ThreadClient) else client.info("server")
        except ResponseError:  # not allowed
            return ""
        return str(found.get("run_id", ""))

    def _run(self, calls: Sequence[Call]) -> list[Any]:
        """Run scripts one after the other; a heartbeat has few of them."""
        return [self._run_one(*call) for call in calls]

    def _run_one(self, name: str, keys: Sequence[str], args: Sequence[Any]) -> Any:
        client = self._connected()
        try:
            return client.evalsha(digest(PACKAGE, name), len(keys), *keys, *args)
        except NoScriptError:
            return client.eval(source(PACKAGE, name), len(keys), *keys, *args)

    def close(self) -> None:
        """Give the connection back; doing it twice is safe."""
        super().close()
        self._nodes.close()
