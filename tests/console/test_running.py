"""Events are applied by token and order of state; a snapshot puts right what they missed."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from jobconsole.core import running as module
from jobconsole.core.rows import JobLine
from jobconsole.core.running import RunningJobs
from queue_core.model.events import Event, EventName
from queue_core.model.states import Status

AT = datetime(2026, 3, 1, tzinfo=UTC)
ENDINGS = (EventName.COMPLETED, EventName.RETRYING, EventName.DEAD, EventName.CANCELLED, EventName.RELEASED)


def event(name: str, token: int, job: str = "a", **extra: object) -> Event:
    """Return an event of a job."""
    return Event(name, "work", job, "task", token, dict(extra) or None)


def line(job: str, token: int, progress: int = 0, started: float = 0.0) -> JobLine:
    """Return a running job as a snapshot has it."""
    return JobLine(
        id=job, type="task", queue="work", status=Status.RUNNING, priority=5, created_at=AT, updated_at=AT, run_at=AT,
        started_at=datetime.fromtimestamp(AT.timestamp() + started, UTC), completed_at=None, error="", signature="",
        kind="", retry_count=0, max_retries=3, crashes=0, progress=progress, message="", worker="w", token=token,
        trashed=False,
    )  # fmt: skip


def applied(*events: Event) -> RunningJobs:
    """Return running jobs after these events, one second apart."""
    jobs = RunningJobs()
    for second, one in enumerate(events):
        jobs.apply(one, AT.timestamp() + second, float(second + 1))
    return jobs


def test_a_claim_and_its_progress() -> None:
    jobs = applied(
        event("claimed", 1, worker="w-1", priority=10), event("progress", 1, progress=40, message="half\x1b")
    )
    job = jobs.live["a"]
    assert (job.progress, job.worker, job.priority, job.message) == (40, "w-1", 10, "half␛")


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_ended_attempt_stays_ended(ending: EventName) -> None:
    jobs = applied(event("claimed", 1), event(ending, 1), event("progress", 1, progress=90), event("claimed", 1))
    assert jobs.live == {}


def test_progress_of_an_unknown_job_says_that_it_runs() -> None:
    assert applied(event("progress", 1, progress=10)).live["a"].progress == 10


def test_a_new_attempt_takes_the_place_of_the_old_one() -> None:
    jobs = applied(event("claimed", 1), event("claimed", 2), event("completed", 1))
    assert jobs.live["a"].token == 2


def test_an_older_attempt_says_nothing() -> None:
    jobs = applied(event("claimed", 2), event("progress", 1, progress=99))
    assert (jobs.live["a"].token, jobs.live["a"].progress) == (2, 0)


def test_strange_progress_stays_within_its_bounds() -> None:
    assert applied(event("progress", 1, progress=4000)).live["a"].progress == 100
    assert applied(event("progress", 1, progress="much")).live["a"].progress == 0


def test_a_snapshot_removes_what_no_longer_runs_and_adds_what_does() -> None:
    jobs = applied(event("claimed", 1))
    jobs.adopt([line("b", 5, 30)], complete=True, began=10.0, lossy=False)
    assert {job.id: job.progress for job in jobs.live.values()} == {"b": 30}


def test_what_an_event_said_after_the_snapshot_began_stays() -> None:
    jobs = applied(event("claimed", 1), event("completed", 1), event("claimed", 2, job="b"))
    jobs.adopt([line("a", 1)], complete=True, began=2.5, lossy=False)
    assert list(jobs.live) == ["b"]


def test_an_older_progress_in_a_snapshot_does_not_move_the_bar_back() -> None:
    jobs = applied(event("claimed", 1), event("progress", 1, progress=60))
    jobs.adopt([line("a", 1, 20)], complete=True, began=10.0, lossy=False)
    assert jobs.live["a"].progress == 60


def test_what_was_read_of_an_attempt_is_as_far_as_it_is_when_events_were_lost() -> None:
    jobs = applied(event("claimed", 2), event("progress", 2, progress=50, message="half"))
    assert jobs.progress_of("a", 2, 0) == (50, "half")
    assert jobs.progress_of("a", 2, 75) is None, "the store has heard more"
    assert jobs.progress_of("a", 1, 0) is None, "another attempt"
    assert jobs.progress_of("b", 2, 0) is None


def test_a_part_of_the_running_jobs_says_nothing_about_those_that_started_later() -> None:
    jobs = applied(event("claimed", 1), event("claimed", 1, job="late"))
    jobs.live["late"].started = AT.timestamp() + 100
    jobs.adopt([line("b", 1, started=50)], complete=False, began=10.0, lossy=False)
    assert set(jobs.live) == {"b", "late"}


def test_after_a_gap_a_part_is_believed() -> None:
    jobs = applied(event("claimed", 1, job="late"))
    jobs.live["late"].started = AT.timestamp() + 100
    jobs.adopt([line("b", 1, started=50)], complete=False, began=10.0, lossy=True)
    assert set(jobs.live) == {"b"}


def test_what_a_part_let_go_of_comes_back() -> None:
    jobs = applied(event("claimed", 1, "a"), event("claimed", 2, "b"))
    jobs.adopt([line("a", 1)], False, 10.0, True)
    assert set(jobs.live) == {"a"}
    jobs.adopt([line("a", 1), line("b", 2)], False, 11.0, False)
    assert set(jobs.live) == {"a", "b"}, "it runs: the part before was no word about it"
    jobs.adopt([line("a", 1)], True, 12.0, False)
    jobs.apply(event("progress", 2, "b", progress=9), AT.timestamp(), 13.0)
    assert set(jobs.live) == {"a"}, "the whole is believed, whatever comes late"


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIVE_LIMIT", 10)
    monkeypatch.setattr(module, "ENDED_LIMIT", 10)
    jobs = applied(*(event("claimed", 1, job=f"r{number}") for number in range(30)))
    assert (len(jobs.live), jobs.dropped) == (10, True)
    jobs = applied(*(event("completed", 1, job=f"e{number}") for number in range(30)))
    assert len(jobs._ended) == 10


@pytest.mark.parametrize("seed", range(20))
def test_random_events_lead_to_the_state_of_the_store(seed: int) -> None:
    """Duplicates and an order that is wrong across jobs change nothing; loss is put right by a snapshot."""
    chance = random.Random(seed)
    truth: dict[str, tuple[int, int]] = {}
    tokens, jobs = dict[str, int](), RunningJobs()
    backlog: list[Event] = []
    for step in range(2_000):
        backlog += _step(chance, truth, tokens)
        chance_of_loss = 0.0 if step < 1_000 else 0.02
        while backlog and chance.random() < 0.8:
            one = backlog.pop(0)
            for _ in range(chance.choice([1, 1, 1, 2])):
                if chance.random() >= chance_of_loss:
                    jobs.apply(one, float(step), float(step))
        if step == 999:
            _drain(jobs, backlog, step)
            assert _state(jobs) == truth
    _drain(jobs, backlog, 2_000)
    jobs.adopt([line(job, token, progress) for job, (token, progress) in truth.items()], True, 3_000.0, lossy=True)
    assert {job: one.token for job, one in jobs.live.items()} == {job: token for job, (token, _) in truth.items()}


def _step(chance: random.Random, truth: dict[str, tuple[int, int]], tokens: dict[str, int]) -> list[Event]:
    """Let something happen in the store; return what is published of it."""
    job = f"job-{chance.randrange(12)}"
    if job not in truth:
        tokens[job] = tokens.get(job, 0) + 1
        truth[job] = (tokens[job], 0)
        return [event("claimed", tokens[job], job)]
    token, progress = truth[job]
    if chance.random() < 0.6:
        progress = min(100, progress + chance.randrange(30))
        truth[job] = (token, progress)
        return [event("progress", token, job, progress=progress)]
    del truth[job]
    return [event(chance.choice(ENDINGS), token, job)]


def _drain(jobs: RunningJobs, backlog: list[Event], step: int) -> None:
    while backlog:
        jobs.apply(backlog.pop(0), float(step), float(step))


def _state(jobs: RunningJobs) -> dict[str, tuple[int, int]]:
    return {job: (one.token, one.progress) for job, one in jobs.live.items()}
