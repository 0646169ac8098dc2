"""The demo from the outside: real servers, real work, real failures, and a sum that can fail."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable

import psycopg
import pytest

from jobconsole.demo.summary import scraped
from queue_core import JobQueue
from queue_core.model.filters import Filter, Term
from queue_core.model.operation import Author, OperationRequest, Rollout
from queue_core.model.report import SignatureInfo
from queue_core.model.states import Status
from queue_core.model.triage.signatures import SignatureState
from tests.acceptance.demo_process import DemoProcess, assert_nothing_left, folder_of
from tests.acceptance.terminal import PseudoTerminal, in_a_terminal

COUNTS = {"enqueued", "completed", "dead", "cancelled", "unfinished"}
KEYS = {*COUNTS, "retries", "lost", "stale_writes", "stale_refused", "seconds"}


@pytest.mark.timeout(180)
async def test_a_run_loses_nothing_and_leaves_nothing() -> None:
    with DemoProcess("--lease", "2s") as demo:
        addresses, workers = demo.addresses(), demo.workers()
        jobs = JobQueue(postgres=addresses["postgres"], redis=addresses["redis"], prefix="demo:")
        async with jobs:
            # However slow the machine is: until a worker has died and jobs have failed in several ways.
            while not await has_seen_failures(jobs, addresses["metrics"]):
                demo.line(r" *\d+ s ")
        demo.send(signal.SIGTERM)
        code, summary = demo.summary()

    assert code == 0, demo.lines
    assert summary.keys() >= KEYS
    finished = summary["completed"] + summary["dead"] + summary["cancelled"]
    assert summary["enqueued"] == finished + summary["unfinished"]
    assert summary["enqueued"] > 100
    assert summary["completed"] > 0
    assert summary["lost"] == summary["stale_writes"] == 0
    assert summary["crashed"] > 0
    assert len(summary["failures"]) >= 4, summary
    assert summary["metrics_agree"] is True
    assert_nothing_left(folder_of(addresses["postgres"]), workers)


@pytest.mark.timeout(180)
async def test_a_repaired_kind_succeeds_and_what_was_done_to_the_rows_is_noticed() -> None:
    with DemoProcess("--lease", "2s", "--jobs", "120") as demo:
        addresses = demo.addresses()
        repair = demo.line(r"repair read_document: (cp \S+ \S+)")[1]
        demo.workers()
        jobs = JobQueue(postgres=addresses["postgres"], redis=addresses["redis"], prefix="demo:")
        async with jobs:
            dead = await first_dead(demo, jobs)
            await asyncio.to_thread(subprocess.run, repair.split(), check=True)
            await jobs.operations.change("retry", [dead])
            assert (await jobs.result(dead, timeout=60))["kind"] == "dict"
        with psycopg.connect(addresses["postgres"], options="-c search_path=jobconsole") as connection:
            assert connection.execute("DELETE FROM job_history WHERE id = %s", [dead]).rowcount == 1
            # What a write by an attempt before the last one would leave.
            connection.execute(
                "UPDATE job_history SET last_token = last_token - 1 "
                "WHERE id = (SELECT id FROM job_history WHERE status = 'completed' LIMIT 1)"
            )
        demo.send(signal.SIGTERM)
        code, summary = demo.summary()

    assert code == 1
    assert summary["lost"] == 1
    assert summary["stale_writes"] == 1
    assert summary["enqueued"] == 120
    assert not summary["conserved"]


@pytest.mark.timeout(240)
async def test_the_path_from_a_broken_release_to_retried_receipts() -> None:
    with DemoProcess("--lease", "2s", "--deployments", "r2=1s,r3=never,r4=never") as demo:
        addresses = demo.addresses()
        jobs = JobQueue(postgres=addresses["postgres"], redis=addresses["redis"], prefix="demo:")
        demo.line("release r2 is deployed: it breaks write_receipt")
        async with jobs:
            group, state = await receipts(demo, jobs, lambda group, state: group.count >= 3)
            assert (state.word, state.since, state.suspect) == ("new", "r2", True)
            await jobs.signatures.own(group.signature, "ana")
            where = Filter((Term("status", "=", Status.DEAD), Term("signature", "=", group.signature)))
            request = OperationRequest(
                "retry", "receipts", Author("ana", "vm"), rollout=Rollout(canary=1, stop_percent=20, when_release="r3")
            )
            retry = await jobs.operations.submit(request, await jobs.inspector.ids(where, 1000))
            demo.line("release r3 is deployed: it mends write_receipt")
            while (operation := await jobs.operations.get(retry.number)).state != "done":
                assert operation.state in {"running", "paused", "preparing"}, operation
                demo.line(r" *\d+ s ")
            outcomes = await jobs.operations.outcomes(retry.number)
            assert outcomes.dead == 0

            # Some have died since the retry was written down: the signature is still there.
            await jobs.signatures.resolve(group.signature, in_="r3")
            demo.line("release r4 is deployed: it breaks write_receipt")
            _, state = await receipts(demo, jobs, lambda _, state: state.word != "resolved")
            assert (state.word, state.regressed_on, state.facts.owner) == ("regressed", "r4", "ana")
        demo.send(signal.SIGTERM)
        code, summary = demo.summary()

    assert code == 0, demo.lines
    assert summary["lost"] == 0


async def has_seen_failures(jobs: JobQueue, metrics: str) -> bool:
    """Return whether the exporter shows a lost attempt, and the store jobs that died of four exceptions."""
    found = await asyncio.to_thread(scraped, metrics)
    dead = await jobs.inspector.signatures(Filter((Term("status", "=", Status.DEAD),)), 900.0, 1, 10)
    return (
        found is not None
        and found["job_leases_expired_total"] > 0
        and len({one.title.partition(":")[0] for one in dead}) >= 4
    )


async def receipts(
    demo: DemoProcess, jobs: JobQueue, wanted: Callable[[SignatureInfo, SignatureState], bool]
) -> tuple[SignatureInfo, SignatureState]:
    """Wait until the signature of the receipts is as wanted, looking each second, as the demo does."""
    where = Filter((Term("status", "=", Status.DEAD), Term("type", "=", "write_receipt")))
    while True:
        for group in await jobs.inspector.signatures(where, 900.0, 1, 1):
            state = (await jobs.signatures.states([group]))[group.signature]
            if wanted(group, state):
                return group, state
        demo.line(r" *\d+ s ")


async def first_dead(demo: DemoProcess, jobs: JobQueue) -> str:
    """Wait until the document's job is dead, looking each second, as the demo does."""
    where = Filter((Term("status", "=", Status.DEAD), Term("type", "=", "read_document")))
    while not (found := await jobs.inspector.ids(where, 1)):
        demo.line(r" *\d+ s ")
    return found[0]


@pytest.mark.timeout(180)
def test_a_run_ends_by_itself() -> None:
    with DemoProcess("--seconds", "2") as demo:
        code, summary = demo.summary()
    assert code == 0, demo.lines
    assert summary["lost"] == summary["stale_writes"] == 0


@pytest.mark.timeout(180)
def test_nothing_is_left_when_the_demo_is_killed() -> None:
    with DemoProcess() as demo:
        addresses, workers = demo.addresses(), demo.workers()
        demo.line(r" *\d+ s ")
        demo.send(signal.SIGKILL)
        assert_nothing_left(folder_of(addresses["postgres"]), workers)


@pytest.mark.timeout(180)
def test_a_second_signal_ends_it_at_once_and_leaves_nothing() -> None:
    with DemoProcess() as demo:
        addresses, workers = demo.addresses(), demo.workers()
        demo.line(r" *\d+ s ")
        demo.send(signal.SIGINT)
        demo.line("the producer has stopped")
        demo.send(signal.SIGINT)
        assert demo.end() == 130
    assert_nothing_left(folder_of(addresses["postgres"]), workers)


@pytest.mark.timeout(180)
def test_in_a_terminal_the_console_opens_and_the_sum_follows() -> None:
    command = [sys.executable, "-m", "jobconsole", "demo", "--lease", "2s"]
    code, screen = in_a_terminal(command, wait_for="Dead letters", key="q")
    assert code == 0, screen[-2000:]
    opened, closed = screen.index("\x1b[?1049h"), screen.index("\x1b[?1049l")
    assert screen.index("workers: ") < opened
    assert "lost 0, stale writes 0" in screen[closed:]


@pytest.mark.timeout(180)
def test_without_its_terminal_it_ends_and_leaves_nothing() -> None:
    """The thread that reads keys went on alone, with half of a processor, after everything else had ended."""
    command = [sys.executable, "-m", "jobconsole", "demo", "--lease", "2s"]
    terminal = PseudoTerminal(command, (120, 40), os.environ)
    try:
        terminal.wait_for("Dead letters")
        assert terminal.hang_up() == 0
    finally:
        terminal.close()
