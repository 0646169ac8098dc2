"""Where jobs may be moved, and what is said about a target beforehand."""

from __future__ import annotations

import pytest

from jobconsole.actions.plan import offered, options_of, warnings
from jobconsole.core.rows import QueueLine
from jobconsole.core.snapshot import SnapshotNeeds, read_snapshot
from queue_core import JobQueue
from queue_core.errors import InvalidArgument, InvalidJob
from queue_core.model.operation import ChangeOptions
from queue_core.model.text import safe
from tests.conformance.world import World


def line(name: str) -> QueueLine:
    """Return a queue without jobs."""
    return QueueLine(name, safe(name), False, 0, 0, 0, 0, 0, 0, 0, None)


def test_queues_that_begin_with_what_was_typed_come_first() -> None:
    queues = [line(name) for name in ("bulk-mail", "crm", "Mail", "mailing")]
    assert [queue.name for queue in offered(queues, "mail")] == ["Mail", "mailing", "bulk-mail"]
    assert len(offered(queues, "")) == 4


def test_a_name_that_cannot_be_shown_as_it_is_cannot_be_chosen() -> None:
    assert [queue.name for queue in offered([line("a\u202eb"), line("ab")], "")] == ["ab"]


def test_what_is_left_out_stays_as_it_is() -> None:
    assert options_of(" mail ", None) == ChangeOptions(queue="mail")
    assert options_of("", 7) == ChangeOptions(priority=7)
    with pytest.raises(InvalidArgument):
        options_of(" ", None)
    with pytest.raises(InvalidJob):
        options_of("{mail}", None)


async def test_what_is_known_of_a_target(jobs: JobQueue, world: World) -> None:
    await world.beat(types=("send",), queues=("work",))
    await world.insert(queue="work")
    await world.insert(queue="idle")
    await jobs.operations.pause_queue("idle")
    snapshot = await read_snapshot(jobs.inspector, SnapshotNeeds())
    assert warnings("work", ("send",), snapshot) == []
    assert warnings("work", ("send", "other"), snapshot) == ["no live worker of 'work' runs other"]
    assert warnings("idle", (), snapshot) == [
        "'idle' is paused: jobs wait there until it is resumed",
        "no live worker takes jobs from 'idle'",
    ]
    await world.beat(types=("send",), queues=("work",), quiet=True)
    snapshot = await read_snapshot(jobs.inspector, SnapshotNeeds())
    assert warnings("work", (), snapshot) == ["no live worker takes jobs from 'work'"]
    many = tuple(f"type-{number}" for number in range(5))
    assert warnings("new\u202e", many, snapshot) == [
        "there is no queue 'new\\u202e' yet: the first moved job makes it",
        "no live worker of 'new\\u202e' runs type-0, type-1, type-2 and 2 more types",
    ]
