"""Releases on the screen: ticks where they went live, rollbacks, and what became of the jobs on each."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from jobconsole.core.snapshot import SnapshotNeeds
from jobconsole.format.glyphs import ASCII, UNICODE
from jobconsole.format.spans import RenderContext
from jobconsole.present.release import SHOWN_RELEASES, LiveSince, deployments, release_lines, release_table, ticks
from queue_core.model.report import Release
from queue_core.model.triage.signatures import TypeRuns
from tests.tui.still import NOW, ago, snapshot, worker

CONTEXT = RenderContext(NOW, UNICODE)


def test_releases_went_live_when_they_were_first_seen() -> None:
    found = deployments(snapshot())
    assert [(one.name, one.back) for one in found] == [
        ("r119", False),
        ("r123", False),
        ("r124", False),
        ("r125", False),
    ]
    assert found[-1].at == ago(161)


def test_a_release_that_is_started_again_after_a_newer_one_is_a_rollback() -> None:
    def started(release: str, seconds: float, lost: bool = False) -> object:
        return replace(worker(1, 0), release=release, started_at=ago(seconds), lost=lost)

    back = replace(snapshot(), workers=(started("r123", 60), started("r123", 50), started("r125", 100, lost=True)))
    assert deployments(back)[-1] == LiveSince(ago(60), "r123", back=True)
    # One of a mixed fleet was started again: the newer release is still live.
    mixed = replace(snapshot(), workers=(started("r124", 60), started("r125", 100)))
    assert not any(one.back for one in deployments(mixed))
    # The newer one is gone, and the older one has been running all the time.
    kept = replace(snapshot(), workers=(started("r124", 900),))
    assert not any(one.back for one in deployments(kept))


def test_ticks_are_below_their_moments() -> None:
    found = [LiveSince(ago(seconds), name) for seconds, name in ((3_000, "r1"), (600, "r2"), (300, "r3"), (30, "r4"))]
    assert ticks(found, NOW, 900.0, 30, 60, UNICODE) == " " * 10 + "╷r2" + " " * 7 + "╷r3" + " " * 6 + "╷r4"
    # Names have no room beside each other, and none beyond the end.
    close = [LiveSince(ago(seconds), f"release-{seconds}") for seconds in (600, 540, 30)]
    assert ticks(close, NOW, 900.0, 30, 30, UNICODE) == " " * 10 + "╷ ╷release-540".ljust(19) + "╷"
    assert ticks(found[:1], NOW, 900.0, 30, 60, UNICODE) == ""
    assert ticks([LiveSince(ago(30), "r1", back=True)], NOW, 900.0, 30, 60, ASCII) == " " * 29 + "'vr1"


def test_hostile_names_are_safe() -> None:
    text = ticks([LiveSince(ago(600), "\x1b[2J\n" + "r" * 900)], NOW, 900.0, 30, 60, UNICODE)
    assert text.isprintable()
    assert len(text) <= 60


def test_what_became_of_the_jobs_on_each_release() -> None:
    found = {one.name: (one.workers, one.died, one.ran) for one in release_lines(snapshot())}
    assert found == {
        "r125": (1, 311, 1_841), "r124": (2, 38_902, 79_800), "r123": (0, 12, 410_912), "r119": (0, 0, 0),
    }  # fmt: skip
    table = ["".join(text for text, _ in line) for line in release_table(release_lines(snapshot()), CONTEXT, 38)]
    assert table[0] == " RELEASE   WORKERS SINCE  DIED  OF RUN"
    assert all(len(line) <= 38 for line in table)


def test_a_release_with_workers_is_shown_however_old_it_is() -> None:
    many = tuple(Release(f"r{number}", number, NOW - timedelta(days=90 - number), number) for number in range(1, 60))
    lines = release_lines(replace(snapshot(), releases=many, workers=(replace(worker(1, 0), release="r3"),)))
    assert len(lines) == SHOWN_RELEASES
    assert [one.name for one in lines if one.workers] == ["r3"]


def test_runs_of_an_unknown_release_belong_to_none() -> None:
    unknown = replace(snapshot(), runs=(TypeRuns("x", 0, 5, 5, 0.0),))
    assert all(one.ran == 0 for one in release_lines(unknown))


def test_trends_are_counted_by_minutes() -> None:
    assert [SnapshotNeeds(window=seconds).slices for seconds in (30.0, 300.0, 900.0, 3_600.0, 86_400.0)] == [
        1, 5, 15, 30, 30,
    ]  # fmt: skip
