"""The commands that look: their tables byte for byte, and the same as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from jobconsole.cli import selection
from queue_core.model.signature import sign
from tests.cli.conftest import Scene
from tests.cli.running import Cli
from tests.conformance.making import failure, worker_beat
from tests.conformance.world import World

GOLDEN = Path(__file__).parent / "golden"
HOSTILE = "\x1b]0;owned\x07 [/red] \u202e \x9b2J"


def job_id(number: int) -> str:
    return f"01900000-0000-7000-8000-{number:012}"


async def scene(world: World) -> None:
    """One job in each state, hostile text in the dead ones, and two workers."""
    await world.insert(id=job_id(1), tags=("import", "nightly"))
    await world.insert(id=job_id(2), priority=20, delay=7200.0, queue="mail", type="send")
    await world.ended("completed", {"result": '{"ok":true}', "run_us": 1500}, id=job_id(3), priority=0)
    for number in (4, 5):
        title = failure(message=HOSTILE, title=f"OSError: {HOSTILE}", signature="0123456789ab")
        await world.ended(
            "dead", {"failure": title}, id=job_id(number), queue="mail", type="send", payload='{"to":"x@example.com"}'
        )
    await world.trashed(id=job_id(6))
    await world.running(id=job_id(7), worker="host-1:1:aa")
    await world.operations.pause("mail")
    heart = world.store.open_heartbeat()
    heart.renew(worker_beat(worker="host-1:1:aa", busy=1, stuck=2, queues=("work", "mail"), types=("task", "send")))
    heart.renew(worker_beat(worker="host-2:2:bb", quiet=True))
    heart.close()


@pytest.fixture
def looking(cli: Cli, play: Callable[[Scene], None]) -> Cli:
    play(scene)
    return cli


def golden(name: str, text: str) -> None:
    """Compare with a file of what it looked like when somebody looked."""
    path = GOLDEN / f"{name}.txt"
    if not path.exists():
        path.write_text(text)
        pytest.fail(f"{path} was not there; look at what has been written")
    assert text.encode() == path.read_bytes()


TABLES = {
    "job_list": "job list --oldest",
    "job_list_filtered": "job list --filter err:~owned --queue mail --oldest",
    "dlq_list": "dlq list --oldest",
    "dlq_trash": "dlq list --trash",
    "dlq_groups": "dlq groups",
    "queue_list": "queue list",
    "worker_list": "worker list",
    "job_show_completed": f"job show {job_id(3)}",
    "job_show_dead": f"job show {job_id(4)}",
    "job_show_scheduled": f"job show {job_id(2)}",
}


@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_as_it_was(looking: Cli, name: str) -> None:
    answer = looking(*TABLES[name].split())
    assert (answer.code, answer.err) == (0, "")
    golden(name, answer.still)


def test_what_jobs_say_is_harmless_in_every_form(looking: Cli) -> None:
    for command in TABLES.values():
        for line in (command, f"{command} --json"):
            out = looking(*line.split()).out
            assert all(char == "\n" or char.isprintable() for char in out)


class TestJson:
    def test_a_list_goes_on_with_its_cursor(self, looking: Cli) -> None:
        first = looking("job", "list", "--limit", "4", "--json").body
        rest = looking("job", "list", "--limit", "4", "--cursor", first["cursor"], "--json").body
        ids = [one["id"] for page in (first, rest) for one in page["jobs"]]
        assert sorted(ids) == [job_id(number) for number in (1, 2, 3, 4, 5, 7)]
        assert rest["cursor"] is None
        assert looking("job", "list", "--limit", "4").err.startswith("more with: --cursor ")

    def test_a_long_list_is_read_a_part_at_a_time(self, looking: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
        """As one page, 10,000 jobs could take longer than a store is waited for."""
        at_once = looking("job", "list", "--limit", "4", "--json").body
        monkeypatch.setattr(selection, "PAGE_JOBS", 3)
        assert looking("job", "list", "--limit", "4", "--json").body == at_once
        assert len(looking("job", "list", "--json").body["jobs"]) == 6

    def test_what_is_no_cursor_is_no_fault_of_a_filter(self, looking: Cli) -> None:
        words = "jobconsole: argument --cursor: this is no cursor that a page gave\n"
        for noun in ("job", "dlq"):
            answer = looking(noun, "list", "--cursor", "garbage")
            assert (answer.code, answer.out, answer.err) == (2, "", words)

    def test_a_job_has_everything(self, looking: Cli) -> None:
        body = looking("job", "show", job_id(4), "--json").body
        assert body["job"]["payload"] == {"to": "x@example.com"}
        assert body["job"]["error"].endswith(HOSTILE)
        assert [attempt["number"] for attempt in body["attempts"]] == [1]
        assert body["job"]["created_at"].endswith("+00:00")

    def test_groups_queues_and_workers(self, looking: Cli) -> None:
        (group,) = looking("dlq", "groups", "--json", "--window", "1h").body["groups"]
        assert (group["signature"], group["count"], group["grown"]) == ("0123456789ab", 2, 2)
        queues = {queue["name"]: queue for queue in looking("queue", "list", "--json").body["queues"]}
        assert queues["mail"]["paused"]
        assert queues["mail"]["scheduled"] == 1
        assert queues["work"]["bands"] == {"high": 0, "normal": 1, "low": 0}
        states = {worker["id"]: worker["state"] for worker in looking("worker", "list", "--json").body["workers"]}
        assert states == {"host-1:1:aa": "busy", "host-2:2:bb": "quiet"}


class TestWorkerIds:
    @pytest.mark.parametrize("part", ["host-1", "host-1:1", "host-1:1:aa"])
    def test_a_beginning_that_only_one_has_is_enough(self, looking: Cli, part: str) -> None:
        answer = looking("worker", "quiet", part, part, "--dry-run", "--json")
        assert (answer.code, answer.body["names"]) == (0, ["host-1:1:aa"])

    def test_one_that_several_have_names_them(self, looking: Cli) -> None:
        answer = looking("worker", "quiet", "host-", "--dry-run")
        assert (answer.code, answer.out) == (2, "")
        assert answer.err == "jobconsole: 'host-' is part of several ids: host-1:1:aa, host-2:2:bb\n"

    def test_one_of_less_than_four_characters_is_none(self, looking: Cli) -> None:
        assert looking("worker", "stop", "hos", "--dry-run").code == 4


class TestNotFound:
    @pytest.mark.parametrize(
        ("line", "sentence"),
        [
            ("job show nosuch", "no job with id nosuch"),
            (f"job show {job_id(99)}", f"no job with id {job_id(99)}"),
            ("job list --queue nosuch", "no queue named 'nosuch'"),
            ("dlq groups --queue nosuch", "no queue named 'nosuch'"),
            ("dlq retry --queue nosuch", "no queue named 'nosuch'"),
            ("queue pause work nosuch", "no queue named 'nosuch'"),
            ("worker quiet nosuch", "no worker with id nosuch; 'jobconsole worker list' shows them"),
        ],
    )
    def test_it_is_exit_code_4(self, looking: Cli, line: str, sentence: str) -> None:
        answer = looking(*line.split())
        assert (answer.code, answer.out, answer.err) == (4, "", f"jobconsole: {sentence}\n")


def test_the_signature_of_the_scene_is_no_real_one() -> None:
    """The scene names its own signature; a change of how they are made must not change the golden files."""
    assert sign(OSError("x"))[0] != "0123456789ab"
