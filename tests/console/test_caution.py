"""What is to be known before a retry: only what is true."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from jobconsole.actions.caution import Served, cautions, other_sentence, released_elsewhere, unserved
from jobconsole.actions.plan import Target, plan
from queue_core import JobQueue
from queue_core.model.filters import parse
from queue_core.model.operation import Author, ChangeOptions, Rollout
from tests.conformance.test_jobs_operations import asked, dead_jobs
from tests.tui.still import snapshot, worker

HERE = Served("mail", "send_email")


def seen(*workers: Any, paused: bool = False) -> Any:
    """Return an overview with these workers."""
    queues = [replace(queue, paused=paused) for queue in snapshot().queues if queue.name == "mail"]
    return type("Seen", (), {"workers": workers, "queues": queues})()


def one(
    number: int = 1, types: tuple[str, ...] = ("send_email",), queues: tuple[str, ...] = ("mail",), **given: Any
) -> Any:
    return replace(worker(number, 0), types=types, queues=queues, **given)


def test_a_worker_that_runs_them_is_no_news() -> None:
    assert unserved([HERE], seen(one())) == []


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        ((), "no worker is alive: the jobs wait until one is"),
        ((one(lost=True),), "no worker is alive: the jobs wait until one is"),
        (
            (one(quiet=True), one(2, lost=True)),
            "every live worker is quiet or is stopping: the jobs wait until one claims",
        ),
        ((one(quiet=True), one(2, ("other",))), "no live worker runs send_email: the jobs wait until one does"),
        ((one(types=("other",)),), "no live worker runs send_email: the jobs wait until one does"),
        ((one(queues=("other",)),), "no live worker of queue 'mail' runs send_email: the jobs wait until one does"),
    ],
)
def test_what_would_wait_is_named(workers: tuple[Any, ...], said: str) -> None:
    assert unserved([HERE], seen(*workers)) == [said]


def test_a_paused_queue_is_named() -> None:
    assert unserved([HERE], seen(one(), paused=True)) == ["queue 'mail' is paused: the jobs wait until it is resumed"]


def test_a_release_that_is_live_elsewhere_is_named() -> None:
    there = one(1, release="r124"), one(2, ("other",), release="r125"), one(3, ("other",), release="r125")
    words = released_elsewhere({"r124"}, [HERE], seen(*there))
    assert words == ["they died on r124; r125 is live on 2 workers, which run other types"]
    elsewhere = one(2, queues=("other",), release="r125")
    words = released_elsewhere({"r124"}, [HERE], seen(elsewhere))
    assert words == ["they died on r124; r125 is live on 1 worker, which runs other queues"]
    assert released_elsewhere({"r124"}, [HERE], seen(one(release="r125"))) == []
    assert released_elsewhere({"r123", "r124"}, [HERE], seen(*there)) == []


async def test_hostile_names_are_shown_harmless() -> None:
    name = "\x1b[2J"
    lines = released_elsewhere({name}, [HERE], seen(one(2, ("other",), release=f"{name}2")))
    lines += unserved([Served(name, name)], seen(one()))
    lines += unserved([Served(name, "send_email")], seen(one()))
    async with JobQueue(memory=True) as jobs:
        operation = await jobs.operations.submit(
            asked(author=Author(name, "vm"), rollout=Rollout(canary=1)), ["a", "b"]
        )
    lines.append(other_sentence(operation, 2, False))
    assert len(lines) == 4
    assert "\x1b" not in "".join(lines)
    assert all("␛[2J" in line for line in lines)


async def test_another_operation_on_the_same_jobs_is_named() -> None:
    async with JobQueue(memory=True) as jobs:
        ids = await dead_jobs(jobs, 3)
        await jobs.operations.submit(asked(rollout=Rollout(when_release="r125")), ids[:2])
        target = Target("all", wheres=(parse("status:dead"),))
        made = await plan(jobs.inspector, "retry", target)
        found = await cautions(jobs.inspector, jobs.operations, target, made)
        assert found[-1] == "#1 of ana is to retry 2 of these, too; what it has retried is skipped"
        await jobs.operations.pause(1)
        found = await cautions(jobs.inspector, jobs.operations, target, made)
        assert found[-1] == "#1 of ana is paused; resumed, it retries 2 of these, too"
        stopped = replace(await jobs.operations.get(1), state="stopped")
        assert other_sentence(stopped, 2, True) == "#1 of ana is stopped; resumed, it retries at least 2 of these, too"
        away = replace(made, options=ChangeOptions(queue="nowhere"))
        found = await cautions(jobs.inspector, jobs.operations, target, away)
        assert found[0] == "no live worker works on queue 'nowhere'; the jobs wait there until one does"
        assert await cautions(jobs.inspector, jobs.operations, target, replace(made, verb="delete")) == []
