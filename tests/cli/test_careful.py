"""Retries that begin carefully, moves, and what becomes of an operation when the command does not reach its end."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
from typing import Any

import pytest

from jobconsole.actions.plan import Plan
from jobconsole.cli.submission import submit_plan
from queue_core import JobQueue
from queue_core.client.operations import Operations
from queue_core.errors import StoreUnavailable
from queue_core.model.operation import Operation
from queue_core.stores.memory.operations import MemoryOperations
from tests.cli.conftest import Shop
from tests.cli.running import PATIENCE, untargeted
from tests.cli.scenes import (
    DEAD,
    RUNNING,
    WAITING,
    await_operation,
    four_dead,
    many_dead,
    operation,
    operations,
    status,
)
from tests.conformance.world import World


@pytest.fixture
def dead(shop: Shop) -> Shop:
    shop.play(four_dead)
    return shop


ALONE = "jobconsole: warning: no worker is alive: the jobs wait until one is\n"


async def in_the_queue_of_all(world: World) -> None:
    """A job as an earlier version took it."""
    await world.insert(queue="*")


async def end_the_canary(world: World, kind: str) -> None:
    for claim in await world.claim(types=("send",)):
        await world.settle(claim, kind)


class TestPace:
    @pytest.mark.parametrize("given", [(), ("--canary", "50"), ("--rate", "1000/s"), ("--spread", "0")])
    def test_many_are_spread_unless_somebody_says_how(self, file_shop: Shop, given: tuple[str, ...]) -> None:
        file_shop.play(many_dead(60))
        body = file_shop("dlq", "retry", "--all", *given, "--dry-run", "--json").body
        assert body["spread"] == (0.0 if given else 0.3)
        assert body["canary"] == (50 if "--canary" in given else 0)

    def test_a_rehearsal_says_how(self, dead: Shop) -> None:
        line = (
            "dlq retry --all --canary 2 --rate 90/m --stop-if 20% --delay 5m --to-queue slow --priority low --dry-run"
        )
        said = "a canary of 2 jobs first, 1.5 a second, stopped when more than 20% die again, into queue slow"
        answer = dead(*line.split())
        assert answer.out.splitlines()[0] == f"would retry 4 jobs, {said}, with priority 0, due after 5m00"
        assert operations(dead) == []

    def test_another_queue_another_priority_and_later(self, dead: Shop) -> None:
        dead.play(lambda world: world.beat(worker="lost", queues=("slow",), interval=0.001))
        answer = dead("dlq", "retry", *DEAD[:2], "--to-queue", "slow", "--priority", "7", "--delay", "1h", "--yes")
        assert (answer.code, answer.out) == (0, "retried 2 jobs\n")
        assert answer.err == (
            "jobconsole: warning: no live worker works on queue 'slow'; the jobs wait there until one does\n"
        )
        job = dead("job", "show", DEAD[0], "--json").body["job"]
        assert (job["queue"], job["priority"], job["status"]) == ("slow", 7, "scheduled")

    def test_a_canary_that_lives_lets_the_others_through(self, dead: Shop) -> None:
        process = dead.cli.start("dlq", "retry", "--signature", "aaaa", "--canary", "1", "--stop-if", "20")
        await_operation(dead, 1, lambda one: one["done"] == 1)
        assert sorted(status(dead, *DEAD)) == ["dead"] * 3 + ["queued"]
        dead.play(lambda world: end_the_canary(world, "completed"))
        out, err = process.communicate(timeout=PATIENCE)
        err = untargeted(err)
        assert (process.returncode, out, err) == (0, "retried 3 jobs\n", ALONE)
        assert sorted(status(dead, *DEAD)) == ["completed", "dead", "queued", "queued"]

    def test_a_canary_that_dies_stops_it(self, dead: Shop) -> None:
        process = dead.cli.start("dlq", "retry", "--signature", "aaaa", "--canary", "1", "--stop-if", "20")
        await_operation(dead, 1, lambda one: one["done"] == 1)
        dead.play(lambda world: end_the_canary(world, "dead"))
        out, err = process.communicate(timeout=PATIENCE)
        err = untargeted(err)
        assert (process.returncode, out) == (1, "retried 1 job\n")
        assert err.removeprefix(ALONE) == (
            "jobconsole: operation #1 was stopped after 1 of 3 jobs: 1 of 1 canary jobs died again; "
            "'jobconsole op resume 1' resumes it, 'jobconsole op cancel 1' ends it\n"
        )

    def test_nothing_to_do_is_no_operation(self, dead: Shop) -> None:
        answer = dead("dlq", "retry", "--type", "other", "--json")
        assert (answer.code, answer.body["processed"], answer.body["operation"]) == (0, 0, None)
        answer = dead("dlq", "retry", "--type", "other", "--detach")
        assert (answer.code, answer.out) == (0, "retried 0 jobs\n")
        assert operations(dead) == []


class TestNewQueue:
    """A queue that is not there yet, and on which no worker works, is perhaps a mistyped one."""

    @pytest.mark.parametrize("verb", ["dlq retry --all", "job move --queue work", "dlq move --all"])
    def test_it_is_asked_about(self, dead: Shop, verb: str) -> None:
        words = [*verb.split(), "--to-queue", "a b"]
        dead.play(lambda world: world.beat(worker="lost", queues=("a b",), interval=0.001))
        refused = dead(*words)
        assert (refused.code, refused.out, operations(dead)) == (5, "", [])
        where = "into queue 'a b', which is new and on which no live worker works"
        assert f"{where} without --yes, since standard input is no terminal" in refused.err
        answer = dead(*words, typed="n\n")
        assert (answer.code, operations(dead)) == (5, [])
        assert f"{where}? [y/N] " in answer.err
        assert dead(*words, typed="y\n").code == 0
        # It is there now.
        assert dead(*words).code == 0

    def test_a_rehearsal_does_not_ask(self, dead: Shop) -> None:
        assert dead("dlq", "retry", "--all", "--to-queue", "a b", "--dry-run").code == 0


class TestMove:
    def test_waiting_and_dead_jobs_to_another_queue(self, dead: Shop) -> None:
        dead.play(lambda world: world.beat(worker="lost", queues=("other",), interval=0.001))
        answer = dead("job", "move", "--queue", "work", "--to-queue", "other", "--why", "slow ones", "--yes")
        assert (answer.code, answer.out) == (0, "moved 5 jobs\n")
        assert "warning: no live worker works on queue 'other'; the jobs wait there until one does" in answer.err
        jobs = {job["id"]: job for job in dead("job", "list", "--json").body["jobs"]}
        assert {one: jobs[one]["queue"] for one in (DEAD[0], WAITING, RUNNING)} == {
            DEAD[0]: "other", WAITING: "other", RUNNING: "work",
        }  # fmt: skip
        assert status(dead, DEAD[0], WAITING) == ["dead", "queued"]
        assert (operation(dead, 1)["why"], operation(dead, 1)["queue"]) == ("slow ones", "other")

    def test_jobs_of_a_queue_whose_name_is_refused_by_now(self, shop: Shop) -> None:
        shop.play(in_the_queue_of_all)
        assert shop("job", "move", "--queue", "*", "--to-queue", "mail", "--yes").out == "moved 1 job\n"
        (job,) = shop("job", "list", "--json").body["jobs"]
        assert job["queue"] == "mail"

    def test_only_dead_ones(self, dead: Shop) -> None:
        assert dead("dlq", "move", "--all", "--priority", "high", "--dry-run").out.startswith("would move 4 jobs, with")
        assert dead("dlq", "move", "--all", "--priority", "high").out == "moved 4 jobs\n"
        assert operation(dead, 1)["label"] == "all dead jobs"
        assert dead("job", "show", WAITING, "--json").body["job"]["priority"] == 5
        assert dead("job", "show", DEAD[0], "--json").body["job"]["priority"] == 10

    def test_what_cannot_be_moved_is_named(self, dead: Shop) -> None:
        answer = dead("job", "move", RUNNING, "--to-queue", "other", "--yes")
        assert answer.code == 1
        assert answer.err.endswith(f"jobconsole: job {RUNNING} is running; it cannot be moved\n")

    def test_nowhere_is_a_mistake(self, dead: Shop) -> None:
        answer = dead("job", "move", "--all")
        assert (answer.code, answer.err) == (2, "jobconsole: where to? give --to-queue, --priority, or both\n")


class TestInterrupted:
    def test_ctrl_c_cancels_the_operation_in_the_store(self, shop: Shop) -> None:
        shop.play(many_dead(30))
        process = shop.cli.start("dlq", "retry", "--all", "--rate", "1/s")
        await_operation(shop, 1, lambda one: one["done"] > 0)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
        err = untargeted(err)
        ended = operation(shop, 1)
        assert (process.returncode, out) == (130, "")
        assert err.removeprefix(ALONE).splitlines()[0] == f"operation #1 is cancelled, after {ended['done']} of 30 jobs"
        assert ended["state"] == "cancelled"
        assert 0 < ended["done"] < 30

    @pytest.mark.parametrize(("verb", "word"), [("pause", "was paused"), ("cancel", "is cancelled,")])
    def test_another_operator_ends_it(self, shop: Shop, verb: str, word: str) -> None:
        shop.play(many_dead(30))
        process = shop.cli.start("dlq", "retry", "--all", "--rate", "1/s")
        await_operation(shop, 1, lambda one: one["done"] > 0)
        assert shop("op", verb, "1").code == 0
        out, err = process.communicate(timeout=PATIENCE)
        err = untargeted(err)
        done = operation(shop, 1)["done"]
        assert (process.returncode, out) == (1, f"retried {done} job{'s' * (done > 1)}\n")
        assert err.removeprefix(ALONE).startswith(f"jobconsole: operation #1 {word} after {done} of 30 jobs")

    def test_a_store_that_is_lost_on_the_way(self, file_shop: Shop) -> None:
        file_shop.play(many_dead(30))
        process = file_shop.cli.start("dlq", "retry", "--all", "--rate", "1/s", "--timeout", "1s")
        await_operation(file_shop, 1, lambda one: one["done"] > 0)
        holder = sqlite3.connect(file_shop.address, isolation_level=None, timeout=PATIENCE)
        holder.execute("begin immediate")
        out, err = process.communicate(timeout=PATIENCE)
        err = untargeted(err)
        holder.close()
        assert process.returncode == 1
        assert out.startswith("retried ")
        err = err.removeprefix(ALONE)
        assert err.startswith("jobconsole: sqlite cannot be reached: ")
        assert err.endswith(" when it was last seen, and workers continue it when the store is back\n")
        assert err.count("\n") == 1
        assert "operation #1 was at " in err
        assert operation(file_shop, 1)["state"] == "running"

    def test_ctrl_c_while_it_is_written_down_lets_it_never_begin(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        add = MemoryOperations.add
        written = asyncio.Event()

        async def slow(*given: Any) -> Operation:
            written.set()
            await asyncio.sleep(0)
            return await add(*given)

        async def run() -> Operation:
            async with JobQueue(memory=True) as jobs:
                writing = asyncio.create_task(submit_plan(jobs, Plan("delete", "all", tuple(map(str, range(10_000))))))
                await written.wait()
                writing.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await writing
                return await jobs.operations.get(1)

        monkeypatch.setattr(MemoryOperations, "add", slow)
        assert asyncio.run(run()).state == "cancelled"
        assert capsys.readouterr().err == "nothing was changed: the operation had not begun\n"

    def test_ctrl_c_as_it_begins_cancels_it(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        move = MemoryOperations.move
        begun = asyncio.Event()

        async def slow(*given: Any) -> bool:
            done = await move(*given)
            begun.set()
            await asyncio.sleep(0)
            return done

        async def run() -> Operation:
            async with JobQueue(memory=True) as jobs:
                writing = asyncio.create_task(submit_plan(jobs, Plan("delete", "all", (DEAD[0],))))
                await begun.wait()
                writing.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await writing
                return await jobs.operations.get(1)

        monkeypatch.setattr(MemoryOperations, "move", slow)
        assert asyncio.run(run()).state == "cancelled"
        assert capsys.readouterr().err == "operation #1 is cancelled, after 0 of 1 job\n"

    def test_a_store_that_is_lost_before_anything_was_written(
        self, file_shop: Shop, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def lost(*_: object) -> None:
            raise StoreUnavailable("sqlite", "the file is locked")

        file_shop.play(four_dead)
        monkeypatch.setattr(Operations, "submit", lost)
        answer = file_shop("dlq", "retry", "--all")
        assert (answer.code, answer.out) == (3, "")
        assert answer.err.removeprefix(ALONE) == (
            "jobconsole: sqlite cannot be reached: the file is locked; nothing was changed "
            "('jobconsole op list' shows what was begun)\n"
        )
