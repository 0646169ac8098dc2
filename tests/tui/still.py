"""A console that stands still: fixed records, a clock that does not move, servers that are always there."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from jobconsole.core.connection import Connection, Server
from jobconsole.core.listing import Window
from jobconsole.core.model import Model
from jobconsole.core.rows import QueueLine, job_line
from jobconsole.core.snapshot import DEAD, Snapshot, Totals, Wanted
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.messages import Adopted
from jobconsole.tui.operator import Operator
from jobconsole.tui.refresher import Refresher
from queue_core import JobQueue
from queue_core.events import Event, EventBatch
from queue_core.inspection import LogPage, SeriesPoint, SignatureInfo, Tally, WorkerInfo
from queue_core.job import Attempt, Job, LogEntry
from queue_core.states import Status
from tests.tui.scenes import CRM, DISK, SMTP
from tests.tui.seat import Seat

NOW = datetime(2026, 3, 1, 3, 7, 41, tzinfo=UTC)
STEADY = 5_000.0
TRACES = {"send_email": SMTP, "resize_image": DISK, "sync_crm": CRM}


def ago(seconds: float) -> datetime:
    """Return a moment before now."""
    return NOW - timedelta(seconds=seconds)


def job(number: int, status: Status = Status.DEAD, type_: str = "send_email", queue: str = "mail") -> Job:
    """Return a fixed job."""
    ended = status in {Status.DEAD, Status.COMPLETED}
    return Job(
        id=f"0197f3a2-5c1b-7000-8000-{number:012x}", type=type_, queue=queue,
        payload={"to": "a@example.org", "attempt": number, "urgent": True}, payload_text="{}", status=status,
        priority=10, created_at=ago(900 + number), updated_at=ago(4 + 11 * number), run_at=ago(900),
        started_at=ago(6 + 11 * number), completed_at=ago(4 + 11 * number) if ended else None, result=None,
        error=TRACES[type_].strip().splitlines()[-1] if status is Status.DEAD else None,
        retry_count=3, max_retries=3, crashes=0, progress=0, progress_message="", tags=("night",), token=number + 1,
        worker="web-1:4711:0a1b2c", lease_expires_at=None, failure_kind="error", signature="9f31c2aaaaaa",
        traceback=TRACES[type_] if status is Status.DEAD else None, trashed_at=None,
    )  # fmt: skip


def group(signature: str, title: str, type_: str, count: int, trend: tuple[int, ...], last: float) -> SignatureInfo:
    """Return a fixed group of dead jobs."""
    return SignatureInfo(
        signature=signature, title=title, count=count, grown=sum(trend), trend=trend, first_seen=ago(900),
        last_seen=ago(last), types=((type_, count),), queues=("mail",), sample_id=job(1, type_=type_).id,
    )  # fmt: skip


SIGNATURES = (
    group("9f31c2aaaaaa", "TimeoutError: smtp <host>:<n>", "send_email", 38_902, (0, 10, 300, 900, 2500, 5290), 4),
    group("1a2b3cbbbbbb", "OSError: No space left on <path>", "resize_image", 6_110, (4, 3, 0, 5, 0, 0), 41),
    group("77aa00cccccc", "KeyError: <str>", "sync_crm", 3_190, (0, 0, 0, 0, 0, 0), 3 * 3600),
)


def queue(name: str, *depth: int, paused: bool = False, oldest: float | None = None) -> QueueLine:
    """Return a fixed queue: high, normal, low, scheduled, retrying, running, dead."""
    return QueueLine(name, name, paused, *depth, ago(oldest) if oldest is not None else None)  # type: ignore[arg-type]


def worker(number: int, busy: int, lost: bool = False, quiet: bool = False) -> WorkerInfo:
    """Return a fixed worker."""
    return WorkerInfo(
        id=f"w-{number}", host=f"web-{number}", pid=4700 + number, version="0.1.0", queues=("crm", "images", "mail"),
        types=(), concurrency=32, busy=busy, quiet=quiet, started_at=ago(7200), heartbeat_at=ago(2),
        heartbeat_age=65.0 if lost else 2.0, lost=lost,
    )  # fmt: skip


def snapshot() -> Snapshot:
    """Return a fixed snapshot."""
    queues = (
        queue("crm", 0, 0, 31, 0, 2, 4, 3_190, paused=True, oldest=840),
        queue("images", 12, 310, 1_200, 7, 0, 60, 6_110, oldest=21),
        queue("mail", 10_400, 480, 0, 0, 308, 32, 38_902, oldest=3),
    )
    return Snapshot(
        now=NOW, began=STEADY, taken=STEADY, wanted=Wanted(where=DEAD), queues=queues,
        workers=(worker(1, 32), worker(2, 0), worker(3, 5, quiet=True), worker(4, 12, lost=True)), orphaned_types={},
        signatures=SIGNATURES, running=(), more_running=False,
        series=tuple(SeriesPoint(ago(60 * n), 2_000, 3_000 + 300 * n, 10, 600) for n in range(5, -1, -1)),
        totals=Totals(12_433, 96, 7, 310, 48_202, 12, ago(840), 3, 1, 96),
    )  # fmt: skip


TALLIES = [
    Tally("mail", "send_email", "completed", 900, 0, 0, {}, {5: 700, 6: 150, 9: 50}),
    Tally("mail", "send_email", "dead", 300, 0, 0, {}, {12: 300}),
    Tally("images", "resize_image", "completed", 4_000, 0, 0, {}, {7: 3_990, 8: 10}),
    Tally("images", "resize_image", "retried", 13, 0, 0, {}, {7: 13}),
    Tally("crm", "sync_crm", "completed", 310, 0, 0, {}, {3: 310}),
]


def running() -> list[Event]:
    """Return the events of some running jobs."""
    events: list[Event] = []
    for number, (type_, progress, message) in enumerate(
        [("archive", 71, "file 3,107 of 4,400"), ("resize_image", 33, "decoded"), ("sync_crm", 0, "")]
    ):
        one = f"running-{number}"
        events.append(Event("claimed", "images", one, type_, 1, {"worker": "web-1:4711:0a1b2c", "priority": 5}))
        events.append(Event("progress", "images", one, type_, 1, {"progress": progress, "message": message}))
    return events


class StillConnection(Connection):
    """Both servers are there and were asked just now."""

    def __init__(self) -> None:
        super().__init__(lambda: JobQueue(memory=True))
        since = ago(3600)
        self._servers = {
            "store": Server("postgres", "up", since, 0.006),
            "delivery": Server("redis", "up", since, 0.002),
        }

    @property
    def usable(self) -> bool:
        """Always."""
        return True


class StillRefresher(Refresher):
    """Reads fixed records, once."""

    async def run(self) -> None:
        """Nothing comes in."""

    async def more(self, window: Window) -> None:
        """There is no more."""

    async def again(self, window: Window, first_visible: int, hold: bool) -> None:
        """Read the same list."""
        jobs = [job(number) for number in range(1, 13)]
        window.rows = [job_line(one) for one in jobs]
        window.places = {one.id: index for index, one in enumerate(jobs)}
        window.loaded = window.complete = True

    async def job(self, job_id: str) -> tuple[Job, list[Attempt]]:
        """Read the same job."""
        one = job(int(job_id[-12:], 16))
        said, signature = "smtp mx-7:25 timed out after 10s", "9f31c2aaaaaa"
        attempts = [
            Attempt(one.id, 1, 1, "error", "OSError", "no route", DISK, "1a2b3cbbbbbb", "web-2:12", ago(90), ago(89)),
            Attempt(one.id, 2, 2, "error", "TimeoutError", said, SMTP, signature, "web-1:4711", ago(70), ago(60)),
            Attempt(one.id, 3, 1, "error", "TimeoutError", said, SMTP, signature, "web-1:4711", ago(25), ago(15)),
        ]
        return one, attempts

    async def outcome(self, signature: str) -> str:
        """Nothing was retried here."""
        return ""

    async def log(self, job_id: str) -> LogPage:
        """Read the same lines."""
        entries = (
            LogEntry(812, 1, ago(19), "connected to mx-7:25"),
            LogEntry(813, 1, ago(10), "no answer, giving up\n\x1b[2J what the server said before"),
            LogEntry(814, 2, ago(4), "connected to mx-7:25, which takes its time to say what it thinks of this letter"),
        )
        return LogPage(entries, 0)


def still_app() -> ConsoleApp:
    """Return a console that stands still."""
    app = ConsoleApp(
        StillConnection(), context="prod", hints=["send_email: restart the mail relay: systemctl restart mx-7"]
    )
    app.model = Model(lambda: STEADY)
    app.refresher = StillRefresher(app.connection, app.model, app.tell)
    app.operator = Operator(app.connection, False, app.tell)
    return app


async def show(seat: Seat) -> None:
    """Give the console its fixed picture."""
    seat.app.model.adopt(snapshot())
    seat.app.model.apply(EventBatch("images", "g", 1, 0.0, running()))
    for one in seat.app.model.running.live.values():
        one.started = (NOW - timedelta(seconds=12)).timestamp()
    seat.app.model.latency.look(TALLIES, STEADY)
    seat.app.tell(Adopted())
    for _ in range(3):
        # Longer than a moving cursor waits before its job is read.
        await seat.pilot.pause(0.1)
        seat.view.flush()
        for widget in seat.view.line_widgets():
            widget.repaint()
