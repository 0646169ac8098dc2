"""`jobconsole op`: who did what, when, why and with which result; and the hand on what is under way."""

from __future__ import annotations

import getpass
import re
import signal
import socket

import pytest

from queue_core.model.operation import Author
from tests.cli.conftest import Shop
from tests.cli.running import PATIENCE, untargeted
from tests.cli.scenes import DEAD, RUNNING, await_operation, four_dead, many_dead, operation, operations, status
from tests.cli.test_looking import golden
from tests.conformance.making import worker_beat
from tests.conformance.world import World


@pytest.fixture
def dead(shop: Shop) -> Shop:
    shop.play(four_dead)
    return shop


@pytest.fixture
def detached(dead: Shop) -> Shop:
    """A store in which operation 1 retries three jobs and is carried out by nobody."""
    answer = dead("dlq", "retry", "--signature", "aaaa", "--detach", "--rate", "5/s", "--why", "mended")
    assert (answer.code, answer.out) == (0, "1\n")
    return dead


class TestLooking:
    def test_the_list_says_who_when_what_and_how_far(self, detached: Shop) -> None:
        assert detached("dlq", "delete", DEAD[3], RUNNING, "--yes").code == 1
        answer = detached("op", "list")
        lines = [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in answer.out.splitlines()]
        who = f"{getpass.getuser()}@{socket.gethostname()}"[:40]
        assert lines[0] == ["#", "CREATED", "WHO", "VERB", "STATE", "DONE", "SKIPPED", "ERRORED", "OUTCOME", "WHAT"]
        assert [*lines[1][:1], *lines[1][2:]] == ["2", who, "delete", "done", "2/2", "1", "0", "-", "2 jobs by id"]
        assert [*lines[2][:1], *lines[2][2:]] == [
            "1", who, "retry", "running", "0/3", "0", "0", "-", "status=dead signature=aaaa (mended)",
        ]  # fmt: skip

    def test_pages_and_those_that_have_not_ended(self, detached: Shop) -> None:
        for _ in range(2):
            detached("job", "delete", DEAD[3], "--yes")
        assert [one["number"] for one in operations(detached)] == [3, 2, 1]
        first = detached("op", "list", "--limit", "2")
        assert first.err == "more with: --before 2\n"
        body = detached("op", "list", "--before", "2", "--json").body
        assert ([one["number"] for one in body["operations"]], body["before"]) == ([1], None)
        assert [one["number"] for one in detached("op", "list", "--running", "--json").body["operations"]] == [1]

    def test_everything_about_one(self, detached: Shop) -> None:
        body = detached("op", "show", "1", "--json").body
        one = body["operation"]
        assert (one["verb"], one["why"], one["rate"], one["signatures"]) == ("retry", "mended", 5.0, ["aaaaaaaaaaaa"])
        assert (one["user"], one["host"]) == (getpass.getuser(), socket.gethostname())
        assert (one["state"], one["total"], one["done"], body["ids"], body["outcomes"]) == ("running", 3, 0, [], None)
        assert "how           5 a second\n" in detached("op", "show", "1").out
        assert detached("op", "run", "1").code == 0
        answer = detached("op", "show", "1")
        assert "outcomes      of the last 3: 3 not ended\n" in answer.out
        assert set(answer.out.split("changed jobs:\n")[1].split()) == set(DEAD[:3])
        body = detached("op", "show", "1", "--json").body
        outcomes = {"looked": 3, "completed": 0, "dead": 0, "unfinished": 3, "retrying": 0, "recovered": 0, "ended": 0}
        assert body["outcomes"] == outcomes
        assert sorted(body["ids"]) == DEAD[:3]

    def test_text_of_people_is_harmless(self, dead: Shop) -> None:
        dead("dlq", "delete", DEAD[0], "--yes", "--why", "\x1b]0;owned\x07")
        for line in (("op", "list"), ("op", "show", "1")):
            out = dead(*line).out
            assert "owned" in out
            assert not set(out) & {"\x1b", "\x07"}

    @pytest.mark.parametrize("line", ["show 7", "watch 7", "pause 7", "resume 7", "cancel 7", "undo 7", "run 7"])
    def test_one_that_is_not_there_is_exit_code_4(self, shop: Shop, line: str) -> None:
        answer = shop("op", *line.split())
        assert (answer.code, answer.out, answer.err) == (4, "", "jobconsole: no operation #7\n")

    def test_a_job_names_what_was_done_to_it(self, dead: Shop) -> None:
        dead("dlq", "delete", DEAD[0], "--yes", "--why", "a typo")
        dead("dlq", "restore", "--all")
        body = dead("job", "show", DEAD[0], "--json").body
        assert [(one["number"], one["verb"], one["why"]) for one in body["operations"]] == [
            (2, "restore", ""), (1, "delete", "a typo"),
        ]  # fmt: skip
        who = f"{getpass.getuser()}@{socket.gethostname()}"
        assert dead("job", "show", DEAD[0]).out.splitlines()[-1].endswith(f"Z  #1 delete by {who}: a typo")
        assert "operations:" not in dead("job", "show", DEAD[1]).out

    def test_what_undid_it_and_what_it_undoes(self, dead: Shop) -> None:
        dead("dlq", "delete", DEAD[0], "--yes")
        assert dead("op", "undo", "1").code == 0
        dead("dlq", "delete", DEAD[1], "--yes", "--why", "undoes #1")
        shown = {number: dead("op", "show", str(number), "--json").body["operation"] for number in (1, 2, 3)}
        assert [(one["undoes"], one["undone_by"]) for one in shown.values()] == [(None, 2), (1, None), (None, None)]
        listed = {one["number"]: one for one in operations(dead)}
        assert listed == shown
        assert re.search(r"(?m)^undone by +#2$", dead("op", "show", "1").out)
        assert re.search(r"(?m)^undoes +#1$", dead("op", "show", "2").out)
        assert not re.search(r"(?m)^(undone by|undoes) ", dead("op", "show", "3").out)

    def test_what_undid_it_long_after(self, dead: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        """It is among the newest, or among those that came next."""
        monkeypatch.setattr("jobconsole.cli.commands.op._MAX_OPERATIONS", 2)
        for job_id in DEAD[:3]:
            dead("dlq", "delete", job_id, "--yes")
        dead("op", "undo", "2")
        dead("op", "undo", "1")
        for number, by in ((1, 5), (2, 4), (3, None), (4, None)):
            assert dead("op", "show", str(number), "--json").body["operation"]["undone_by"] == by
        for _ in range(2):
            dead("queue", "pause", "work")
            dead("queue", "resume", "work")
        assert dead("op", "show", "2", "--json").body["operation"]["undone_by"] == 4
        assert dead("op", "show", "1", "--json").body["operation"]["undone_by"] is None, "neither"

    def test_as_it_was(self, file_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("queue_core.client.operations.this_author", lambda: Author("anna", "ops-1"))
        file_shop.play(four_dead)
        file_shop("dlq", "retry", *DEAD[:2], "--canary", "1", "--stop-if", "20", "--delay", "5m", "--detach")
        file_shop("dlq", "delete", DEAD[3], RUNNING, "--yes", "--why", "a typo")
        file_shop("queue", "pause", "work")
        file_shop("op", "pause", "1")
        for name, line in (("op_list", "list"), ("op_show", "show 1"), ("op_show_delete", "show 2")):
            answer = file_shop("op", *line.split())
            assert (answer.code, answer.err) == (0, "")
            golden(name, answer.still)


class TestHand:
    def test_pause_resume_cancel(self, detached: Shop) -> None:
        assert detached("op", "pause", "1").out == "paused #1\n"
        assert detached("op", "pause", "1").out == "#1 was paused already\n"
        assert detached("op", "resume", "1", "--json").body["operations"] == [
            {"number": 1, "state": "running", "changed": True}
        ]
        assert detached("op", "cancel", "1", "--why", "wrong ones").out == "cancelled #1\n"
        answer = detached("op", "resume", "1")
        assert (answer.code, answer.err) == (1, "jobconsole: operation #1 is cancelled; it cannot be resumed\n")
        assert status(detached, *DEAD) == ["dead"] * 4

    def test_each_of_them_is_noted(self, detached: Shop) -> None:
        detached("op", "pause", "1")
        detached("op", "pause", "1")
        detached("op", "cancel", "1", "--why", "wrong ones")
        noted = [(one["verb"], one["label"], one["why"], one["state"]) for one in operations(detached)[:-1]]
        assert noted == [
            ("cancel", "operation #1", "wrong ones", "done"),
            ("pause", "operation #1", "", "done"),
        ]

    def test_a_mistyped_number_leaves_the_others_as_they_are(self, detached: Shop) -> None:
        assert detached("op", "cancel", "1", "99").code == 4
        assert operation(detached, 1)["state"] == "running"

    @pytest.mark.parametrize("verb", ["pause", "resume", "cancel", "run"])
    def test_a_rehearsal_changes_nothing_even_read_only(self, detached: Shop, verb: str) -> None:
        if verb == "resume":
            assert detached("op", "pause", "1").code == 0
        before = operations(detached)
        answer = detached("op", verb, "1", "--dry-run", "--read-only")
        assert (answer.code, answer.out) == (0, f"would {verb} #1\n")
        assert detached("op", verb, "1", "--dry-run", "--json").body["names"] == ["#1"]
        assert operations(detached) == before
        answer = detached("op", verb, "1", "--read-only")
        assert (answer.code, answer.err) == (5, f"jobconsole: 'op {verb}' was refused: this connection is read-only\n")


class TestUndo:
    def test_a_delete_comes_back_exactly(self, dead: Shop) -> None:
        dead("dlq", "delete", DEAD[3], "--yes")
        dead("dlq", "delete", "--signature", "aaaa", "--yes")
        assert dead("op", "undo", "2", "--dry-run", "--read-only").out == "would undo #2: the delete of 3 jobs\n"
        assert dead("op", "undo", "2").out == "#3 restore: done, changed 3 of 3 jobs\n"
        again = dead("op", "undo", "2")
        assert again.out == "#4 restore: done, changed 0 of 3 jobs, skipped 3, errored 0\n"
        assert "jobconsole: warning: operation #2 was undone before, by #3\n" in again.err
        assert status(dead, *DEAD) == ["dead", "dead", "dead", "trashed"]
        assert operation(dead, 3)["why"] == "takes #2 back"

    def test_a_move_goes_back_to_each_queue(self, dead: Shop) -> None:
        assert dead("dlq", "move", "--all", "--to-queue", "other", "--yes").out == "moved 4 jobs\n"
        body = dead("op", "undo", "1", "--json").body
        assert [(one["verb"], one["queue"], one["processed"]) for one in body["operations"]] == [("move", "work", 4)]
        assert {job["queue"] for job in dead("dlq", "list", "--json").body["jobs"]} == {"work"}

    def test_what_cannot_be_taken_back_says_so(self, dead: Shop) -> None:
        dead("dlq", "retry", DEAD[0])
        answer = dead("op", "undo", "1")
        assert (answer.code, answer.err) == (
            1, "jobconsole: operation #1 is a retry, which cannot be undone; "
            "delete, move, drain, mute, resolve, own, note and changes of saved filters can\n",
        )  # fmt: skip
        dead("dlq", "move", DEAD[1], "--priority", "high")
        assert "gave jobs another priority" in dead("op", "undo", "2").err
        dead("dlq", "delete", "--all", "--yes", "--detach")
        assert "'jobconsole op cancel 3' ends it" in dead("op", "undo", "3").err
        assert len(operations(dead)) == 3


class TestRunAndWatch:
    def test_run_carries_out_what_runs(self, detached: Shop) -> None:
        detached("op", "pause", "1")
        detached("dlq", "delete", DEAD[3], "--yes", "--detach")
        assert detached("op", "run").out == "#3 delete: done, changed 1 of 1 job\n"
        assert detached("op", "run").out == "no operation is running\n"
        answer = detached("op", "run", "1", "--json")
        assert (answer.code, answer.body["operations"][0]["state"]) == (1, "paused")
        detached("op", "resume", "1")
        assert detached("op", "run", "1").out == "#1 retry: done, changed 3 of 3 jobs\n"
        assert status(detached, *DEAD) == ["queued"] * 3 + ["trashed"]

    def test_watch_carries_nothing_out_and_ends_with_the_operation(self, detached: Shop) -> None:
        watching = detached.cli.start("op", "watch", "1", "--read-only")
        assert detached("op", "run", "1").code == 0
        out, err = watching.communicate(timeout=PATIENCE)
        err = untargeted(err)
        assert (watching.returncode, out, err) == (0, "#1 retry: done, changed 3 of 3 jobs\n", "")

    def test_watching_one_that_was_cancelled_is_exit_code_1(self, detached: Shop) -> None:
        detached("op", "cancel", "1")
        answer = detached("op", "watch", "1")
        assert (answer.code, answer.out) == (1, "#1 retry: cancelled, changed 0 of 3 jobs\n")

    def test_ctrl_c_leaves_what_runs_to_others(self, file_shop: Shop) -> None:
        file_shop.play(many_dead(20))
        file_shop("dlq", "retry", "--all", "--detach", "--rate", "1/s")
        process = file_shop.cli.start("op", "run")
        await_operation(file_shop, 1, lambda one: one["done"] > 0)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=PATIENCE)
        said = untargeted(said)
        assert process.returncode == 130
        assert said.startswith("what was not done is still to be done")
        assert operation(file_shop, 1)["state"] == "running"


class TestWorkers:
    def test_the_doctor_looks_at_operations(self, file_shop: Shop) -> None:
        file_shop.play(many_dead(2))
        file_shop("dlq", "retry", "--all", "--detach")

        def finding() -> dict[str, object]:
            checks = file_shop("doctor", "--json").body["checks"]
            return next(dict(check) for check in checks if check["name"] == "operations")

        assert finding() == {"name": "operations", "level": "ok", "said": "1 running", "advice": ""}

    def test_detaching_without_a_worker_is_a_warning(self, dead: Shop) -> None:
        answer = dead("dlq", "retry", DEAD[0], "--detach")
        assert answer.err == (
            "jobconsole: warning: no worker is alive: the jobs wait until one is\n"
            "jobconsole: warning: no live worker carries operation #1 out; 'jobconsole op run 1' does it here\n"
        )

        async def a_worker(world: World) -> None:
            await world.beat(**worker_beat()._asdict() | {"leases": ()})

        dead.play(a_worker)
        answer = dead("dlq", "retry", DEAD[1], "--detach", "--json")
        warning = "no live worker runs send: the jobs wait until one does"
        assert answer.err == f"jobconsole: warning: {warning}\n"
        body = {"version": 1, "verb": "retry", "matched": 1, "operation": 2, "warnings": [warning]}
        assert answer.body == body
