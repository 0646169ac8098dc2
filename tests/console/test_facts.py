"""What is known of a job, group, operation and schedule is worked out once, for screens and for the command line."""

from __future__ import annotations

import io
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from jobconsole.actions.plan import facts_of
from jobconsole.cli.output import Output
from jobconsole.cli.tables import show_facts
from jobconsole.core.progress import operation_line
from jobconsole.core.rows import job_line
from jobconsole.format.glyphs import UNICODE
from jobconsole.format.spans import HIGHEST, LABEL, RenderContext, fit, labelled, width_of
from jobconsole.present.facts import (
    Fact,
    Facts,
    cells,
    in_words,
    of_group,
    of_job,
    of_operation,
    of_schedule,
    only,
)
from jobconsole.present.job import job_lines, packed
from jobconsole.present.operation import operation_lines
from queue_core.model.operation import ChangeOptions, Outcomes, Rollout
from queue_core.model.outcome import LOST_ONCE, lost_too_often
from tests.console.making import operation
from tests.tui.still import PLANNED, SIGNATURES, job

NOW = datetime(2026, 3, 1, 3, 7, 41, tzinfo=UTC)
MOMENT = RenderContext(NOW, UNICODE)
HOSTILE = "\x1b]0;owned\x07 \u202e"


@pytest.mark.parametrize("height", [1, 2, 3])
def test_facts_are_cut_only_where_no_line_is_left(height: int) -> None:
    facts = [Fact("state", "known"), Fact("since", "r2 " * 12), Fact("owner", "ana"), Fact("repair", "r3 " * 12)]
    lines = packed(facts, RenderContext(NOW, UNICODE), 50, height)
    assert len(lines) == min(height, 3)
    labels = [text.strip() for line in lines for text, tone in line if tone == "muted"]
    assert labels == ["state", "since", "owner", "repair"], "in their order, none left out"
    assert all(width_of(line) <= 52 for line in lines[:-1] or ([lines[0]] if height == 3 else [])), "whole facts"


def test_facts_that_just_fit_are_not_cut() -> None:
    facts = [Fact("queue", "a" * 20), Fact("due", "18:31:11")]
    context = RenderContext(NOW, UNICODE)
    (whole,) = packed(facts, context, 40, 2)
    assert "".join(text for text, _ in fit(whole, 40)) == f"queue {'a' * 20}  due 18:31:11"
    assert len(packed(facts, context, 39, 2)) == 2


@pytest.mark.parametrize(("number", "died"), [(1, "03:07:26"), (2, "from 03:07:15 to 03:07:26")])
def test_jobs_that_died_in_one_second_have_one_time(number: int, died: str) -> None:
    rows = [job_line(job(place)) for place in range(1, number + 1)]
    assert dict(facts_of(rows))["died"] == died


@pytest.mark.parametrize("more", [False, True])
def test_jobs_in_the_trash_have_the_time_of_their_death_beside_that_of_their_deletion(more: bool) -> None:
    """The time of their last change was shown as that of their death, also before they are removed for good."""
    died, deleted = NOW - timedelta(minutes=26), NOW - timedelta(minutes=1)
    rows = [
        job_line(replace(job(1), completed_at=died + at, updated_at=deleted + at, trashed_at=deleted + at))
        for at in (timedelta(0), timedelta(seconds=5))
    ]
    found = dict(facts_of(rows, more=more))
    some = "of the newest 2: " if more else ""
    assert found["died"] == f"{some}from 02:41:41 to 02:41:46"
    assert found["deleted"] == "from 03:06:41 to 03:06:46"


def text_of(facts: Facts, label: str) -> str:
    """Return the text of the one fact with this label."""
    (found,) = only(facts, label)
    return found.text()


def lines_of(lines: list[tuple[tuple[str, str], ...]]) -> str:
    """Return the lines of a screen as text."""
    return "\n".join("".join(text for text, _ in line).rstrip() for line in lines)


def test_texts_of_a_job_are_harmless() -> None:
    facts = of_job(replace(job(1), error=HOSTILE, queue=HOSTILE, tags=(HOSTILE,)))
    assert [fact for fact in facts if not fact.text().isprintable()] == []


def test_a_moment_of_today_is_a_time_on_a_screen_and_whole_on_the_command_line() -> None:
    fact = Fact("created", NOW - timedelta(hours=1))
    assert (fact.text(NOW), fact.text()) == ("02:07:41", "2026-03-01 02:07:41Z")
    assert fact.text(NOW + timedelta(days=1)) == "2026-03-01 02:07"


def test_screen_and_command_line_show_the_same_facts_of_a_job() -> None:
    one = replace(job(1), ordering_key="customer-7", unique_key="u-1", losses=2, crashes=1, cancel_requested=True)
    one = replace(one, headers={"tenant": "acme"})
    stream = io.StringIO()
    show_facts(Output(stream), of_job(one))
    printed = [line[:14].strip() for line in stream.getvalue().splitlines()]
    screen = lines_of(job_lines(one, MOMENT, 78))
    in_its_head = {"type", "status", "error"}
    assert [label for label in printed if label not in in_its_head and label not in screen] == []
    assert {"losses", "crashes", "cancel", "ordering key", "unique key", "headers"} <= set(printed)


def test_screen_and_command_line_show_the_same_facts_of_an_operation() -> None:
    one = operation(1, total=100, done=10, barrier=10, rollout=Rollout(10, 200.0, 20.0))
    labels = {fact.label for fact in of_operation(one, Outcomes(10, 3, 1, 6)) if fact.known}
    screen = lines_of(operation_lines(operation_line(one), Outcomes(10, 3, 1, 6), False, MOMENT, 78))
    in_its_head = {"operation", "verb", "what", "state", "jobs", "done"}
    assert [label for label in labels - in_its_head if label not in screen] == []
    assert "waiting for its outcome" in screen
    assert "of the last 10: 3 completed, 1 failed again, 6 not ended" in screen


def test_what_was_done_in_a_moment_has_no_time_that_it_took() -> None:
    done = replace(operation(1, total=1, done=1), state="done", started_at=NOW, finished_at=NOW)
    later = replace(done, finished_at=NOW + timedelta(seconds=3))
    drawn = [lines_of(operation_lines(operation_line(one), None, False, MOMENT, 78)) for one in (done, later)]
    assert ["after" in text for text in drawn] == [False, True]


def test_a_group_counts_its_types_where_there_are_several() -> None:
    one = replace(SIGNATURES[0], types=(("send_email", 38_000), ("sync_crm", 902)))
    assert text_of(of_group(one), "types") == "send_email 38,000, sync_crm 902"
    assert text_of(of_group(SIGNATURES[0]), "types") == "send_email"
    assert text_of(of_group(one, "15m"), "grown") == "9,000 in 15m"


def test_a_tick_without_a_job_is_a_fact() -> None:
    missed = replace(PLANNED[0], last_job=None)
    assert text_of(of_schedule(missed, NOW.timestamp()), "last job").startswith("none: its queue was full")
    assert text_of(of_schedule(PLANNED[3], NOW.timestamp()), "last job") == "it has not ticked yet"
    assert only(of_schedule(PLANNED[1], NOW.timestamp()), "next") == [], "a paused schedule has no next tick"


def test_cells_stand_under_the_titles_that_are_their_labels() -> None:
    facts = (Fact("queue", "mail"), Fact("dead", 3), Fact("oldest", None))
    assert cells(facts, ["DEAD", "QUEUE", "OLDEST"]) == ("3", "mail", "")


@pytest.mark.parametrize("width", [30, 42, 48, 64, 78, 198])
def test_no_line_of_facts_is_wider_than_its_screen(width: int) -> None:
    facts = [
        ("id", "a" * 36, "text"),
        ("queue", "mail", "text"),
        ("priority", "5", "text"),
        ("why", "x y " * 90, "text"),
    ]
    lines = labelled(facts, width)
    assert max(map(width_of, lines)) <= width
    assert lines_of(lines).count("why") == 1


def test_short_facts_stand_beside_each_other_and_long_ones_are_cut() -> None:
    facts = [("queue", "mail", "text"), ("priority", "5", "text"), ("why", "x y " * 90, "text"), ("last", "1", "text")]
    lines = lines_of(labelled(facts, 64)).splitlines()
    assert lines[0].split() == ["queue", "mail", "priority", "5"]
    assert len(lines) == 1 + HIGHEST + 1
    assert lines[HIGHEST].endswith("…")
    assert lines[HIGHEST][:LABEL].strip() == ""


def test_one_is_one() -> None:
    assert in_words(ChangeOptions(), Rollout(ramp=(1,))) == ["a ramp of 1 job, then the rest"]
    assert in_words(ChangeOptions(), Rollout(ramp=(1, 10))) == ["a ramp of 1, 10 jobs, then the rest"]
    assert lost_too_often(1) == LOST_ONCE
    assert lost_too_often(2) == "2 workers were lost while they ran this job"


@pytest.mark.parametrize(
    ("rate", "words"),
    [
        (200, "200 a second"),
        (1.5, "1.5 a second"),
        (0.5, "30 a minute"),
        (1 / 3600, "1 an hour"),
        (1 / 86400, "1 a day"),
    ],
)
def test_a_slow_rate_is_put_by_a_longer_time(rate: float, words: str) -> None:
    assert list(in_words(ChangeOptions(), Rollout(rate=rate))) == [words]
