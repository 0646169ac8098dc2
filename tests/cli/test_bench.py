"""`bench`: it measures every mode, refuses what is not empty, and leaves nothing behind."""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from jobconsole.bench.record import PAYLOAD_BYTES, DeliveryRecord, Recorder, payload
from jobconsole.bench.report import percentile
from queue_core.model.codec import encode_payload
from tests.cli.running import PATIENCE, Cli
from tests.redis_topology.clients import plain_client

# Without the CPU time of the workers: 700 jobs take less of it than the tick of 10 ms in which Linux counts.
FIGURES = {
    "single_enqueue_per_second",
    "bulk_enqueue_per_second",
    "drain_per_second",
    "latency_p50_ms",
    "latency_p99_ms",
    "rss_mib",
}


@pytest.fixture
def temp(alone: Cli) -> Iterator[Path]:
    """A temp folder for `alone` that holds nothing else; its path is short enough for sockets."""
    with tempfile.TemporaryDirectory() as folder:
        alone.environ["TMPDIR"] = folder
        yield Path(folder)


def nothing_on(postgres_url: str, redis_url: str, prefix: str) -> bool:
    """Whether neither server has kept anything."""
    with psycopg.connect(postgres_url) as connection, plain_client(redis_url) as client:
        schemas = connection.execute("SELECT FROM pg_namespace WHERE nspname = 'jobconsole'").fetchall()
        return not schemas and not list(client.scan_iter(f"{prefix}*"))


def test_every_figure_of_the_production_mode(
    alone: Cli, temp: Path, empty_postgres_url: str, redis_url: str, redis_prefix: str
) -> None:
    # Before the noun an option means the same as behind it.
    where = ["--postgres-url", empty_postgres_url, "--redis-url", redis_url, "--prefix", redis_prefix]
    answer = alone.process(*where, "bench", "--jobs", "700", "--workers", "2", "--json")
    assert (answer.code, answer.err) == (0, "")
    body = answer.body
    assert (body["mode"], body["jobs"], body["workers"]) == ("postgres+redis", 700, 2)
    assert (body["lost"], body["repeated"]) == (0, 0)
    assert all(body[name] > 0 for name in FIGURES)
    assert None not in (body["worker_cpu_us_per_job"], body["redis_cpu_us_per_job"])
    assert nothing_on(empty_postgres_url, redis_url, redis_prefix)
    assert list(temp.iterdir()) == []


@pytest.mark.parametrize("mode", ["memory", "sqlite"])
def test_a_table_of_a_mode_without_servers(alone: Cli, temp: Path, mode: str) -> None:
    answer = alone.process("bench", "--mode", mode, "--jobs", "300")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith(f"mode {mode}, 300 jobs\nFIGURE ")
    assert "jobs lost" in answer.out
    assert list(temp.iterdir()) == []


def test_a_database_that_is_not_empty_is_refused(alone: Cli, temp: Path, postgres_url: str) -> None:
    answer = alone.process("bench", "--mode", "postgres", "--postgres-url", postgres_url)
    assert answer.code == 5
    assert "not empty" in answer.err
    assert "the benchmark only runs in an empty one" in answer.err
    assert list(temp.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["--mode", "memory", "--redis-url", "redis://127.0.0.1:1"], 2, "--redis-url is not for mode memory"),
        (["--mode", "postgre"], 2, "did you mean 'postgres'?"),
        (["--jobs", "1"], 2, "'1' is not a whole number from 100"),
        (
            ["--postgres-url", "postgresql://app@127.0.0.1:1/x", "--redis-url", "redis://127.0.0.1:1"],
            3,
            "PostgreSQL at --postgres-url cannot be reached",
        ),
    ],
)
def test_what_cannot_be_measured_is_one_sentence(
    alone: Cli, temp: Path, arguments: list[str], code: int, sentence: str
) -> None:
    answer = alone.process("bench", *arguments)
    assert answer.code == code
    assert sentence in answer.err
    assert answer.err.count("\n") == 1
    assert list(temp.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_leaves_nothing(alone: Cli, temp: Path, number: signal.Signals) -> None:
    process = alone.start("bench", "--mode", "sqlite", "--jobs", "1000000")
    try:
        deadline = time.monotonic() + PATIENCE
        while not list(temp.rglob("*.started")):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(number)
        assert process.wait(PATIENCE) == 130
        assert process.communicate()[1] == "jobconsole: interrupted\n"
    finally:
        alone.close()
    assert list(temp.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_leaves_nothing_on_servers_that_were_named(
    alone: Cli, temp: Path, empty_postgres_url: str, redis_url: str, redis_prefix: str, number: signal.Signals
) -> None:
    where = ["--postgres-url", empty_postgres_url, "--redis-url", redis_url, "--prefix", redis_prefix]
    process = alone.start("bench", "--jobs", "1000000", *where)
    try:
        deadline = time.monotonic() + PATIENCE
        while not list(temp.rglob("*.started")):
            assert process.poll() is None, process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert not nothing_on(empty_postgres_url, redis_url, redis_prefix)
        process.send_signal(number)
        assert process.wait(PATIENCE) == 130
    finally:
        alone.close()
    assert nothing_on(empty_postgres_url, redis_url, redis_prefix)


def test_payloads_have_their_size() -> None:
    assert {len(encode_payload(payload(number), 1000)) for number in (0, 12, 9_999_999)} <= set(
        range(PAYLOAD_BYTES - 20, PAYLOAD_BYTES + 1)
    )


def test_a_record_knows_what_was_lost_and_what_ran_twice(tmp_path: Path) -> None:
    record = DeliveryRecord(tmp_path / "phase", 4)
    assert (record.missing(), record.repeated(), record.starts()) == (4, 0, {})
    recorder = Recorder(record.folder)
    recorder.note(0, 0.0)
    recorder.note(1, time.time() - 5.0)
    recorder.note(1, 0.0)
    assert (record.missing(), record.repeated()) == (2, 1)
    (begun,) = record.starts().values()
    assert begun.cpu > 0
    (delay,) = record.delays()
    assert delay >= 5.0


def test_percentiles() -> None:
    values = [float(n) for n in range(100)]
    assert (percentile(values, 0.5), percentile(values, 0.99), percentile([], 0.5)) == (50.0, 99.0, 0.0)
