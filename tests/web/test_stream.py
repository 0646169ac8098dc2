"""Server-Sent Events: what a stream has, how it is resumed from the store, and that nobody waits for a slow reader."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import pytest

from jobconsole.web import events_app
from jobconsole.web.stream import RESUMED_AT_ONCE, EventQuery, EventStreams, parse_query
from queue_core import JobQueue
from queue_core.client import feed
from queue_core.errors import StoreUnavailable
from queue_core.model.events import Event
from queue_core.model.job import Job
from tests.conformance.working import PATIENCE, working
from tests.waiting import eventually

NOWHERE = "0197b3c2-5a1e-7c88-9b3e-56e26719422c"


class Sent(NamedTuple):
    """One event as a browser reads it."""

    name: str
    id: str
    body: dict[str, Any]


class Stream:
    """A stream that is read as a browser reads it: lines, an empty one ends an event, comments are left out."""

    def __init__(self, parts: AsyncIterator[bytes]) -> None:
        self._parts = parts
        self._text = ""
        self.comments = 0
        self.last = ""

    async def next(self) -> Sent:
        async with asyncio.timeout(PATIENCE):
            while True:
                while "\n\n" not in self._text:
                    self._text += (await anext(self._parts)).decode("ascii")
                block, _, self._text = self._text.partition("\n\n")
                self.comments += block.startswith(":")
                fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
                if "event" in fields:
                    self.last = fields.get("id", self.last)
                    return Sent(fields["event"], fields.get("id", ""), json.loads(fields["data"]))

    async def until(self, name: str) -> list[Sent]:
        found = [await self.next()]
        while found[-1].name != name:
            found.append(await self.next())
        return found


@pytest.fixture
async def jobs() -> AsyncIterator[JobQueue]:
    """An open queue object in memory, with a task."""
    async with JobQueue(memory=True) as jobs:

        @jobs.task(queue="mail")
        async def send(to: str) -> None: ...

        yield jobs


def stream(jobs: JobQueue, query: str = "", last: str = "", heartbeat: float = PATIENCE) -> Stream:
    streams = EventStreams(jobs.feed, jobs.inspector, heartbeat)
    return Stream(streams.read(parse_query(query, last)))


class TestStream:
    async def test_events_come_as_they_happen_with_ids(self, jobs: JobQueue) -> None:
        reading = stream(jobs)
        live = await reading.next()
        assert (live.name, live.body["complete"]) == ("live", True)
        handle = await jobs.enqueue("send", {"to": "a"}, queue="mail")
        async with working(jobs):
            found = await reading.until("completed")
        mine = [sent for sent in found if sent.body["id"] == handle.id]
        assert [sent.name for sent in mine] == ["created", "claimed", "completed"]
        assert {(sent.body["v"], sent.body["queue"], sent.body["type"]) for sent in mine} == {(1, "mail", "send")}
        assert mine[-1].body["ms"] >= 0
        ids = [sent.id for sent in found]
        assert len(set(ids)) == len(ids)

    async def test_filters(self, jobs: JobQueue) -> None:
        one = await jobs.enqueue("send", {"to": "a"}, queue="mail")
        by_queue, by_type = stream(jobs, "queue=mail&queue=more"), stream(jobs, "type=other")
        by_name, by_job = stream(jobs, "event=cancelled"), stream(jobs, f"job={one.id}")
        for reading in (by_queue, by_type, by_name, by_job):
            await reading.next()
        await jobs.enqueue("send", {"to": "c"}, queue="default")
        two = await jobs.enqueue("send", {"to": "b"}, queue="mail")
        other = await jobs.enqueue("other", {}, queue="default")
        assert (await by_queue.next()).body["id"] == two.id
        assert (await by_type.next()).body["id"] == other.id
        await jobs.cancel(one.id)
        assert (await by_job.next()).name == "cancelled"
        assert (await by_name.next()).body["id"] == one.id

    async def test_an_operators_change_is_published_without_its_queue_and_found_all_the_same(
        self, jobs: JobQueue
    ) -> None:
        one = await jobs.enqueue("send", {"to": "a"}, queue="mail")
        mail, other = stream(jobs, "queue=mail"), stream(jobs, "queue=other")
        await mail.next()
        await other.next()
        await jobs.cancel(one.id)
        found = await mail.until("live")
        assert [(sent.name, sent.body.get("status")) for sent in found] == [("state", "cancelled"), ("live", None)]
        assert [sent.name for sent in await other.until("live")] == ["live"]

    async def test_silence_is_broken_by_comments(self, jobs: JobQueue) -> None:
        reading = stream(jobs, heartbeat=0.01)
        await reading.next()
        waiting = asyncio.create_task(reading.next())
        assert await eventually(lambda: reading.comments >= 2)
        await jobs.enqueue("send", {"to": "a"}, queue="mail")
        assert (await waiting).name == "created"

    async def test_text_of_a_job_cannot_begin_a_line(self, jobs: JobQueue) -> None:
        reading = stream(jobs)
        await reading.next()
        evil = {"error": "boom\n\nevent: dead\ndata: {}\r\n\x1b[2J\u2028"}
        await jobs.bus.publish([Event("failed", "mail", NOWHERE, "a\nid: 7", 1, evil), Event("x\n", "mail", NOWHERE)])
        found = await reading.next()
        assert (found.name, found.body["error"]) == ("failed", evil["error"])


class TestResume:
    async def test_what_changed_meanwhile_is_shown_as_it_is_now(self, jobs: JobQueue) -> None:
        first = stream(jobs, "queue=mail")
        await first.next()
        one = await jobs.enqueue("send", {"to": "a"}, queue="mail")
        await first.until("created")
        await first._parts.aclose()  # type: ignore[attr-defined]
        async with working(jobs):
            await one.result(PATIENCE)
        two = await jobs.enqueue("send", {"to": "b"}, queue="mail")
        await jobs.enqueue("send", {"to": "b"}, queue="other")
        again = stream(jobs, "queue=mail", last=first.last)
        found = await again.until("live")
        assert {(sent.body["id"], sent.body["status"]) for sent in found[:-1]} == {
            (one.id, "completed"),
            (two.id, "queued"),
        }
        assert {sent.id for sent in found[:-1]} == {""}, "cut off here, it is resumed from the same place"
        assert found[-1].body["complete"] is True
        three = await jobs.enqueue("send", {"to": "c"}, queue="mail")
        assert (await again.next()).body["id"] == three.id

    @pytest.mark.parametrize("last", ["1-1", "99999999999999-1", "nonsense", "\u0661-1"])
    async def test_an_id_that_is_too_old_or_none_of_ours(self, jobs: JobQueue, last: str) -> None:
        """The last hour is shown, and that it may not be all; a chosen job is shown as it is."""
        one = await jobs.enqueue("send", {"to": "a"}, queue="mail")
        for query, complete in (("", False), (f"job={one.id}", True)):
            state, live = await stream(jobs, query, last=last).until("live")
            assert (state.name, state.body["id"]) == ("state", one.id)
            assert live.body["complete"] is complete

    async def test_more_than_is_shown(self, jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("jobconsole.web.stream.MAX_CHANGED", 4)
        monkeypatch.setattr("jobconsole.web.stream.PAGE_JOBS", 2)
        first = stream(jobs)
        await first.next()
        for _ in range(5):
            await jobs.enqueue("send", {"to": "a"}, queue="mail")
        found = await stream(jobs, last=first.last).until("live")
        assert [sent.name for sent in found] == ["state"] * 4 + ["live"]
        assert found[-1].body["complete"] is False

    async def test_a_chosen_job(self, jobs: JobQueue) -> None:
        one = await jobs.enqueue("send", {"to": "a"}, queue="mail")
        first = stream(jobs)
        await first.next()
        found = await stream(jobs, f"job={one.id}&job={NOWHERE}", last=first.last).until("live")
        assert [sent.body.get("id") for sent in found] == [one.id, None]

    async def test_without_the_store_events_go_on(self, jobs: JobQueue, monkeypatch: pytest.MonkeyPatch) -> None:
        async def away(*_: object) -> None:
            raise StoreUnavailable("memory", "away")

        first = stream(jobs)
        await first.next()
        monkeypatch.setattr(jobs.inspector, "jobs", away)
        again = stream(jobs, last=first.last)
        (live,) = await again.until("live")
        assert live.body["complete"] is False
        await jobs.enqueue("send", {"to": "a"}, queue="mail")
        assert (await again.next()).name == "created"

    async def test_a_slow_reader_learns_what_it_lost_and_the_others_lose_nothing(
        self, jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(feed, "BUFFERED_EVENTS", 3)
        slow, quick = stream(jobs), stream(jobs)
        for reading in (slow, quick):
            await reading.next()
        # It takes one and then no more.
        first = asyncio.create_task(slow.next())
        ids, seen = [], []
        for _ in range(6):
            ids.append((await jobs.enqueue("send", {"to": "a"}, queue="mail")).id)
            seen.append((await quick.next()).body["id"])
        assert seen == ids
        found = [await first, *await slow.until("live")]
        assert [sent.name for sent in found[: -len(ids) - 1]] == ["created"] * 4 + ["gap"]
        assert found[4].body["dropped"] == 2
        assert {sent.body["id"] for sent in found[5:-1]} == set(ids)
        assert found[-1].body["complete"] is True


class TestQuery:
    @pytest.mark.parametrize(
        ("query", "sentence"),
        [
            ("colour=red", "no parameter 'colour'; there are queue, type, job, event, last_event_id"),
            ("event=boom", "no event 'boom'; there are created, "),
            ("&".join(f"job={number}" for number in range(101)), "at most 100 jobs"),
            ("job=xyz", "'xyz' is no job id; ids look like "),
            ("job=", "'' is no job id"),
            ("queue=", "the queue's name is a text that is not empty"),
            ("queue=a%00b", "the queue's name cannot hold braces, unseen characters"),
            (f"type={'x' * 201}", "the type's name has 201 characters; the limit is 200"),
            ("&".join(["queue=a"] * 500), "Max number of fields exceeded"),
        ],
    )
    def test_what_cannot_be(self, query: str, sentence: str) -> None:
        with pytest.raises(ValueError, match=sentence):
            parse_query(query)

    def test_the_header_wins(self) -> None:
        assert parse_query("last_event_id=1-1", "2-1").last == "2-1"
        assert parse_query("last_event_id=1-1").last == "1-1"


class Client:
    """A client of an ASGI application that takes what it is sent, or stops taking."""

    def __init__(self, app: Any, query: str = "", method: str = "GET", headers: Any = ()) -> None:
        self.sent: asyncio.Queue[Any] = asyncio.Queue()
        self.taking = asyncio.Event()
        self.taking.set()
        self._gone: asyncio.Queue[Any] = asyncio.Queue()
        scope = {"type": "http", "method": method, "path": "/", "query_string": query.encode(), "headers": headers}
        self.task = asyncio.create_task(app(scope, self._gone.get, self._take))

    async def _take(self, message: Any) -> None:
        await self.taking.wait()
        self.sent.put_nowait(message)

    async def start(self) -> tuple[int, dict[bytes, bytes]]:
        message = await asyncio.wait_for(self.sent.get(), PATIENCE)
        return message["status"], dict(message["headers"])

    async def body(self) -> AsyncIterator[bytes]:
        while True:
            yield (await self.sent.get())["body"]

    async def leave(self) -> None:
        self._gone.put_nowait({"type": "http.disconnect"})
        await asyncio.wait_for(self.task, PATIENCE)


class TestApplication:
    async def test_a_client_reads_and_leaves(self, jobs: JobQueue) -> None:
        client = Client(events_app(jobs), "queue=mail", headers=[(b"last-event-id", b"nonsense")])
        status, headers = await client.start()
        assert (status, headers[b"content-type"]) == (200, b"text/event-stream")
        reading = Stream(client.body())
        assert (await reading.next()).body["complete"] is False
        await jobs.enqueue("send", {"to": "a"}, queue="mail")
        assert (await reading.next()).name == "created"
        await client.leave()

    async def test_only_some_clients_resume_from_the_store_at_a_time(
        self, jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        resuming, go_on = 0, asyncio.Event()

        async def changed(streams: EventStreams, query: EventQuery, seconds: float) -> tuple[list[Job], bool]:
            nonlocal resuming
            resuming += 1
            await go_on.wait()
            return [], True

        monkeypatch.setattr(EventStreams, "_changed", changed)
        app = events_app(jobs)
        clients = [Client(app, headers=[(b"last-event-id", b"1767225600000-1")]) for _ in range(3 * RESUMED_AT_ONCE)]
        for client in clients:
            await client.start()
        assert await eventually(lambda: resuming >= RESUMED_AT_ONCE)
        for _ in range(100):
            await asyncio.sleep(0)
        assert resuming == RESUMED_AT_ONCE
        go_on.set()
        assert await eventually(lambda: resuming == len(clients))
        for client in clients:
            await client.leave()

    async def test_refusals(self, jobs: JobQueue) -> None:
        app = events_app(jobs, readers=1)
        assert (await Client(app, "colour=red").start())[0] == 400
        assert (await Client(app, method="POST").start())[0] == 405
        first = Client(app)
        await first.start()
        status, headers = await Client(app).start()
        assert (status, headers[b"retry-after"]) == (503, b"1")
        await first.leave()
        assert (await Client(app, method="HEAD").start())[0] == 200

    async def test_a_store_that_is_away(self) -> None:
        jobs = JobQueue(postgres="postgresql://127.0.0.1:1/nowhere")
        status, headers = await Client(events_app(jobs)).start()
        assert (status, headers[b"retry-after"]) == (503, b"5")
        await jobs.close()

    async def test_a_client_that_takes_nothing_is_cut_off(
        self, jobs: JobQueue, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("jobconsole.web.asgi.STALL_SECONDS", 0.05)
        client = Client(events_app(jobs))
        await client.start()
        client.taking.clear()
        await jobs.enqueue("send", {"to": "a"}, queue="mail")
        await asyncio.wait_for(client.task, PATIENCE)

    async def test_served_alone_it_opens_and_closes_the_queue_object(self) -> None:
        jobs = JobQueue(memory=True)
        orders: asyncio.Queue[Any] = asyncio.Queue()
        sent: asyncio.Queue[Any] = asyncio.Queue()
        living = asyncio.create_task(events_app(jobs)({"type": "lifespan"}, orders.get, sent.put))
        orders.put_nowait({"type": "lifespan.startup"})
        assert (await asyncio.wait_for(sent.get(), PATIENCE))["type"] == "lifespan.startup.complete"
        orders.put_nowait({"type": "lifespan.shutdown"})
        await asyncio.wait_for(living, PATIENCE)
        assert sent.get_nowait()["type"] == "lifespan.shutdown.complete"
