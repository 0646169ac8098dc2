"""`job logs`, the log in `job show`, the check of payloads against announced schemas, and `type`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from queue_core.model.job import MAX_LOG_LINES, LogLine
from queue_core.queue import JobQueue
from tests.cli.conftest import Scene
from tests.cli.running import Cli
from tests.conformance.making import UNKNOWN, worker_beat
from tests.conformance.world import World

NOISY = "01900000-0000-7000-8000-000000000001"
QUIET = "01900000-0000-7000-8000-000000000002"
TALKATIVE = "01900000-0000-7000-8000-000000000003"
HOSTILE = "\x1b]0;owned\x07 [/red] \u202e \x9b2J"


def resize_schema() -> dict[str, Any]:
    """Return what a worker announces of a task."""
    jobs = JobQueue(memory=True)

    @jobs.task
    async def resize(path: str, width: int = 200) -> None:
        """Nothing."""

    return resize.schema()


async def scene(world: World) -> None:
    """A job with a hostile log, one without, one with more lines than are kept; two types of which one has a worker."""
    for job_id, texts in (
        (NOISY, ["decoded", f"two\n\tlines {HOSTILE}\n", "é" * 2000]),
        (TALKATIVE, [f"line {number}" for number in range(1, MAX_LOG_LINES + 6)]),
    ):
        claim = await world.running(id=job_id)
        lines = [LogLine(job_id, claim.token, claim.queue, number, text) for number, text in enumerate(texts, 1)]
        assert all(await world.store.log(lines))
        await world.settle(claim, "completed")
    await world.insert(id=QUIET)
    await world.store.register_types({"resize": resize_schema(), "odd": {"$ref": "#/nowhere"}})
    heart = world.store.open_heartbeat()
    heart.renew(worker_beat(worker="w1", queues=("default",), types=("resize",)))
    heart.close()


@pytest.fixture
def logged(cli: Cli, play: Callable[[Scene], None]) -> Cli:
    play(scene)
    return cli


class TestLogs:
    def test_lines_with_their_times(self, logged: Cli) -> None:
        answer = logged("job", "logs", NOISY)
        assert (answer.code, answer.err) == (0, "")
        lines = answer.still.splitlines()
        assert lines[:2] == ["2000-01-01 00:00:00Z  decoded", "2000-01-01 00:00:00Z  two"]
        assert lines[2].startswith(f"{'':22}    lines ␛]0;owned")
        assert lines[3] == f"2000-01-01 00:00:00Z  {'é' * 2000}"
        assert not set("\x1b\x07\x9b\u202e") & set(answer.out)

    def test_as_json(self, logged: Cli) -> None:
        body = logged("job", "logs", NOISY.upper().replace("-", ""), "--json").body
        assert [line["text"] for line in body["lines"]][:1] == ["decoded"]
        assert [line["number"] for line in body["lines"]] == [1, 2, 3]
        assert sorted(body["lines"][0]) == ["at", "number", "text", "token"]
        assert body["dropped"] == 0

    def test_a_job_without_lines(self, logged: Cli) -> None:
        answer = logged("job", "logs", QUIET)
        assert (answer.code, answer.out, answer.err) == (0, "", "")

    def test_what_was_dropped_is_said(self, logged: Cli) -> None:
        lines = logged("job", "logs", TALKATIVE).out.splitlines()
        assert (len(lines), lines[0]) == (MAX_LOG_LINES + 1, "(5 earlier lines not kept)")
        assert lines[1].endswith("  line 6")

    def test_the_last_lines(self, logged: Cli) -> None:
        body = logged("job", "logs", TALKATIVE, "--limit", "2", "--json").body
        assert ([line["text"] for line in body["lines"]], body["dropped"]) == (["line 1004", "line 1005"], 5)

    @pytest.mark.parametrize("limit", ["0", "-1", "1001", "many"])
    def test_a_limit_that_is_none(self, logged: Cli, limit: str) -> None:
        assert logged("job", "logs", NOISY, "--limit", limit).code == 2

    def test_a_job_that_is_not_there(self, logged: Cli) -> None:
        answer = logged("job", "logs", UNKNOWN)
        assert (answer.code, answer.out) == (4, "")
        assert UNKNOWN in answer.err

    def test_show_has_the_last_lines(self, logged: Cli) -> None:
        shown = logged("job", "show", TALKATIVE)
        assert "\nlog, its last lines:\n  (5 earlier lines not kept)\n" in shown.out
        assert "line 995" not in shown.out
        assert shown.out.endswith("  line 1005\n")
        assert "\nlog:\n" in logged("job", "show", NOISY).out
        assert "log" not in logged("job", "show", QUIET).out
        assert len(logged("job", "show", NOISY, "--json").body["log"]["lines"]) == 3


class TestCheck:
    def test_a_payload_that_fits(self, logged: Cli) -> None:
        answer = logged("job", "enqueue", "resize", '{"path": "a.png", "width": 3}')
        assert (answer.code, answer.err) == (0, "")

    @pytest.mark.parametrize(
        ("payload", "said"),
        [
            ("{}", "parameter 'path' is missing"),
            ('{"path": 5}', "parameter 'path' must be string, not integer"),
            ('{"path": "a", "width": 1.0}', "parameter 'width' must be integer, not number"),
            (
                '{"wdith": 3}',
                "parameter 'path' is missing; parameter 'wdith' is not known; there are 'path', 'width'",
            ),
        ],
    )
    def test_one_that_does_not(self, logged: Cli, payload: str, said: str) -> None:
        answer = logged("job", "enqueue", "resize", payload)
        assert (answer.code, answer.out) == (2, "")
        assert answer.err == (
            f"jobconsole: the payload does not fit the type 'resize': {said}; nothing was enqueued "
            "(--no-check enqueues it all the same)\n"
        )
        assert logged("job", "list", "--type", "resize", "--json").body["jobs"] == []

    def test_all_the_same(self, logged: Cli) -> None:
        answer = logged("job", "enqueue", "resize", '{"wdith": 3}', "--no-check", "--json")
        assert (answer.code, answer.err) == (0, "")
        assert logged("job", "show", answer.body["id"], "--json").body["job"]["payload"] == {"wdith": 3}

    def test_a_type_of_which_nothing_was_announced_takes_everything(self, logged: Cli) -> None:
        assert logged("job", "enqueue", "nobody", '{"a": 1}').code == 0

    def test_a_schema_that_cannot_be_used_is_a_warning(self, logged: Cli) -> None:
        answer = logged("job", "enqueue", "odd", '{"a": 1}')
        assert answer.code == 0
        assert "the schema that was announced for the type 'odd' cannot be used: " in answer.err

    def test_what_is_wrong_with_the_rest_is_said_first(self, logged: Cli) -> None:
        answer = logged("job", "enqueue", "resize", "{}", "--priority", "999")
        assert answer.code == 2
        assert "priority must be" in answer.err


class TestTypes:
    def test_list(self, logged: Cli) -> None:
        assert [line.split() for line in logged("type", "list").still.splitlines()] == [
            ["TYPE", "WORKERS", "ANNOUNCED", "PARAMETERS"],
            ["odd", "0", "2000-01-01", "00:00:00Z", "-"],
            ["resize", "1", "2000-01-01", "00:00:00Z", "path,", "width?"],
        ]
        body = logged("type", "list", "--json").body
        assert [(one["name"], one["workers"]) for one in body["types"]] == [("odd", 0), ("resize", 1)]

    def test_show(self, logged: Cli) -> None:
        assert '\n  "properties": {\n    "path": {\n' in logged("type", "show", "resize").out
        assert logged("type", "show", "resize", "--json").body["type"]["schema"] == resize_schema()

    def test_one_that_nobody_announced(self, logged: Cli) -> None:
        answer = logged("type", "show", "nobody\x1b[2J")
        assert (answer.code, answer.out) == (4, "")
        assert answer.err == (
            "jobconsole: no worker announced the type 'nobody␛[2J'; 'jobconsole type list' shows them\n"
        )
