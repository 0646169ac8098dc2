"""The event loop of a blocking client: which thread runs it, and that all goes on whichever does."""

import asyncio
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import pytest

from queue_core import JobQueue, Middleware
from queue_core.blocking.shared_loop import LoopEnded, SharedLoop
from queue_core.model.job import NewJob
from queue_core.runtime import is_served
from tests.conformance.working import PATIENCE

NAME = "a-shared-loop"


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedLoop]:
    monkeypatch.setattr("queue_core.blocking.shared_loop.SERIES_GAP", PATIENCE)  # a slow machine has series, too
    shared = SharedLoop(NAME)
    yield shared
    shared.close()


async def thread() -> str:
    await asyncio.sleep(0)
    return threading.current_thread().name


def in_thread(call: Callable[[], list[str]]) -> list[str]:
    with ThreadPoolExecutor(1, "caller") as threads:
        return threads.submit(call).result(PATIENCE)


def test_a_series_of_calls_runs_in_the_thread_that_makes_it(shared: SharedLoop) -> None:
    assert in_thread(lambda: [shared.call_soon(thread()) for _ in range(3)]) == [NAME, "caller_0", "caller_0"]


def test_calls_far_apart_and_long_ones_run_in_the_loops_own_thread(
    shared: SharedLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert in_thread(lambda: [shared.call(thread()) for _ in range(3)]) == [NAME] * 3
    monkeypatch.setattr("queue_core.blocking.shared_loop.SERIES_GAP", 0.0)
    assert in_thread(lambda: [shared.call_soon(thread()) for _ in range(3)]) == [NAME] * 3


def test_what_a_series_leaves_goes_on_behind_it(shared: SharedLoop) -> None:
    """As the offers and events of a producer do, which no later call sends."""
    left = threading.Event()

    async def leave() -> None:
        asyncio.get_running_loop().call_later(0.01, left.set)

    shared.call(leave())
    for _ in range(3):
        left.clear()
        shared.call_soon(leave())
        assert is_served(shared.loop), "others may wait for it between two threads, too"
        assert left.wait(PATIENCE)
    assert not shared.loop.is_closed()


def test_a_call_of_another_thread_ends_while_and_after_one_has_the_loop(shared: SharedLoop) -> None:
    taken, release = threading.Event(), asyncio.Event()

    async def hold() -> str:
        taken.set()
        await release.wait()
        return threading.current_thread().name

    async def let_go() -> str:
        release.set()
        return threading.current_thread().name

    def series() -> list[str]:
        return [shared.call_soon(thread()), shared.call_soon(hold())]

    with ThreadPoolExecutor(1, "caller") as threads:
        held = threads.submit(series)
        assert taken.wait(PATIENCE)
        assert shared.call(thread()) == "caller_0"
        assert shared.call_soon(let_go()) == "caller_0"
        assert held.result(PATIENCE) == [NAME, "caller_0"]
    assert shared.call(thread()) == NAME


def test_many_threads_with_calls_of_both_kinds_are_all_answered(shared: SharedLoop) -> None:
    async def echo(n: int) -> int:
        await asyncio.sleep(0.0001 * (n % 3))
        return n

    def calls(first: int) -> list[int]:
        return [(shared.call if n % 7 == 0 else shared.call_soon)(echo(n)) for n in range(first, first + 200)]

    with ThreadPoolExecutor(4) as threads:
        answers = [threads.submit(calls, 1000 * n) for n in range(4)]
        for n, answer in enumerate(answers):
            assert answer.result(2 * PATIENCE) == list(range(1000 * n, 1000 * n + 200))


def test_its_end_ends_a_call_that_has_the_loop(shared: SharedLoop) -> None:
    taken = threading.Event()

    async def wait() -> str:
        taken.set()
        await asyncio.sleep(2 * PATIENCE)
        return ""

    with ThreadPoolExecutor(1, "caller") as threads:
        series = threads.submit(lambda: [shared.call_soon(thread()), shared.call_soon(wait())])
        assert taken.wait(PATIENCE)
        shared.close()
        with pytest.raises(LoopEnded):
            series.result(PATIENCE)
    assert shared.loop.is_closed()
    assert NAME not in {one.name for one in threading.enumerate()}


def test_errors_are_the_callers(shared: SharedLoop) -> None:
    async def fail() -> None:
        raise ValueError("of the call")

    for _ in range(3):
        with pytest.raises(ValueError, match="of the call"):
            shared.call_soon(fail())
    assert shared.call_soon(thread())


def test_enqueues_of_a_client_are_such_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("queue_core.blocking.shared_loop.SERIES_GAP", PATIENCE)
    jobs, threads_of = JobQueue(memory=True), list[str]()

    class Notes(Middleware):
        async def before_enqueue(self, jobs: Sequence[NewJob]) -> None:
            threads_of.append(threading.current_thread().name)

    jobs.middleware(Notes())
    with jobs.blocking() as queue:

        def series() -> list[str]:
            one, two = queue.enqueue("resize"), queue.enqueue("resize")
            assert one.status() == two.status() == "queued"
            return threads_of

        assert in_thread(series) == ["jobs-blocking", "caller_0"]


async def test_a_thread_with_a_running_loop_does_not_run_another(shared: SharedLoop) -> None:
    """As in a cell of a notebook."""
    assert [shared.call_soon(thread()) for _ in range(3)] == [NAME] * 3


MAIN = """
    import asyncio, signal, threading
    from queue_core.blocking import shared_loop
    shared_loop.SOON = 60
    shared = shared_loop.SharedLoop("own")
    async def thread():
        return threading.current_thread().name
    async def begin():
        global other
        other = asyncio.create_task(asyncio.sleep(3600))
    shared.call(begin())
"""


def test_ctrl_c_ends_the_call_alone() -> None:
    """It is raised wherever the main thread is, which may be in a task that sends what earlier calls left."""
    print_ = run_in_main("""
        async def interrupted():
            asyncio.get_running_loop().call_soon(signal.raise_signal, signal.SIGINT)
            await asyncio.sleep(3600)
        try:
            shared.call_soon(interrupted())
        except KeyboardInterrupt:
            print(other.done(), shared.call_soon(thread()), signal.getsignal(signal.SIGINT).__name__)
        shared.close()
    """)
    assert print_ == "False MainThread default_int_handler"


def test_ctrl_c_while_another_thread_has_the_loop_leaves_it_to_the_next_one() -> None:
    """Raised between the taking of the loop and its use, it would leave the loop to no thread."""
    print_ = run_in_main("""
        taking = shared._turn
        class Interrupted:
            release, __enter__, __exit__ = taking.release, taking.__enter__, taking.__exit__
            def acquire(self, blocking=True):
                if blocking:
                    taking.acquire()
                    signal.raise_signal(signal.SIGINT)
                return blocking
        shared._turn = Interrupted()
        try:
            shared.call_soon(thread())
        except KeyboardInterrupt:
            shared._turn = taking
            print(shared.call_soon(thread()), signal.getsignal(signal.SIGINT).__name__)
        shared.close()
    """)
    assert print_ == "MainThread default_int_handler"


def test_a_program_with_handlers_of_signals_that_may_raise_lends_no_thread() -> None:
    print_ = run_in_main("""
        print(shared.call_soon(thread()))
        signal.signal(signal.SIGALRM, lambda *_: None)
        print(shared.call_soon(thread()))
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
        print(shared.call_soon(thread()))
        signal.signal(signal.SIGINT, lambda *_: None)
        print(shared.call_soon(thread()))
        shared.close()
    """)
    assert print_.split() == ["MainThread", "own", "MainThread", "own"]


def run_in_main(code: str) -> str:
    command = [sys.executable, "-c", textwrap.dedent(MAIN) + textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()
