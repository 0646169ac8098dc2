"""Reads for a scrape: what is told of a failure, and what a server costs that accepts reads and never answers."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import pytest

from jobconsole.exporter.reading import Reader
from queue_core.errors import StoreUnavailable
from queue_core.model.filters import Filter
from queue_core.model.report import SignatureInfo
from queue_core.stores.memory.read import MemoryInspector
from tests.conformance.world import World

ADDRESS = "postgresql://app:secret@db.example/app"


class Away(MemoryInspector):
    """An inspector whose store is away, as one says who was given an address with a password."""

    def __init__(self, world: World) -> None:
        super().__init__(world.store)  # type: ignore[arg-type]
        self.away = True

    async def ping(self) -> float:
        if self.away:
            raise StoreUnavailable("postgres", f"no route to {ADDRESS}")
        return await super().ping()


class Frozen(MemoryInspector):
    """An inspector whose server has accepted a read and goes on with it, although it was cancelled."""

    def __init__(self, world: World) -> None:
        super().__init__(world.store)  # type: ignore[arg-type]
        self.pings = 0
        self.thawed = asyncio.Event()

    async def ping(self) -> float:
        self.pings += 1
        while not self.thawed.is_set():
            try:
                await self.thawed.wait()
            except asyncio.CancelledError:
                continue
        return 0.0


async def test_why_a_store_is_away_is_told_once_and_without_the_password(
    remembered: World, caplog: pytest.LogCaptureFixture
) -> None:
    inspector = Away(remembered)
    reader = Reader(inspector, None, "postgres", 10.0)
    with caplog.at_level(logging.WARNING, "jobconsole.exporter"):
        found = [(await reader.ping()).backends["postgres"] for _ in range(3)]
        inspector.away = False
        assert (await reader.ping()).backends["postgres"].up
    assert [one.errors for one in found] == [1, 2, 3]
    assert {one.up for one in found} == {False}
    assert "no route to postgresql://app" in found[0].reason
    assert [record.getMessage().partition(":")[0] for record in caplog.records] == [
        "postgres cannot be read",
        "postgres can be read again",
    ]
    assert "secret" not in "".join([caplog.text, *(one.reason for one in found)])


async def test_while_a_read_hangs_no_other_is_begun(remembered: World) -> None:
    inspector = Frozen(remembered)
    reader = Reader(inspector, None, "postgres", 0.01)
    try:
        assert [(await reader.ping()).backends["postgres"].up for _ in range(3)] == [False] * 3
        assert inspector.pings == 1
    finally:
        inspector.thawed.set()
    reader = Reader(inspector, None, "postgres", 10.0)
    assert (await reader.ping()).backends["postgres"].up


class Grouping(MemoryInspector):
    """An inspector that has too many dead jobs to group them in time; how it ends a read decides the test."""

    def __init__(self, world: World) -> None:
        super().__init__(world.store)  # type: ignore[arg-type]
        self.begun = 0
        self.may_end = asyncio.Event()

    async def signatures(self, where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
        self.begun += 1
        while not self.may_end.is_set():
            with suppress(asyncio.CancelledError):
                await self.may_end.wait()
        return await super().signatures(where, window, slices, limit)


async def test_signatures_that_cannot_be_read_in_time_are_missing_alone(
    remembered: World, caplog: pytest.LogCaptureFixture
) -> None:
    inspector = Grouping(remembered)
    reader = Reader(inspector, None, "postgres", 0.5)
    with caplog.at_level(logging.WARNING, "jobconsole.exporter"):
        for _ in range(3):  # also while the first read has not ended
            found = await reader.read()
            assert (found.backends["postgres"].up, found.backends["postgres"].errors) == (True, 0)
            assert found.overview is not None
            assert found.signatures is None
        assert inspector.begun == 1
        inspector.may_end.set()
        assert (await reader.read()).signatures == {}
    assert [record.getMessage() for record in caplog.records] == [
        "postgres (signatures) cannot be read: no answer within 0.5 s",
        "postgres (signatures) can be read again",
    ]


async def test_a_read_behind_one_that_has_not_ended_takes_its_time(remembered: World) -> None:
    """It is no failure within some microseconds: it begins once the earlier one has ended, within the limit."""
    inspector = Frozen(remembered)
    reader = Reader(inspector, None, "postgres", 0.2)
    assert not (await reader.ping()).backends["postgres"].up
    late = (await reader.ping()).backends["postgres"]
    assert (late.up, late.seconds >= 0.19) == (False, True)
    reader = Reader(inspector, None, "postgres", 30.0)
    waiting = [asyncio.create_task(reader.ping(0.2))]
    assert not (await waiting[0]).backends["postgres"].up
    waiting.append(asyncio.create_task(reader.ping()))
    await asyncio.sleep(0)
    inspector.thawed.set()
    assert (await waiting[1]).backends["postgres"].up


async def test_a_store_that_cannot_be_written_is_down_where_that_is_asked_for(remembered: World) -> None:
    """Reads do not show it."""

    async def refused() -> None:
        raise StoreUnavailable("memory", "the disk is full")

    reader = Reader(remembered.inspector, None, "memory", 10.0, refused)
    backend = (await reader.ping()).backends["memory"]
    assert (backend.up, "the disk is full" in backend.reason) == (False, True)
    assert backend.errors == 0, "no read has failed"
    assert (await reader.read()).backends["memory"].up, "a scrape reads"
