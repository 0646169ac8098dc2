"""Changes reach only what was named: contexts on the command line, and all of them in one list."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobconsole.cli.commands import launch
from jobconsole.settings import ConsoleSettings
from tests.cli.conftest import Shop
from tests.cli.running import Cli
from tests.conformance.world import World
from tests.tui.scenes import dead, smtp

FILE = """
jobs: {{queue_backend: sqlite, sqlite: {{path: {folder}/default.db}}}}
contexts:
  prod: {{jobs: {{sqlite: {{path: {folder}/prod.db}}}}}}
  staging: {{jobs: {{sqlite: {{path: {folder}/staging.db}}}}}}
  gone: {{jobs: {{queue_backend: redis, redis: {{url: "redis://me:secret@127.0.0.1:1/0"}}}}}}
"""


@pytest.fixture
def several(tmp_path: Path) -> Cli:
    """A command line whose configuration has three contexts; none is named."""
    (tmp_path / "jobconsole.yaml").write_text(FILE.format(folder=tmp_path), encoding="utf-8")
    return Cli({"JOBCONSOLE_CONFIG": str(tmp_path / "jobconsole.yaml")})


CHANGES = (
    ("queue", "pause", "default", "--yes"),
    ("job", "enqueue", "send_email", "{}"),
    ("dlq", "retry", "--all", "--yes"),
    ("job", "delete", "01a1fdb8-0000-7000-8000-000000000000", "--yes"),
    ("op", "undo", "1", "--yes"),
    ("worker", "quiet", "w-1", "--yes"),
    ("schedule", "pause", "nightly"),
    ("migrate", "--yes"),
)


@pytest.mark.parametrize("words", CHANGES, ids=lambda words: " ".join(words[:2]))
def test_a_change_in_no_named_context_is_refused_where_there_are_several(several: Cli, words: tuple[str, ...]) -> None:
    """Also with --yes, which names nothing."""
    answer = several(*words)
    assert answer.code == 5
    assert "3 contexts are configured and none was named; give --context with one of: gone, prod, staging" in answer.err


def test_where_all_servers_are_in_contexts_the_contexts_are_named(tmp_path: Path) -> None:
    servers = "jobs: {queue_backend: redis, redis: {url: redis://127.0.0.1:1}}"
    file = tmp_path / "jobconsole.yaml"
    file.write_text(f"contexts:\n  prod:\n    {servers}\n  dev:\n    {servers}\n", encoding="utf-8")
    answer = Cli({"JOBCONSOLE_CONFIG": str(file)})("dlq", "groups")
    sentence = "no servers are configured outside of the contexts; give --context with one of: dev, prod"
    assert (answer.code, answer.err) == (2, f"jobconsole: {sentence}\n")


def test_a_named_context_is_written_before_the_change(several: Cli) -> None:
    answer = several("--context", "prod", "job", "enqueue", "send_email", "{}", "--json")
    assert answer.code == 0
    assert answer.target.startswith("target: prod (file ")
    assert "job" in answer.body or answer.body["version"] == 1
    several.environ["JOBCONSOLE_CONTEXT"] = "staging"
    answer = several("job", "enqueue", "send_email", "{}")
    assert answer.code == 0
    assert answer.target.startswith("target: staging (file ")


def test_reads_and_dry_runs_need_no_name(several: Cli) -> None:
    assert several("queue", "list").code == 0
    answer = several("dlq", "retry", "--all", "--dry-run")
    assert (answer.code, answer.err) == (0, "")


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 5), ("", 5)])
def test_at_a_terminal_it_asks(several: Cli, typed: str, code: int) -> None:
    several("--context", "prod", "job", "enqueue", "send_email", "{}")
    answer = several("job", "enqueue", "send_email", "{}", typed=typed)
    assert answer.code == code
    assert "none was named (gone, prod, staging): job enqueue on file " in answer.err


def test_passwords_are_not_written(several: Cli) -> None:
    answer = several("--context", "gone", "queue", "pause", "default")
    assert answer.code == 3
    assert answer.target == "target: gone (redis://127.0.0.1:1/0 prefix jobs:)"
    assert "secret" not in answer.err


def test_all_contexts_are_listed_and_a_lost_one_delays_none(several: Cli) -> None:
    for name in ("prod", "staging"):
        several("--context", name, "job", "enqueue", "send_email", "{}")
    found = {one["context"]: one for one in several("contexts", "--json").body["contexts"]}
    assert list(found) == ["prod", "staging", "gone"]
    assert (found["prod"]["state"], found["prod"]["queued"], found["prod"]["new"]) == ("up", 1, 0)
    assert (found["gone"]["state"], found["gone"]["queued"]) == ("lost", None)
    assert "refused" in found["gone"]["error"] or "failed" in found["gone"]["error"]
    assert "secret" not in found["gone"]["error"]
    text = several("contexts")
    assert [line.split()[:3] for line in text.out.splitlines()[1:]] == [
        ["prod", "up", "1"], ["staging", "up", "1"], ["gone", "lost", "?"],
    ]  # fmt: skip
    assert "asks first" in text.err


async def died(world: World) -> None:
    """A first death of its kind."""
    await world.beat()
    await dead(world, 2, smtp(), type="send_email", queue="mail")


def test_what_is_new_is_counted_in_each(shop: Shop, tmp_path: Path) -> None:
    shop.play(died)
    (line,) = shop("contexts", "--json").body["contexts"]
    counts = {key: line[key] for key in ("state", "dead", "grown", "new", "regressed", "lost_workers")}
    assert counts == {"state": "up", "dead": 2, "grown": 2, "new": 1, "regressed": 0, "lost_workers": 0}


def test_one_context_need_not_be_named(tmp_path: Path) -> None:
    (tmp_path / "jobconsole.yaml").write_text(
        f"contexts: {{prod: {{}}}}\njobs: {{queue_backend: sqlite, sqlite: {{path: {tmp_path}/one.db}}}}",
        encoding="utf-8",
    )
    cli = Cli({"JOBCONSOLE_CONFIG": str(tmp_path / "jobconsole.yaml")})
    answer = cli("job", "enqueue", "send_email", "{}")
    assert answer.code == 0
    assert answer.target == f"target: file {tmp_path}/one.db"


def test_a_console_that_only_looks_does_so_in_every_context_that_it_goes_to(
    several: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[bool] = []

    def show(settings: ConsoleSettings, *_: object) -> tuple[int, str | None]:
        shown.append(settings.read_only)
        return 0, "staging" if len(shown) == 1 else None

    monkeypatch.setattr(launch, "_show_console", show)
    assert several("ui", "--read-only", "--context", "prod").code == 0
    assert shown == [True, True]
