"""Addresses that cannot work are one sentence and exit code 2; several hosts work where an address may have them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from redis import Redis

from tests.cli.running import Cli
from tests.conftest import StartServers

WRONG = {
    "--redis-url redis://127.0.0.1:1,127.0.0.1:2/0": "names one server",
    "--redis-url redis://:hunter2@a,b/0": "names one server",
    "--redis-url redis://:hunter2@127.0.0.1:1/0?sentinel=x": "it has a parameter 'sentinel' that is not known",
    "--redis-url unix:///tmp/r.sock?sentinel=x": "it has a parameter 'sentinel' that is not known",
    "--redis-url redis://127.0.0.1:1/0?socket_timeout=x": "socket_timeout",
    "--redis-url redis://127.0.0.1:1/0?protocol=9": "protocol must be",
    "--redis-url redis://127.0.0.1:1/0?retry=x": "it has a parameter that only a program can give",
    "--redis-url rediss://127.0.0.1:1/0?ssl_ca_certs=/none": "/none, its ssl_ca_certs, is not there",
    "--redis-url rediss+sentinel://h/n/0?ssl_certfile=/none": "/none, its ssl_certfile, is not there",
    "--redis-url rediss+cluster://h?ssl_keyfile=/none": "/none, its ssl_keyfile, is not there",
    "--postgres-url postgresql://app:hunter2@127.0.0.1:1/db?sentinel=x": "jobs.postgres.url: PostgreSQL's client knows "
    "no option 'sentinel'",
    "--postgres-url postgresql://h/db?sslmod=require": "jobs.postgres.url: PostgreSQL's client knows no option "
    "'sslmod'; did you mean 'sslmode'?",
    "--redis-url redis://127.0.0.1:1/0 --postgres-url postgresql://h/db?nosuch=1": "jobs.postgres.url: PostgreSQL's "
    "client knows no option 'nosuch'",
    "--postgres-url postgresql://app:1/?hunter2=x@h/db": "jobs.postgres.url: this is no address",
    "--postgres-url postgresql://h/db?ssl=hunter2": "jobs.postgres.url: PostgreSQL's client knows no option 'ssl'",
    "--postgres-url postgresql://h/db?sslmode=nonsense": "the option 'sslmode' of the PostgreSQL URL must be one of",
}


@pytest.mark.parametrize("verb", ["queue list", "job enqueue task", "doctor", "dlq retry --all", "migrate"])
@pytest.mark.parametrize("wrong", WRONG)
def test_one_that_cannot_be_is_a_sentence(alone: Cli, wrong: str, verb: str) -> None:
    answer = alone(*wrong.split(), *verb.split())
    assert (answer.code, answer.out) == (2, ""), answer.err
    assert WRONG[wrong] in answer.err
    assert answer.err.count("\n") == 1
    assert "hunter2" not in answer.err
    assert "internal error" not in answer.err


def test_one_for_listening_is_named_as_such() -> None:
    environ = {
        "JOBS__POSTGRES__URL": "postgresql:///x",
        "JOBS__POSTGRES__LISTEN_URL": "postgresql://:hunter2@h/x?nosuch=1",
    }
    answer = Cli(environ)("queue", "list")
    sentence = "jobs.postgres.listen_url: PostgreSQL's client knows no option 'nosuch'"
    assert (answer.code, answer.err) == (2, f"jobconsole: {sentence}\n")


@pytest.mark.parametrize("verb", ["job list", "doctor", "ui"])
def test_who_only_looks_makes_no_file(tmp_path: Path, verb: str) -> None:
    path = tmp_path / "typo.db"
    answer = Cli({"JOBS__QUEUE_BACKEND": "sqlite", "JOBS__SQLITE__PATH": str(path)})("--read-only", *verb.split())
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"jobconsole: there is no file '{path}' (jobs.sqlite.path)\n"
    assert not path.exists()


@pytest.fixture
def hanging() -> Iterator[Path]:
    """A folder with the socket of a PostgreSQL that accepts and never answers."""
    with TemporaryDirectory(prefix="t", dir="/tmp") as folder, socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"{folder}/.s.PGSQL.5432")
        listening.listen()
        yield Path(folder)


@pytest.mark.parametrize("verb", ["job enqueue task", "queue list", "doctor --json"])
@pytest.mark.parametrize("first", ["gone", "hangs"])
def test_the_second_host_of_postgresql_is_used_when_the_first_is_away(
    postgres_url: str, hanging: Path, first: str, verb: str
) -> None:
    parts = urlsplit(postgres_url)
    real = parse_qs(parts.query)["host"][0]
    hosts = quote(f"{hanging if first == 'hangs' else '/nowhere'},{real}", safe=",")
    url = f"postgresql://{parts.username}@{parts.path}?host={hosts}&port=5432,5432"
    cli = Cli({"JOBS__POSTGRES__URL": url, "JOBS__POSTGRES__TIMEOUT": "8s"})
    if verb.startswith("doctor"):
        assert {check["name"]: check["level"] for check in cli(*verb.split()).body["checks"]}["postgres"] == "ok"
    else:
        assert cli(*verb.split()).code == 0


def cluster_options() -> dict[str, str]:
    """Return options of a server in cluster mode: it listens on two ports that nobody uses."""
    with socket.socket() as one, socket.socket() as other:
        for free in (one, other):
            free.bind(("127.0.0.1", 0))
        ports = [str(free.getsockname()[1]) for free in (one, other)]
    options = {"cluster-enabled": "yes", "port": ports[0], "cluster-port": ports[1], "bind": "127.0.0.1"}
    return options | {"tcp-keepalive": "0", "appendfsync": "no"}


def test_the_doctor_looks_at_the_slots_of_a_cluster(start_servers: StartServers, postgres_url: str) -> None:
    servers = start_servers(redis_options=cluster_options(), redis_appendonly=True)
    environ = {"JOBS__REDIS__URL": servers.redis_url}
    modes = (Cli(environ | {"JOBS__POSTGRES__URL": postgres_url}), Cli(environ))
    for cli, level in zip(modes, ("warn", "fail"), strict=True):
        found = found_by(cli)
        assert found["redis cluster"] == ("fail", "state fail, 0 of 16,384 slots served")
        assert found["redis keepalive"] == ("warn", "off")
        assert found["redis persistence"] == (level, "append-only file on, appendfsync no")
    with Redis.from_url(servers.redis_url) as client:
        client.execute_command("CLUSTER ADDSLOTSRANGE", 0, 16_382)
    assert found_by(modes[0])["redis cluster"][0] == "fail"


def found_by(cli: Cli) -> dict[str, tuple[str, str]]:
    answer = cli("doctor", "--json")
    assert answer.code == 1
    return {check["name"]: (check["level"], check["said"]) for check in answer.body["checks"]}
