"""Places: links, copying, full screen, the time window, orders, ranges of marks."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.base.links import Link, parse_link
from jobconsole.tui.screens.jobs import JobsView
from jobconsole.tui.screens.triage import TriageView
from queue_core import JobQueue
from queue_core.model.states import Status
from tests.conformance.world import World
from tests.tui.conftest import Sit
from tests.tui.scenes import dead, disk, smtp
from tests.tui.seat import NARROW, WIDE, Seat, seated

Buried = dict[str, list[str]]
SIZES = pytest.mark.parametrize("size", [NARROW, WIDE], ids=["80x24", "200x50"])


def at(jobs: JobQueue, link: Link) -> ConsoleApp:
    """A console that goes to a link."""
    app = ConsoleApp(jobs)
    app.link = link
    return app


class TestLinks:
    async def test_a_signature_is_copied_as_the_command_that_opens_it(
        self, sit: Sit, buried: Buried, state: Path
    ) -> None:
        async with sit(context="prod") as seat:
            await seat.ready()
            await seat.until("TimeoutError")
            await seat.press("Y")
            await seat.until("copied jobconsole open")
            command = "jobconsole open jobconsole://prod/signature/9f31c2aaaaaa"
            assert seat.app.clipboard == command
            assert (state / "jobconsole" / "copied.txt").read_text() == f"{command}\n"

    async def test_a_job_a_view_and_its_filter_have_links(self, sit: Sit, buried: Buried) -> None:
        async with sit(WIDE) as seat:
            await seat.ready()
            await seat.until("TimeoutError")
            await seat.press("enter", "Y")
            assert seat.app.clipboard.endswith(f":///job/{buried['send_email'][0]}")
            await seat.press("2", "Y")
            await seat.until(lambda: seat.app.clipboard.endswith(":///live"))
            await seat.press("3", "slash", *"type:nosuch", "enter")
            await seat.until("nothing matches")
            await seat.press("Y")
            link = parse_link(seat.app.clipboard.removeprefix("jobconsole open "))
            assert (link.place, link.value) == ("jobs", "type=nosuch")

    @SIZES
    async def test_a_link_leads_to_a_job(self, jobs: JobQueue, buried: Buried, size: tuple[int, int]) -> None:
        one = buried["resize_image"][1]
        async with seated(at(jobs, Link("job", one)), size) as seat:
            await seat.until("images.py:12")
            assert isinstance(seat.view, JobsView)
            await seat.press("R")
            await seat.until("Retry 1 job")
            await seat.press("enter")
            await seat.until("retried 1 job")
            assert (await jobs.inspector.get(one)).status is Status.QUEUED

    async def test_a_link_to_a_job_that_is_gone_says_so(self, jobs: JobQueue, buried: Buried) -> None:
        async with seated(at(jobs, Link("job", "0197b3c2-5a1e-7c88-9b3e-56e26719422c"))) as seat:
            await seat.until("no job with id 0197b3c2")

    @SIZES
    async def test_a_link_leads_to_a_signature(self, jobs: JobQueue, buried: Buried, size: tuple[int, int]) -> None:
        async with seated(at(jobs, Link("signature", "1a2b3cbbbbbb")), size) as seat:
            await seat.ready()
            await seat.until("1 signature · 3 jobs")
            assert isinstance(seat.view, TriageView)
            await seat.press("escape")
            await seat.until("3 signatures")

    async def test_a_link_leads_to_a_filter(self, jobs: JobQueue, buried: Buried) -> None:
        async with seated(at(jobs, Link("jobs", "type:sync_crm status:dead"))) as seat:
            await seat.until("Jobs  2 jobs")
            assert "/type:sync_crm status:dead" in seat.text()


async def test_a_terminal_without_a_clipboard_has_the_file(sit: Sit, buried: Buried, state: Path) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("y")
        await seat.until("also in")
        copied = state / "jobconsole" / "copied.txt"
        assert (copied.read_text(), copied.stat().st_mode & 0o777) == ("9f31c2aaaaaa\n", 0o600)


async def test_where_the_file_cannot_be_written_the_clipboard_still_has_it(
    sit: Sit, buried: Buried, state: Path
) -> None:
    (state / "jobconsole").write_text("in the way")
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("y")
        await seat.until("clipboard only")
        assert seat.app.clipboard == "9f31c2aaaaaa"


@SIZES
async def test_a_signature_is_shown_on_the_whole_screen_and_retried_there(
    sit: Sit, jobs: JobQueue, buried: Buried, size: tuple[int, int]
) -> None:
    async with sit(size) as seat:
        await seat.ready()
        await seat.until("OSError")
        await seat.press("j", "f")
        await seat.until("[Breakdown]", but="Running")
        await seat.press("left_square_bracket")
        await seat.until("signature    1a2b3cbbbbbb")
        await seat.until("images.py:12")
        await seat.press("f")
        await seat.until("Running")
        assert seat.view.focused is seat.table("signatures")
        await seat.press("f", "R", "enter")
        await seat.until("retried 3 jobs")
        assert (await jobs.inspector.get(buried["send_email"][0])).status is Status.DEAD


async def test_what_became_of_a_retry_stands_with_the_signature(
    sit: Sit, jobs: JobQueue, world: World, buried: Buried
) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("R", "enter")
        await seat.until("retried 5 jobs")
        await dead(world, 1, smtp(), type="send_email", queue="mail")
        await seat.until("3 signatures")
        while "TimeoutError" not in seat.table("signatures").selection.row.title:
            await seat.press("k")
        await seat.until("retried 5: 5 not ended")


async def test_the_window_of_growth_is_changed(sit: Sit, buried: Buried) -> None:
    async with sit(WIDE) as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        assert " 15m " in seat.text()
        await seat.press("w")
        await seat.until("growth is counted over the last 1h")
        await seat.until(lambda: " 15m " not in seat.text() and " 1h " in seat.text())
        await seat.until("grown        5 in 1h")


async def test_signatures_are_sorted_by_something_else(sit: Sit, world: World, buried: Buried) -> None:
    await dead(world, 4, disk(), type="resize_image", queue="images")
    async with sit() as seat:
        await seat.ready()
        await seat.until("3 signatures · 14 jobs")
        table = seat.table("signatures")
        key = table.selection.key
        await seat.press("s")
        await seat.until("by count")
        assert [row.count for row in table.selection.rows] == [7, 5, 2]
        await seat.press("s", "s")
        await seat.until("by first death")
        assert table.selection.key == key, "the cursor stays on its signature"
        await seat.press("s")
        await seat.until("by growth")


async def test_jobs_are_listed_oldest_first(sit: Sit, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("enter")
        jobs = seat.table("jobs")
        await seat.until(lambda: len(jobs.selection.rows) == 5)
        await seat.press("s")
        await seat.until("oldest first")
        await seat.until(lambda: [row.id for row in jobs.selection.rows] == buried["send_email"][::-1])


async def test_a_range_is_marked(sit: Sit, jobs: JobQueue, buried: Buried) -> None:
    async with sit() as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("enter")
        await seat.until(lambda: len(seat.table("jobs").selection.rows) == 5)
        await seat.press("space", "j", "j", "v")
        await seat.until("4 marked")
        await seat.press("D", "enter")
        await seat.until("deleted 4 jobs")
        states = [(await jobs.inspector.get(one)).trashed_at is not None for one in buried["send_email"]]
        assert states == [True, True, True, True, False]


async def test_two_attempts_are_compared(jobs: JobQueue, world: World) -> None:
    (one,) = await dead(world, 1, disk(), type="resize_image", queue="images", max_retries=0)
    await jobs.operations.change("retry", [one])
    (claim,) = await world.claim(1, queue="images", types=("resize_image",))
    await world.settle(claim, "dead", failure=smtp())
    async with seated(ConsoleApp(jobs), WIDE) as seat:
        await seat.ready()
        await tab(seat, "[Timeline]")
        await seat.until("retried by an operator")
        await tab(seat, "[Diff]")
        await seat.until("exception - OSError")
        await seat.until("+ TimeoutError")


async def tab(seat: Seat, wanted: str) -> None:
    """Turn to a tab."""
    while wanted not in seat.text():
        await seat.press("right_square_bracket")


def exported(folder: Path) -> list[Path]:
    """The files that were written."""
    return sorted(folder.glob("jobs-*"))


class TestExport:
    @pytest.fixture(autouse=True)
    def here(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)

    @SIZES
    async def test_the_signature_under_the_cursor(
        self, sit: Sit, buried: Buried, tmp_path: Path, size: tuple[int, int]
    ) -> None:
        async with sit(size) as seat:
            await seat.ready()
            await seat.until("TimeoutError")
            await seat.press("e")
            await seat.until("about 5 jobs")
            await seat.press("enter")
            await seat.until("wrote 5 jobs to")
        (path,) = exported(tmp_path)
        assert path.stat().st_mode & 0o777 == 0o600
        assert all(one in path.read_text() for one in buried["send_email"])

    async def test_everything_that_matches_as_lines(self, sit: Sit, buried: Buried, tmp_path: Path) -> None:
        async with sit() as seat:
            await seat.ready()
            await seat.press("3")
            await seat.until("send_email")
            await seat.press("asterisk", "e")
            await seat.until("everything that matches")
            await seat.press("tab", "enter")
            await seat.until("wrote 18 jobs to")
        (path,) = exported(tmp_path)
        assert path.read_text().count("\n") == 18

    async def test_nothing_is_written_when_the_sheet_is_left(self, sit: Sit, buried: Buried, tmp_path: Path) -> None:
        async with sit() as seat:
            await seat.ready()
            await seat.until("TimeoutError")
            await seat.press("e")
            await seat.until("Export jobs")
            await seat.press("escape")
            await seat.until("Dead letters")
        assert exported(tmp_path) == []


async def test_a_list_and_a_pending_change_are_copied_as_commands(sit: Sit, state: Path, buried: Buried) -> None:
    async with sit(context="prod") as seat:
        await seat.ready()
        await seat.until("TimeoutError")
        await seat.press("slash", *"queue:mail", "enter")
        await seat.until("1 signature")
        await seat.press("ctrl+y")
        await seat.until("copied jobconsole --context=prod dlq groups --filter=queue=mail")
        await seat.press("R")
        await seat.until("Retry 5 jobs")
        assert "^Y copies it as a command" in seat.text()
        await seat.press("ctrl+y")
        await seat.until("copied as a command")
        written = (state / "jobconsole" / "copied.txt").read_text(encoding="utf-8")
        assert written.startswith("jobconsole --context=prod dlq retry '--filter=queue=mail ")
        assert "9f31c2aaaaaa" in written
        assert "--spread=0" in written
