"""`queue drain`: closed to new jobs, emptied or moved away, and opened again."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable

import psycopg
import pytest

from tests.cli.conftest import Scene, Shop
from tests.cli.running import PATIENCE, Cli, untargeted
from tests.cli.scenes import await_operation, operation, operations
from tests.conformance.world import World


async def three_waiting(world: World) -> None:
    """Two ready jobs and a delayed one in `work`, one in `slow`."""
    await world.insert_many(2)
    await world.insert(delay=3600)
    await world.insert(queue="slow")


@pytest.fixture
def full(shop: Shop) -> Shop:
    shop.play(three_waiting)
    return shop


def states(shop: Shop) -> dict[str, tuple[str, bool, int]]:
    queues = shop("queue", "list", "--json").body["queues"]
    return {one["name"]: (one["state"], one["closed"], one["pending"]) for one in queues}


def enqueue(shop: Shop, queue: str) -> tuple[int, str]:
    answer = shop("job", "enqueue", "send", json.dumps({"to": "x"}), "--queue", queue)
    return answer.code, untargeted(answer.err)


def test_it_refuses_new_jobs_until_it_is_opened(full: Shop) -> None:
    answer = full("queue", "drain", "work", "--detach", "--why", "another host")
    assert (answer.code, answer.out) == (0, "1\n")
    assert "no live worker takes jobs from 'work': 3 jobs stay in it until one does" in answer.err
    assert states(full) == {"work": ("draining", True, 3), "slow": ("open", False, 1)}
    assert "draining" in full("queue", "list").out
    code, said = enqueue(full, "work")
    assert (code, said.splitlines()[-1]) == (
        5,
        "jobconsole: queue 'work' is closed and takes no new jobs; 'queue resume' opens it",
    )
    assert enqueue(full, "slow")[0] == 0
    found = operation(full, 1)
    assert {name: found[name] for name in ("verb", "label", "why", "state", "total", "done")} == {
        "verb": "drain", "label": "queue work", "why": "another host", "state": "running", "total": 3, "done": 0,
    }  # fmt: skip
    assert full("queue", "resume", "work").out == "resumed work\n"
    assert operation(full, 1)["note"] == "the queue was opened"
    assert enqueue(full, "work")[0] == 0


def test_one_job_is_no_several(full: Shop) -> None:
    answer = full("queue", "drain", "slow", "--detach")
    assert "no live worker takes jobs from 'slow': 1 job stays in it until one does" in answer.err


def test_what_waits_is_moved_and_comes_back(full: Shop) -> None:
    answer = full("queue", "drain", "work", "--move-to", "slow")
    assert (answer.code, answer.out) == (0, "#1 drain: done, drained 3 of 3 jobs\n")
    assert states(full) == {"work": ("closed", True, 0), "slow": ("open", False, 4)}
    assert [(one["verb"], one["label"], one["why"]) for one in operations(full)] == [
        ("move", "queue work", "drains #1"),
        ("drain", "queue work", ""),
    ]
    assert full("op", "undo", "1", "--dry-run").out == "would undo #1: the drain of 3 jobs\n"
    answer = full("op", "undo", "1")
    assert answer.out == ("#3 undoes #1: queue work takes new jobs again\n#4 move: done, changed 3 of 3 jobs\n")
    assert states(full) == {"work": ("open", False, 3), "slow": ("open", False, 1)}
    *_, moved, drained = full("op", "list").out.splitlines()
    assert "undone by #4" in moved
    assert "undone by #3" in drained
    assert "3 of 3 drained" in drained


def test_a_move_into_a_queue_that_is_new_and_unserved_is_asked_about(full: Shop) -> None:
    """The queue stays open until it is answered."""
    words = ["queue", "drain", "work", "--move-to", "slwo"]
    where = "move what waits in 'work' into queue 'slwo', which is new and on which no live worker works"
    refused = full(*words)
    assert (refused.code, states(full)["work"][0]) == (5, "open")
    assert f"refused to {where} without --yes" in refused.err
    answer = full(*words, typed="n\n")
    assert (answer.code, states(full)["work"][0]) == (5, "open")
    assert f"{where}? [y/N] " in answer.err
    assert full(*words, "--dry-run").code == 0
    assert full(*words, "--yes").code == 0


def test_one_that_was_opened_or_drained_again_is_not_undone(full: Shop) -> None:
    refused = "jobconsole: operation #1 is not undone: queue work is open, or was drained again since\n"
    full("queue", "drain", "work", "--detach")
    full("queue", "resume", "work")
    answer = full("op", "undo", "1")
    assert (answer.code, untargeted(answer.err)) == (1, refused)
    full("queue", "drain", "work", "--detach")
    answer = full("op", "undo", "1")
    assert (answer.code, untargeted(answer.err)) == (1, refused)
    assert states(full)["work"] == ("draining", True, 3)


def test_it_is_rehearsed(full: Shop) -> None:
    assert full("queue", "drain", "work", "--dry-run").out == "would drain work: 3 jobs to go\n"
    moved = full("queue", "drain", "work", "--dry-run", "--move-to", "slow")
    assert moved.out == "would drain work: 3 jobs to go, 3 jobs would move to slow\n"
    body = full("queue", "drain", "work", "--dry-run", "--json").body
    assert body == {
        "version": 1, "dry_run": True, "verb": "drain", "matched": 3, "names": ["work"], "move_to": None,
    }  # fmt: skip
    assert states(full)["work"] == ("open", False, 3)


def test_what_cannot_be(file_shop: Shop) -> None:
    file_shop.play(three_waiting)
    assert file_shop("queue", "drain", "nowhere").code == 4
    same = file_shop("queue", "drain", "work", "--move-to", "work")
    assert (same.code, untargeted(same.err).splitlines()[-1]) == (
        2,
        "jobconsole: what waits in 'work' cannot be moved to 'work'",
    )
    assert states(file_shop)["work"][0] == "open"


def test_interrupted_it_leaves_the_queue_closed(file_shop: Shop) -> None:
    file_shop.play(three_waiting)
    process = file_shop.cli.start("queue", "drain", "work")
    await_operation(file_shop, 1, lambda one: one["total"] > 0)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "'work' stays closed, and workers go on; 'jobconsole op undo 1' opens it" in said
    assert states(file_shop)["work"] == ("draining", True, 3)


def test_interrupted_before_it_has_a_number_it_tells_what_may_be(
    cli: Cli, play: Callable[[Scene], None], postgres_url: str
) -> None:
    play(three_waiting)
    with psycopg.connect(postgres_url) as hand, psycopg.connect(postgres_url, autocommit=True) as watch:
        hand.execute("lock table jobconsole.operations in exclusive mode")
        process = cli.start("queue", "drain", "work")
        while not watch.execute("select 1 from pg_locks where not granted").fetchall():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert "'work' may be closed by now; 'jobconsole op list' shows its drain then, 'op undo' opens it" in said


def test_a_drain_that_was_opened_has_failed(file_shop: Shop) -> None:
    file_shop.play(three_waiting)
    process = file_shop.cli.start("queue", "drain", "work")
    await_operation(file_shop, 1, lambda one: one["total"] > 0)
    assert file_shop("queue", "resume", "work").code == 0
    out, _ = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (
        1,
        "#1 drain: cancelled, drained 0 of 3 jobs; the queue was opened\n",
    )
