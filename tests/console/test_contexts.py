"""Contexts: what may not be changed is not, thresholds are told once, queues have an hour behind them."""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import pytest

from jobconsole.core.alerts import AlertWatcher, Thresholds
from jobconsole.core.connection import Connection, ContextInfo
from jobconsole.core.rates import DEPTH_SECONDS, KEPT_DEPTHS, QueueHistory
from jobconsole.core.snapshot import Snapshot, SnapshotNeeds, read_snapshot
from queue_core import JobQueue
from queue_core.client.operations import Operations
from queue_core.client.schedules import Schedules
from queue_core.errors import ReadOnly
from queue_core.model.events import Event, EventBatch
from queue_core.model.filters import Filter
from queue_core.model.operation import VERBS, Author, OperationRequest
from queue_core.model.schedule import Announcement, Schedule
from queue_core.ports.inspector import Inspector
from tests.conformance.world import World

NIGHTLY = Schedule("nightly", "0 3 * * *", "Europe/Paris", "report", "{}", "reports")
LOOKING = {
    "attempts", "blockers", "close", "conservation", "count", "facts", "get", "ids", "jobs", "logs", "overview", "ping",
    "now", "series", "signatures", "tallies", "types", "dead_counts", "releases", "sample", "signature_deaths",
    "signature_facts", "type_runs", "saved_filters", "search", "known_signatures", "titles",
}  # fmt: skip


LOOKS_AT_OPERATIONS = {
    "changed_ids", "get", "list_for_job", "list_operations", "list_settling", "opens",
    "outcomes", "pending_ids", "stacks",
    "stage_outcomes",
}  # fmt: skip
LOOKS_AT_SCHEDULES = {"add", "get", "list", "ticks"}
ASKED = OperationRequest("delete", "x", Author("ana", "bastion-1"))
CHANGES: dict[str, tuple[Any, ...]] = {
    "change": ("retry", ["x"]),
    "pause_queue": ("mail",),
    "resume_queue": ("mail",),
    "drain_queue": ("mail",),
    "command": ("worker-1", "quiet"),
    "ask_stack": ("x",),
    "submit": (ASKED, ["x"]),
    "run": (1,),
    "executor": (),
    "record": (ASKED, None),
    "pause": (1,),
    "resume": (1,),
    "cancel": (1,),
    "undo": (1, ASKED.author),
}
SCHEDULE_CHANGES = ("announce", "pause", "resume", "trigger", "remove")


def methods(face: type) -> set[str]:
    found = {name for name, _ in inspect.getmembers(face, inspect.isfunction) if not name.startswith("_")}
    return found - {"read_only"}


async def called(face: object, name: str, *given: Any) -> None:
    await getattr(face, name)(*given)


class TestReadOnly:
    def test_every_method_is_known_to_look_or_to_change(self) -> None:
        assert methods(Inspector) == LOOKING
        assert methods(Operations) == LOOKS_AT_OPERATIONS | set(CHANGES)
        assert methods(Schedules) == LOOKS_AT_SCHEDULES | set(SCHEDULE_CHANGES)

    async def test_nothing_gets_through(self, jobs: JobQueue, world: World) -> None:
        claim = await world.ended("dead", {})
        guarded = jobs.operations.read_only()
        for name, given in CHANGES.items():
            with pytest.raises(ReadOnly, match="was refused: this connection is read-only"):
                await called(guarded, name, *given)
        for verb in VERBS:
            with pytest.raises(ReadOnly, match=f"'{verb}' was refused"):
                await guarded.change(verb, [claim.id])  # type: ignore[arg-type]
        assert (await jobs.inspector.get(claim.id)).trashed_at is None
        assert await guarded.list_operations() == []

    async def test_no_schedule_is_changed_either(self, jobs: JobQueue) -> None:
        connection = Connection(jobs, read_only=True)
        await connection.check()
        await jobs.schedule_store.announce([Announcement(NIGHTLY, 4_000_000_000.0)])
        for verb in SCHEDULE_CHANGES:
            with pytest.raises(ReadOnly, match=f"'schedule {verb}' was refused"):
                await getattr(connection.schedules, verb)(*([] if verb == "announce" else ["nightly"]))
        (planned,) = (await connection.schedules.list()).schedules
        assert (planned.schedule, planned.paused, await jobs.inspector.ids(Filter(), 10)) == (NIGHTLY, False, [])

    async def test_a_connection_hands_out_what_it_may(self, jobs: JobQueue, world: World) -> None:
        claim = await world.ended("dead", {})
        for read_only in (True, False):
            connection = Connection(jobs, read_only)
            await connection.check()
            if read_only:
                with pytest.raises(ReadOnly):
                    await connection.operations.change("retry", [claim.id])
            else:
                assert (await connection.operations.change("retry", [claim.id])).ids == (claim.id,)


class TestThresholds:
    @pytest.fixture
    async def snapshot(self, jobs: JobQueue, world: World) -> Snapshot:
        for _ in range(3):
            await world.ended("dead", {})
        await world.insert()
        return await read_snapshot(jobs.inspector, SnapshotNeeds())

    def with_dead(self, snapshot: Snapshot, dead: int) -> Snapshot:
        return dataclasses.replace(snapshot, totals=dataclasses.replace(snapshot.totals, dead=dead))

    def test_each_is_told_when_it_is_crossed(self, snapshot: Snapshot) -> None:
        assert AlertWatcher(Thresholds()).update(snapshot) == []
        told = AlertWatcher(Thresholds(dead=3, deaths=3, queued=1, oldest=0.0, lost_workers=1)).update(snapshot)
        assert told[:3] == [
            "3 dead jobs (threshold 3)",
            "3 jobs died in 15m (threshold 3)",
            "1 job ready (threshold 1)",
        ]
        assert told[3].startswith("the oldest ready job has waited")
        assert len(told) == 4

    def test_once_until_it_has_been_well_below(self, snapshot: Snapshot) -> None:
        watcher = AlertWatcher(Thresholds(dead=100))
        told = [bool(watcher.update(self.with_dead(snapshot, dead))) for dead in (99, 100, 120, 95, 100, 89, 101)]
        assert told == [False, True, False, False, False, False, True]


def test_a_word_has_a_tone() -> None:
    assert ContextInfo.of(None) == ContextInfo()
    assert [ContextInfo.of(word).tone for word in ("prod-eu", "dev")] == ["on-bad", "on-accent"]
    assert ContextInfo("prod", "PROD", "green").tone == "on-green"


async def test_an_hour_of_a_queue(jobs: JobQueue, world: World) -> None:
    await world.insert_many(5)
    queues = (await read_snapshot(jobs.inspector, SnapshotNeeds())).queues
    record = QueueHistory()
    batch = EventBatch(queues[0].name, "g", 1, 0.0, [Event("completed", queues[0].name, "a", "t")] * 20)
    record.hear(batch, 1_000.0)
    (told,) = record.update(queues, 1_001.0)
    assert (told.rate, told.history) == (2.0, (5.0, 5.0))
    for minute in range(200):
        (told,) = record.update(queues, 1_001.0 + minute * DEPTH_SECONDS)
    assert (len(told.history), told.rate) == (KEPT_DEPTHS + 1, 0.0)


def test_the_number_of_queues_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jobconsole.core.rates.MAX_QUEUES", 10)
    record = QueueHistory()
    for number in range(50):
        record.hear(EventBatch(f"q{number}", "g", 1, 0.0, [Event("completed", f"q{number}", "a", "t")]), 1.0)
    assert len(record._rates) == 10
