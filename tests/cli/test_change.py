"""The commands that change jobs, queues and workers: what they do, ask, refuse and report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Scene
from tests.cli.running import Cli
from tests.cli.test_looking import job_id
from tests.conformance.making import failure, worker_beat
from tests.conformance.world import World

DEAD = [job_id(number) for number in (1, 2, 3)]
WAITING, RUNNING, COMPLETED = job_id(4), job_id(5), job_id(6)


async def scene(world: World) -> None:
    """Three dead jobs of two signatures, one waiting, one running, one completed."""
    for index, one in enumerate(DEAD):
        cause = failure(signature="aaaaaaaaaaaa" if index < 2 else "bbbbbbbbbbbb")
        await world.ended("dead", {"failure": cause}, id=one, type="send")
    await world.insert(id=WAITING)
    await world.running(id=RUNNING)
    await world.ended("completed", id=COMPLETED)
    heart = world.store.open_heartbeat()
    heart.renew(worker_beat(worker="w1"))
    heart.close()


@pytest.fixture
def changing(cli: Cli, play: Callable[[Scene], None]) -> Cli:
    play(scene)
    return cli


def statuses(cli: Cli) -> dict[str, str]:
    """Return the state of every job, the trash included."""
    listed = cli("job", "list", "--json").body["jobs"]
    trashed = cli("dlq", "list", "--trash", "--json").body["jobs"]
    return {job["id"]: job["status"] for job in listed} | {job["id"]: "trashed" for job in trashed}


WAITS = "jobconsole: warning: no live worker runs send: the jobs wait until one does\n"


class TestRetry:
    def test_by_id_without_being_asked(self, changing: Cli) -> None:
        answer = changing("job", "retry", DEAD[0].upper().replace("-", ""))
        assert (answer.code, answer.out, answer.err) == (0, "retried 1 job\n", WAITS)
        assert statuses(changing)[DEAD[0]] == "queued"

    def test_by_signature(self, changing: Cli) -> None:
        answer = changing("dlq", "retry", "--signature", "aaaa", "--json")
        assert answer.body == {
            "version": 1, "verb": "retry", "matched": 2, "processed": 2, "skipped": 0, "errored": 0, "problem": None,
            "missing": [], "ids": answer.body["ids"], "operation": 1, "state": "done",
            "warnings": ["no live worker runs send: the jobs wait until one does"],
        }  # fmt: skip
        assert sorted(answer.body["ids"]) == DEAD[:2]
        assert statuses(changing)[DEAD[2]] == "dead"

    def test_ids_from_standard_input(self, changing: Cli) -> None:
        assert changing("dlq", "retry", "-", stdin="\n".join([*DEAD, DEAD[0], ""])).out == "retried 3 jobs\n"
        # They have left the DLQ: what has completed meanwhile would run twice.
        again = changing("dlq", "retry", "-", stdin="\n".join(DEAD))
        assert (again.code, again.out) == (5, "")
        assert "not in the DLQ any more, and left alone: 3 jobs of 3; 'job retry' takes completed ones" in again.err

    def test_everything_means_what_is_dead(self, changing: Cli) -> None:
        assert changing("job", "retry", "--all").out == "retried 3 jobs\n"
        assert changing("job", "retry", "--all").out == "retried 0 jobs\n"
        assert statuses(changing)[COMPLETED] == "completed"

    def test_a_completed_job_when_it_is_named(self, changing: Cli) -> None:
        assert changing("job", "retry", COMPLETED).out == "retried 1 job\n"

    def test_spread_over_a_time(self, changing: Cli) -> None:
        changing("dlq", "retry", "--all", "--spread", "1h")
        assert {statuses(changing)[one] for one in DEAD} == {"scheduled"}

    def test_what_cannot_be_retried_is_named(self, changing: Cli) -> None:
        answer = changing("job", "retry", RUNNING, DEAD[0])
        assert answer.code == 1
        assert answer.out == "retried 1 job, skipped 1, errored 0\n"
        assert answer.err == f"{WAITS}jobconsole: job {RUNNING} is running; it cannot be retried\n"

    def test_what_is_not_there_is_named(self, changing: Cli) -> None:
        answer = changing("job", "retry", job_id(99), DEAD[0])
        assert answer.code == 4
        assert answer.err == f"{WAITS}jobconsole: no job with id {job_id(99)}\n"
        assert statuses(changing)[DEAD[0]] == "queued"

    @pytest.mark.parametrize("verb", ["retry", "cancel --yes", "move --priority 5", "delete --yes", "restore"])
    @pytest.mark.parametrize("dry", ["", " --dry-run"])
    def test_one_sentence_tells_why_nothing_is_done(self, changing: Cli, verb: str, dry: str) -> None:
        wrong = [(job_id(99), f"no job with id {job_id(99)}", 4)]
        if verb != "retry":
            wrong.append((COMPLETED, f"job {COMPLETED} is completed; it cannot be ", 1))
        for named, why, code in wrong:
            answer = changing("job", *verb.split(), named, *dry.split())
            assert (answer.code, answer.out) == (code, "")
            assert answer.err.startswith(f"jobconsole: {why}")
            assert answer.err.count("\n") == 1

    def test_a_dry_run_leaves_out_what_would_not_be_changed(self, changing: Cli) -> None:
        answer = changing("job", "retry", RUNNING, job_id(99), DEAD[0], "--dry-run")
        assert (answer.code, answer.out) == (1, f"would retry 1 job\n{DEAD[0]}\n")
        assert answer.err.splitlines()[-2:] == [
            f"jobconsole: no job with id {job_id(99)}",
            f"jobconsole: job {RUNNING} is running; it cannot be retried",
        ]

    def test_a_mistyped_id_stops_everything(self, changing: Cli) -> None:
        assert changing("job", "retry", "nosuch", DEAD[0]).code == 4
        assert statuses(changing)[DEAD[0]] == "dead"


class TestDeleteAndRestore:
    def test_delete_asks_and_takes_no_for_an_answer(self, changing: Cli) -> None:
        answer = changing("dlq", "delete", "--all", typed="n\n")
        assert (answer.code, answer.err) == (5, "delete 3 jobs? [y/N] jobconsole: nothing was done\n")
        assert statuses(changing)[DEAD[0]] == "dead"

    def test_delete_asks_and_does_it(self, changing: Cli) -> None:
        answer = changing("dlq", "delete", "--signature", "bbbb", typed="y\n")
        assert (answer.code, answer.out, answer.err) == (0, "deleted 1 job\n", "delete 1 job? [y/N] ")
        assert statuses(changing)[DEAD[2]] == "trashed"

    def test_a_dry_run_changes_nothing_even_read_only(self, changing: Cli) -> None:
        before = statuses(changing)
        answer = changing("dlq", "delete", "--type", "send", "--dry-run", "--read-only")
        assert answer.code == 0
        assert sorted(answer.out.splitlines()) == sorted(["would delete 3 jobs", *DEAD])
        body = changing("dlq", "delete", "--type", "send", "--dry-run", "--json").body
        assert (body["dry_run"], body["matched"], sorted(body["ids"])) == (True, 3, DEAD)
        assert statuses(changing) == before

    def test_restore_takes_it_back(self, changing: Cli) -> None:
        assert changing("job", "delete", *DEAD, "--yes").out == "deleted 3 jobs\n"
        assert changing("job", "list", "--status", "dead", "--json").body["jobs"] == []
        assert changing("dlq", "restore", "--signature", "aaaa").out == "restored 2 jobs\n"
        assert changing("job", "restore", DEAD[2]).out == "restored 1 job\n"
        assert {statuses(changing)[one] for one in DEAD} == {"dead"}

    def test_what_waits_is_not_deleted(self, changing: Cli) -> None:
        answer = changing("job", "delete", WAITING, "--yes")
        assert (answer.code, answer.err) == (1, f"jobconsole: job {WAITING} is queued; it cannot be deleted\n")

    def test_purge_empties_the_trash_alone_and_has_the_count_typed(self, changing: Cli) -> None:
        changing("dlq", "delete", "--signature", "aaaa", "--yes")
        answer = changing("dlq", "purge", "--all", typed="y\n")
        assert (answer.code, answer.err) == (
            5,
            "purge 2 jobs, for good? type 2 to go on: jobconsole: nothing was done\n",
        )
        assert changing("dlq", "purge", "--all", typed="2\n").out == "purged 2 jobs\n"
        assert changing("job", "show", DEAD[0]).code == 4
        assert statuses(changing)[DEAD[2]] == "dead"


class TestCancel:
    def test_waiting_jobs_are_cancelled_and_running_ones_asked_to_stop(self, changing: Cli) -> None:
        assert changing("job", "cancel", "--all", "--yes").out == "cancelled 2 jobs\n"
        assert statuses(changing)[WAITING] == "cancelled"
        assert changing("job", "show", RUNNING, "--json").body["job"]["cancel_requested"]
        assert statuses(changing)[DEAD[0]] == "dead"


class TestQueuesAndWorkers:
    def test_pause_and_resume(self, changing: Cli) -> None:
        assert changing("queue", "pause", "work").out == "paused work\n"
        assert changing("queue", "pause", "work").out == "work was paused already\n"
        assert changing("queue", "resume", "work", "--json").body["queues"] == [
            {"name": "work", "state": "resumed", "changed": True}
        ]

    def test_a_mistyped_queue_leaves_the_others_as_they_are(self, changing: Cli) -> None:
        assert changing("queue", "pause", "work", "nosuch").code == 4
        assert not changing("queue", "list", "--json").body["queues"][0]["paused"]

    def test_orders_to_workers(self, changing: Cli) -> None:
        said = "quiet: 1 worker will hear of it with the next heartbeat\n"
        assert changing("worker", "quiet", "w1").out == said
        assert changing("worker", "resume", "w1", "--json").body == {"version": 1, "order": "resume", "workers": ["w1"]}
        assert changing("worker", "stop", "w1", typed="n\n").code == 5
        assert changing("worker", "stop", "w1", typed="y\n").code == 0


class TestEnqueue:
    def test_it_prints_the_id_and_warns_of_a_type_that_nobody_runs(self, changing: Cli) -> None:
        answer = changing("job", "enqueue", "nobody", '{"a":1}', "--queue", "other", "--priority", "urgent")
        assert answer.code == 0
        assert answer.err == (
            "jobconsole: warning: no live worker of queue 'other' announces the type 'nobody'; "
            "the job waits until one does\n"
        )
        job = changing("job", "show", answer.out.strip(), "--json").body["job"]
        assert (job["type"], job["queue"], job["priority"], job["payload"]) == ("nobody", "other", 20, {"a": 1})

    def test_a_type_that_is_announced_is_no_warning(self, changing: Cli) -> None:
        tags = ("--tag", "a", "--tag", "b")
        answer = changing("job", "enqueue", "task", "--queue", "work", "--json", "--delay", "5m", *tags)
        assert (answer.code, answer.err) == (0, "")
        job = changing("job", "show", answer.body["id"], "--json").body["job"]
        assert (job["status"], job["tags"]) == ("scheduled", ["a", "b"])

    def test_strict_refuses_an_unknown_type(self, changing: Cli) -> None:
        answer = changing("job", "enqueue", "nobody", "--strict")
        assert (answer.code, answer.out) == (2, "")
        assert answer.err == (
            "jobconsole: no live worker of queue 'default' announces the type 'nobody'; nothing was enqueued\n"
        )
        assert changing("job", "enqueue", "task", "--strict", "--queue", "work").code == 0
        assert changing("job", "list", "--type", "nobody", "--json").body["jobs"] == []

    def test_a_payload_from_standard_input(self, changing: Cli) -> None:
        answer = changing("job", "enqueue", "task", "-", "--at", "2030-01-31T09:00:00+01:00", stdin='{"b": "é"}\n')
        job = changing("job", "show", answer.out.strip(), "--json").body["job"]
        assert (job["payload"], job["run_at"]) == ({"b": "é"}, "2030-01-31T08:00:00+00:00")

    def test_keys(self, changing: Cli) -> None:
        keys = ["--ordering-key", "customer-1", "--unique", "a.png", "--unique-for", "1h"]
        first = changing("job", "enqueue", "task", *keys, "--json").body
        second = changing("job", "enqueue", "task", *keys, "--json")
        assert (first["created"], second.body["created"], second.body["id"]) == (True, False, first["id"])
        assert second.err == "jobconsole: warning: nothing was enqueued: this is the job that holds the unique key\n"
        shown = changing("job", "show", first["id"])
        assert "ordering key  customer-1" in shown.out
        assert "unique key    task:a.png" in shown.out
        assert changing("job", "enqueue", "task", "--unique-for", "1h").code == 2

    def test_headers(self, changing: Cli) -> None:
        given = ["--header", "tenant=acme", "--header", "trace=a=b\x1b"]
        made = changing("job", "enqueue", "task", *given, "--json").body
        assert changing("job", "show", made["id"], "--json").body["job"]["headers"] == {
            "tenant": "acme",
            "trace": "a=b\x1b",
        }
        assert "headers       tenant=acme  trace=a=b␛" in changing("job", "show", made["id"]).out
        answer = changing("job", "enqueue", "task", "--header", "tenant")
        assert (answer.code, answer.err) == (2, "jobconsole: --header is NAME=TEXT, not 'tenant'\n")
        answer = changing("job", "enqueue", "task", "--header", "a=1", "--header", "a=2")
        assert (answer.code, answer.err) == (2, "jobconsole: --header a=… is given twice\n")
        answer = changing("job", "enqueue", "task", "--header", "a=" + "x" * 4096)
        assert (answer.code, answer.err) == (
            2,
            "jobconsole: the headers of a job have 4,097 bytes; the limit is 4,096\n",
        )

    def test_a_full_queue_refuses(self, changing: Cli, tmp_path: Path) -> None:
        config = tmp_path / "full.yaml"
        config.write_text("jobs: {queue_backend: redis, queues: {small: {limit: 1, retry_after: 5s}}}")
        assert changing("--config", str(config), "job", "enqueue", "task", "--queue", "small").code == 0
        answer = changing("--config", str(config), "job", "enqueue", "task", "--queue", "small")
        assert (answer.code, answer.out) == (5, "")
        assert answer.err == "jobconsole: queue 'small' is full (limit 1); try again in 5 s\n"

    def test_a_refused_job_writes_nothing(self, changing: Cli) -> None:
        before = statuses(changing)
        assert changing("job", "enqueue", "task", '{"a":NaN}').code == 2
        assert changing("job", "enqueue", "task", "--priority", "999").code == 2
        assert statuses(changing) == before
