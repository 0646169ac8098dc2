"""The heartbeat's way into the memory store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf

from queue_core.store import Beat, BeatReply, Neighbour, Stray, WorkerBeat
from queue_core.stores.memory.rows import JobRow, Lease, WorkerRow
from queue_core.stores.memory.state import MemoryState


class MemoryHeart:
    """Prolongs leases and keeps the worker's entry; called from the heartbeat's thread."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state

    def beat(self, beat: WorkerBeat) -> BeatReply:
        """Prolong the leases that still hold, record their progress, and renew the worker's entry."""
        with self._state.lock:
            now = self._state.clock.now()
            held = {one.id: lease for one in beat.leases if (lease := self._held(one)) is not None}
            for one in beat.leases:
                if one.id in held:
                    _renew(held[one.id], one, now + beat.lease)
            return BeatReply(
                lost=tuple(one.id for one in beat.leases if one.id not in held),
                cancel=tuple(self._unwanted(beat.worker)),
                command=self._register(beat, now),
                neighbours=tuple(self._neighbours(beat)) if beat.look else None,
                strays=tuple(self._strays(beat)) if beat.doubts else (),
            )

    def hand_back(self, worker: str, begun: Sequence[str]) -> None:
        """End the leases of a worker but for these jobs, as not begun."""
        with self._state.lock:
            for lease in end_leases(self._state, lambda row, lease: lease.worker == worker and row.id not in begun):
                lease.begun = False

    def close(self) -> None:
        """Nothing has to be given back."""

    def _held(self, beat: Beat) -> Lease | None:
        row = self._state.running.get(beat.id)
        return row.lease if row and row.lease and row.lease.token == beat.token else None

    def _unwanted(self, worker: str) -> Iterator[str]:
        for row in self._state.running.values():
            if row.lease and row.lease.worker == worker and row.lease.cancel:
                yield row.id

    def _neighbours(self, beat: WorkerBeat) -> Iterator[Neighbour]:
        for worker, row in self._state.workers.items():
            if worker != beat.worker and row.beat.place == beat.place and row.beat.process:
                yield Neighbour(worker, row.beat.process)

    def _strays(self, beat: WorkerBeat) -> Iterator[Stray]:
        numbers = {doubt.number for doubt in beat.doubts}
        for row in self._state.running.values():
            if row.lease and row.lease.worker == beat.worker and row.lease.claim in numbers:
                yield Stray(row.id, row.lease.token, row.queue, row.given.type, row.key)

    def _register(self, beat: WorkerBeat, now: float) -> str:
        entry = self._state.workers.setdefault(beat.worker, WorkerRow(beat, now, now))
        entry.beat, entry.heartbeat_at = beat, now
        command, entry.command = entry.command, ""
        return command


def end_leases(state: MemoryState, which: Callable[[JobRow, Lease], bool]) -> list[Lease]:
    """Let leases end now, so that the next reclaim takes their jobs back; return them. For who holds the lock."""
    ended = [row.lease for row in state.running.values() if row.lease and which(row, row.lease)]
    for lease in ended:
        lease.expires_at = -inf
    return ended


def _renew(lease: Lease, beat: Beat, expires_at: float) -> None:
    lease.expires_at = expires_at
    lease.begun = lease.begun or beat.begun
    if beat.progress is not None:
        lease.progress = max(lease.progress, min(beat.progress, 100))
        lease.message = beat.message
