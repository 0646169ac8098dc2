"""Daemon threads: what is left undone, and their end."""

import gc
import threading

import pytest

from queue_core.threads import DaemonThreads
from tests.waiting import PATIENCE


def named(name: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(f"{name}_")]


def test_they_end_with_the_object() -> None:
    threads = DaemonThreads(2, "lost")
    assert threads.submit(int, "7").result(PATIENCE) == 7
    running = named("lost")
    assert len(running) == 1
    del threads
    gc.collect()
    running[0].join(PATIENCE)
    assert named("lost") == []


def test_what_was_accepted_is_done_before_the_end() -> None:
    threads = DaemonThreads(1, "ending")
    go = threading.Event()
    threads.submit(go.wait, PATIENCE)
    last = threads.submit(int, "7")
    threads.shutdown()
    go.set()
    assert last.result(PATIENCE) == 7
    with pytest.raises(RuntimeError, match="'ending' have ended"):
        threads.submit(int)


def test_what_was_cancelled_is_not_done() -> None:
    threads = DaemonThreads(1, "cancelling")
    go = threading.Event()
    held = threads.submit(go.wait, PATIENCE)
    waiting = [threads.submit(int, "7") for _ in range(2)]
    waiting[0].cancel()
    threads.shutdown(cancel_futures=True)
    go.set()
    assert held.result(PATIENCE) is True
    assert all(one.cancelled() for one in waiting)
