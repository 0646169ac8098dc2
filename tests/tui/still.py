"""A console that stands still: fixed records, a clock that does not move, servers that are always there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from textual.message import Message

from jobconsole.actions.edit import Known, Original
from jobconsole.actions.plan import Facts, Plan, Target, Verb, default_rollout
from jobconsole.core.connection import Connection, Server
from jobconsole.core.listing import Window
from jobconsole.core.model import Model
from jobconsole.core.progress import OperationLine, operation_line
from jobconsole.core.rows import QueueLine, job_line
from jobconsole.core.schedules import ScheduleLine, TickLine, schedule_line
from jobconsole.core.snapshot import DEAD, Snapshot, SnapshotNeeds, SnapshotTotals
from jobconsole.present.stack import LiveStack
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.base.messages import Adopted, Operating
from jobconsole.tui.base.messages import PlanReady as Frozen
from jobconsole.tui.base.operations import OperationDetail, OperationReader
from jobconsole.tui.base.operator import Operator
from jobconsole.tui.base.refresher import Refresher
from queue_core import JobQueue
from queue_core.client.causes.compare import Comparison
from queue_core.model.events import Event, EventBatch
from queue_core.model.job import Attempt, Job, LogEntry
from queue_core.model.operation import Operation, Outcomes, Rollout
from queue_core.model.report import Breakdown, LogPage, Release, SeriesPoint, SignatureInfo, Tally, WorkerInfo
from queue_core.model.schedule import PassedTick, Planned, Schedule
from queue_core.model.states import Status
from queue_core.model.triage.signatures import Ruled, SignatureFacts, SignatureRule, SignatureState, TypeRuns
from tests.console.making import operation
from tests.tui.causes import fixed_breakdown, fixed_comparison
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
        payload={"to": "a@example.org", "attempt": number, "urgent": True},
        payload_text=f'{{"to":"a@example.org","attempt":{number},"urgent":true}}', status=status,
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
    group("77aa00cccccc", "KeyError: <str>", "sync_crm", 3_190, (0, 0, 0, 0, 0, 311), 2),
)


RELEASES = (
    Release("r119", 1, ago(9 * 86_400), 1),
    Release("r123", 2, ago(86_400), 2),
    Release("r124", 3, ago(800), 3),
    Release("r125", 4, ago(161), 4),
)
RUNS = (
    TypeRuns("send_email", 2, 410_900, 12, ago(1_051).timestamp()),
    TypeRuns("send_email", 3, 40_898, 38_902, ago(1_051).timestamp()),
    TypeRuns("sync_crm", 4, 1_530, 311, ago(4).timestamp()),
)
MAIL = SignatureRule(Ruled("team mail", "type send_email"), Ruled("https://run.example.org/smtp", "task send_email"))
STATES = {
    "9f31c2aaaaaa": SignatureState(
        "9f31c2aaaaaa", "new", since="r124", suspect=True, died_since=38_902, died=38_902, before="r123",
        before_runs=41_200, rule=MAIL,
    ),
    "1a2b3cbbbbbb": SignatureState(
        "1a2b3cbbbbbb", facts=SignatureFacts(owner="ana"), since="r119", died_since=6_110, died=6_110,
    ),
    "77aa00cccccc": SignatureState(
        "77aa00cccccc", "regressed", SignatureFacts("resolved", ago(5_261).timestamp(), "bo", release="r123"),
        ago(161).timestamp(), "r119", regressed_on="r125", died_since=3_190, died=3_190,
    ),
}  # fmt: skip


def queue(name: str, *depth: int, paused: bool = False, oldest: float | None = None) -> QueueLine:
    """Return a fixed queue: high, normal, low, scheduled, retrying, running, dead."""
    state = "paused" if paused else "open"
    return QueueLine(name, name, paused, *depth, ago(oldest) if oldest is not None else None, state=state)  # type: ignore[arg-type]


def worker(number: int, busy: int, lost: bool = False, quiet: bool = False) -> WorkerInfo:
    """Return a fixed worker."""
    return WorkerInfo(
        id=f"w-{number}", host=f"web-{number}", pid=4700 + number, version="0.1.0",
        release="r125" if number == 3 else "r124", queues=("crm", "images", "mail"), types=(), concurrency=32,
        busy=busy, quiet=quiet, started_at=ago(7200), heartbeat_at=ago(2),
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
        now=NOW, began=STEADY, taken=STEADY, needs=SnapshotNeeds(where=DEAD), queues=queues,
        workers=(worker(1, 32), worker(2, 0), worker(3, 5, quiet=True), worker(4, 12, lost=True)), orphaned_types={},
        signatures=SIGNATURES, running=(), more_running=False,
        series=tuple(SeriesPoint(ago(60 * n), 2_000, 3_000 + 300 * n, 10, 600) for n in range(5, -1, -1)),
        totals=SnapshotTotals(12_433, 96, 7, 310, 48_202, 12, ago(840), 3, 1, 96),
        states=STATES, releases=RELEASES, runs=RUNS,
    )  # fmt: skip


TALLIES = [
    Tally("mail", "send_email", "completed", 900, 0, 0, {}, {5: 700, 6: 150, 9: 50}),
    Tally("mail", "send_email", "dead", 300, 0, 0, {}, {12: 300}),
    Tally("images", "resize_image", "completed", 4_000, 0, 0, {}, {7: 3_990, 8: 10}),
    Tally("images", "resize_image", "retried", 13, 0, 0, {}, {7: 13}),
    Tally("crm", "sync_crm", "completed", 310, 0, 0, {}, {3: 310}),
]


def planned(name: str, cron: str, tz: str, due: float, last: float | None, paused: bool = False) -> Planned:
    """Return a fixed schedule: due in so many seconds, last so many seconds ago."""
    one = Schedule(name, cron, tz, "send_email", '{"to": "all", "urgent": true}', "mail", 10, 2)
    passed = None if last is None else ago(last).timestamp()
    return Planned(one, ago(-due).timestamp(), paused, passed, job(1).id if last else None)


PLANNED = (
    planned("digest-hourly", "0 * * * *", "UTC", 3139, 461),
    planned("newsletter", "30 6 * * MON", "Europe/Paris", 94_939, 509_861, paused=True),
    planned("reminders", "*/5 * * * *", "UTC", -161, 461),
    planned("yearly-statement", "0 0 1 1 *", "America/Argentina/Buenos_Aires", 26_434_339, None),
)


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


def asked(number: int, verb: str, ago_: float, **given: Any) -> Operation:
    """Return a fixed operation."""
    one = operation(number, verb, ago_, **given)
    return replace(one, finished_at=ago(ago_ - 12)) if one.ended else one


OPERATIONS = (
    asked(
        81, "retry", 252, why="the mail relay is back", rollout=Rollout(10, 200.0, 20.0), signatures=("9f31c2aaaaaa",),
        total=38_902, done=21_400, processed=21_388, skipped=12, barrier=38_902,
    ),
    asked(
        80, "retry", 500, rollout=Rollout(10, 200.0, 20.0), signatures=("77aa00cccccc",), label="KeyError: <str>",
        total=3_190, done=10, processed=10, barrier=10, state="stopped", note="10 of 10 canary jobs died again",
    ),
    asked(79, "pause", 900, label="queue crm", state="done", why="until the field is back"),
    asked(
        78, "delete", 4_000, label="OSError: No space left on <path>", total=1_200, done=1_200, processed=1_195,
        skipped=5, state="done",
    ),
    asked(77, "restore", 4_500, label="3 marked jobs", total=3, done=3, processed=3, state="done"),
    asked(76, "cancel", 86_400, label="everything that matches", total=900, done=400, processed=400, state="cancelled"),
    asked(75, "quiet", 90_000, label="worker web-3:4703", state="failed", note="web-3 is gone"),
)  # fmt: skip


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


class StillOperationReader(OperationReader):
    """Reads fixed operations."""

    async def page(self, before: int | None) -> list[OperationLine]:
        """Read the same list."""
        return [self._model.active_operations.of(one.number) or operation_line(one) for one in OPERATIONS]

    async def detail(self, number: int) -> OperationDetail:
        """Read the same operation."""
        line = next(line for line in await self.page(None) if line.number == number)
        outcomes = Outcomes(1_000, 962, 8, 30) if number == 81 else None
        members = (job(1, Status.COMPLETED), job(2, Status.RUNNING), job(3), job(4, Status.COMPLETED))
        return OperationDetail(line, outcomes, tuple(job_line(one) for one in members) if line.operation.total else ())

    async def stacks(self, job_id: str) -> list[LiveStack]:
        return []

    async def of_job(self, job_id: str) -> list[Operation]:
        """Read the operation that has changed every job."""
        return [asked(62, "retry", 40, why="the mail relay is back")]

    async def facts(self, target: Target) -> Facts:
        """Read the same facts."""
        earlier = "02:58:00 ana: canary of 10: 10 failed again, stopped (#81)"
        died = [("died", "from 02:52:10 to 03:07:37")] if target.signatures else []
        return (*died, ("sample", "0001 send_email: smtp mx-7:25 timed out after 10s"), ("before", earlier))


class StillOperator(Operator):
    """Freezes fixed jobs, and changes nothing."""

    async def run(self) -> None:
        """Nothing is carried out."""

    async def cautions(self, target: Target, plan: Plan) -> list[str]:
        return [
            "no live worker runs send_email: the jobs wait until one does",
            "#82 of bo retries 1,204 of these, too; what it has retried is skipped",
        ]

    async def freeze(self, verb: Verb, target: Target) -> Frozen:
        """Freeze as many jobs as the screen knows of."""
        number = target.about or 0
        ids = tuple(f"id-{place}" for place in range(number))
        return Frozen(target, Plan(verb, target.label, ids, rollout=default_rollout(verb, number)))


class StillRefresher(Refresher):
    """Reads fixed records, once."""

    def __init__(self, connection: Connection, model: Model, tell: Callable[[Message], None]) -> None:
        super().__init__(connection, model, tell)
        self.operations = StillOperationReader(connection, model, self._read)

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

    async def breakdown(self, signature: str) -> Breakdown:
        """Read the same breakdown."""
        return fixed_breakdown(signature, ago(3000))

    async def comparison(self, job_id: str, back: int) -> Comparison:
        """Read the same two."""
        return fixed_comparison(job(1), job(40 + back, Status.COMPLETED), back)

    async def original(self, job_id: str) -> Original:
        """Read the same job, with the schema of its type."""
        schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
        return Original((await self.job(job_id))[0], Known(schema), 1 << 20)

    async def outcome(self, signature: str) -> str:
        """Nothing was retried here."""
        return ""

    async def schedules(self) -> list[ScheduleLine]:
        """Read the same schedules."""
        return [schedule_line(planned) for planned in PLANNED]

    async def ticks(self, name: str) -> list[TickLine]:
        """Read the same ticks: one is under way, one died, one brought no job, and one has left the history."""
        found = [job(1, Status.RUNNING), job(2), None, None, job(3, Status.COMPLETED)]
        ids = [one.id if one else None for one in (*found[:3], job(4), found[4])]
        hours = [1.1, 25.1, 49.1, 73.1, 97.1]
        return [
            TickLine(PassedTick(ago(hour * 3600).timestamp(), job_id), job_line(one) if one else None)
            for hour, job_id, one in zip(hours, ids, found, strict=True)
        ]

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
    app.refresher = StillRefresher(app.connection, app.model, app.post)
    app.operator = StillOperator(app.connection, False, app.post)
    return app


async def show(seat: Seat, operating: bool = False) -> None:
    """Give the console its fixed picture; with operations that are under way, where a test is about them."""
    seat.app.model.adopt(snapshot())
    seat.app.model.apply(EventBatch("images", "g", 1, 0.0, running()))
    for one in seat.app.model.running.live.values():
        one.started = (NOW - timedelta(seconds=12)).timestamp()
    seat.app.model.latency.update(TALLIES, STEADY)
    if operating:
        going = [one for one in OPERATIONS if not one.ended]
        seat.app.model.active_operations.adopt(going, {80: Outcomes(10, 0, 10, 0)})
        seat.app.model.active_operations.lines = tuple(
            replace(line, rate=200.0) if line.number == 81 else line for line in seat.app.model.active_operations.lines
        )
        seat.app.post(Operating())
    seat.app.post(Adopted())
    for _ in range(3):
        # Longer than a moving cursor waits before its job is read.
        await seat.pilot.pause(0.1)
        seat.view.flush()
        for widget in seat.view.line_widgets():
            widget.repaint()
