"""Waits for the store in the log: one line at once, a few while they last, and one when they are over."""

from __future__ import annotations

import logging

import pytest

from queue_core.client.logs import WAIT_SECONDS, OutageLog
from queue_core.errors import StoreUnavailable
from queue_core.testing import FakeClock

AWAY = StoreUnavailable("postgres", "refused")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def waits(clock: FakeClock) -> OutageLog:
    return OutageLog(logging.getLogger("queue_core.worker"), "claim waits", clock.monotonic)


def test_a_long_outage_is_a_few_lines(waits: OutageLog, clock: FakeClock, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(50):
        waits.failed(AWAY)
        clock.advance(WAIT_SECONDS / 20)
    waits.worked()
    waits.worked()
    assert caplog.messages == [
        "claim waits for the store: postgres cannot be reached: refused",
        "claim waits for the store: postgres cannot be reached: refused (19 such lines were left out)",
        "claim waits for the store: postgres cannot be reached: refused (19 such lines were left out)",
        "claim waits for the store no longer, after 25.0 s",
    ]


def test_a_store_that_comes_and_goes_adds_no_lines(
    waits: OutageLog, clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    waits.worked()
    for _ in range(5):
        waits.failed(AWAY)
        waits.worked()
    assert caplog.messages == [
        "claim waits for the store: postgres cannot be reached: refused",
        "claim waits for the store no longer, after 0.0 s",
    ]
    clock.advance(WAIT_SECONDS)
    waits.failed(AWAY)
    assert caplog.messages[2:] == [
        "claim waits for the store: postgres cannot be reached: refused (4 such lines were left out)"
    ]


def test_a_traceback_is_written_where_it_is_asked_for(waits: OutageLog, caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise RuntimeError("a fault")
    except RuntimeError as error:
        waits.failed(error, exc_info=True)
    assert caplog.records[0].exc_info is not None
