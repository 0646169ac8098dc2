"""The doctor on servers that cannot be used: what is wrong, and what to do about it, from real servers if possible."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from redis.exceptions import OutOfMemoryError

from jobconsole.core.doctor.outages import unreachable
from jobconsole.embedded.servers import EmbeddedServers
from queue_core.redis.client import reason_of
from queue_core.stores.postgres.migrate import migrate
from tests.cli.running import Cli
from tests.conftest import StartServers
from tests.redis_topology.clients import plain_client


@pytest.mark.parametrize(
    ("name", "reason", "finding", "advice"),
    [
        ("postgres", "postgres cannot be reached: sorry, too many clients already", "it answers, but has no connection",
         "lower jobs.postgres.pool"),
        ("postgres", "FATAL:  remaining connection slots are reserved for roles with the SUPERUSER attribute",
         "it answers, but has no connection", "raise max_connections"),
        ("postgres", 'FATAL:  no pg_hba.conf entry for host "10.0.0.3", user "a"', "it answers, but not to this host",
         "pg_hba.conf"),
        ("postgres", "FATAL:  the database system is starting up", "it answers, but accepts no connections", "wait"),
        ("postgres", "FATAL:  Passwort-Authentifizierung fehlgeschlagen", "it answers, but refuses the connection",
         "the server's log"),
        ("postgres", "could not extend file: No space left on device", "its disk is full", "make room"),
        ("postgres", "[Errno -2] Name or service not known", "the name of its host is not known here", "the host in"),
        ("postgres", "postgres cannot be reached: no answer within 5 s", "postgres cannot be reached: no answer within",
         "see whether it runs"),
        ("postgres", "server does not support SSL, but SSL was required", "there is no encrypted", "encryption"),
        ("postgres", "connection refused", "connection refused", "start it, or correct its address (jobs.post"),
        ("redis", "Redis is loading the dataset in memory", "it answers, but still loads", "wait until it has"),
        ("redis", "Link with MASTER is down and replica-serve-stale-data is set to 'no'.", "it is a replica whose",
         "give its address in jobs.redis.url"),
        ("redis", "command not allowed when used memory > 'maxmemory'.", "its memory is full", "raise maxmemory"),
        ("redis", "this user has no permissions to run the 'info' command", "this user lacks a right", "ACL SETUSER"),
        ("redis", "max number of clients reached", "it answers, but has no connection to spare", "raise maxclients"),
        ("redis", "AUTH <password> called without any password configured for the default user.",
         "it answers, but its user has no password", "leave the password out of jobs.redis.url"),
        ("redis", "DB index is out of range", "it has no database of this number", "correct the number"),
        ("redis", "Error 111 connecting to x:6379. Connection refused.", "Error", "start it, or correct its address"),
        ("sqlite", "unable to open database file", "unable to open", "jobs.sqlite.path"),
    ],
)  # fmt: skip
def test_each_cause_has_its_advice(name: str, reason: str, finding: str, advice: str) -> None:
    check = unreachable(name, reason)
    assert (check.level, check.finding.startswith(finding)) == ("fail", True), check.finding
    assert check.finding.endswith(reason.removeprefix("postgres cannot be reached: "))
    assert advice in check.advice
    assert "{" not in check.advice


def ask(postgres: str | None = None, redis: str | None = None) -> dict[str, tuple[str, str]]:
    """Answer what the doctor finds about the servers that cannot be used, with its advice, by name."""
    urls = {"JOBS__POSTGRES__URL": postgres, "JOBS__REDIS__URL": redis}
    answer = Cli({name: url for name, url in urls.items() if url})("doctor", "--json")
    assert answer.code == 1
    return {one["name"]: (one["said"], one["advice"]) for one in answer.body["checks"] if one["level"] == "fail"}


def with_user(url: str, user: str, password: str = "wrong") -> str:
    """Answer the address of a server for another user."""
    return f"{url}{'&' if '?' in url else '?'}user={user}&password={password}"


@pytest.fixture
def servers(start_servers: StartServers) -> EmbeddedServers:
    """Servers of this test alone, whose logins it changes."""
    return start_servers(template=None)


def test_postgres_that_refuses_the_login(servers: EmbeddedServers) -> None:
    url = servers.postgres_url
    with psycopg.connect(url, autocommit=True) as hand:
        hand.execute("create role guarded login password 'right'")
        ((path,),) = hand.execute("show hba_file").fetchall()
        file = Path(path)
        file.write_text(f"local all guarded scram-sha-256\nlocal all shut reject\n{file.read_text()}")
        hand.execute("create role shut login")
        hand.execute("select pg_reload_conf()")
    for user in ("guarded", "unknown"):
        finding, advice = ask(with_user(url, user))["postgres"]
        assert finding.startswith("it answers, but refuses the login: ")
        assert user in finding
        assert advice == "correct the user and the password in jobs.postgres.url"
    finding, advice = ask(with_user(url, "shut"))["postgres"]
    assert finding.startswith("it answers, but not to this host, user and database: ")
    assert "pg_hba.conf" in advice


def test_postgres_without_a_connection_to_spare(servers: EmbeddedServers) -> None:
    with psycopg.connect(servers.postgres_url, autocommit=True) as hand:
        hand.execute("create role crowded login connection limit 0")
        name = sql.Identifier(hand.info.dbname)
        hand.execute(sql.SQL("grant all on database {} to crowded").format(name))
    finding, advice = ask(with_user(servers.postgres_url, "crowded"))["postgres"]
    assert finding.startswith("it answers, but has no connection to spare: ")
    assert "raise max_connections, or the limit of this user" in advice


def test_redis_that_refuses_the_login(servers: EmbeddedServers) -> None:
    url = servers.redis_url
    with plain_client(url) as client:
        client.config_set("requirepass", "right")
        try:
            finding, advice = ask(redis=url)["redis"]
            assert finding.startswith("it answers, but requires a login: it demands a password; set it in ")
            assert "redis://USER:PASSWORD@HOST" in advice
            wrong = url.replace("unix://", "unix://:wrong@").replace("redis://", "redis://:wrong@")
            finding, advice = ask(redis=wrong)["redis"]
            assert finding.startswith("it answers, but refuses the login: ")
            assert advice == "correct the user and the password in jobs.redis.url"
        finally:
            client.config_set("requirepass", "")


def test_redis_without_a_connection_to_spare(servers: EmbeddedServers) -> None:
    with plain_client(servers.redis_url) as client:
        client.config_set("maxclients", 1)
        finding, advice = ask(redis=servers.redis_url)["redis"]
        client.config_set("maxclients", 100)
    # Its answer may be lost: it closes the connection behind it.
    assert finding.startswith(("it answers, but has no connection to spare: ", "it answers, but closes the connection"))
    assert "raise maxclients" in advice


@pytest.mark.parametrize("store", [True, False], ids=["store", "delivery"])
def test_redis_that_is_a_replica(servers: EmbeddedServers, store: bool) -> None:
    with plain_client(servers.redis_url) as client:
        client.replicaof("127.0.0.1", "1")
        found = ask(None if store else servers.postgres_url, servers.redis_url)
        client.replicaof("NO", "ONE")
    assert found["redis role"] == ("a slave", "connect to the primary server")
    assert all("start it" not in advice for name, (_, advice) in found.items())


@pytest.mark.parametrize("store", [True, False], ids=["delivery", "store"])
def test_redis_that_does_not_answer_is_described_as_postgres_is(servers: EmbeddedServers, store: bool) -> None:
    migrate(servers.postgres_url)
    environ = {"JOBS__REDIS__URL": servers.redis_url, "JOBS__REDIS__TIMEOUT": "1s"}
    cli = Cli(environ | ({"JOBS__POSTGRES__URL": servers.postgres_url} if store else {}))
    servers.redis.pause()
    try:
        doctor, health = cli("doctor", "--json"), cli("health", "--json")
    finally:
        servers.redis.resume()
    (found,) = [one for one in doctor.body["checks"] if one["name"] == "redis"]
    assert found["said"] == "redis cannot be reached: no answer within 1 s" if not store else "no answer within 1 s"
    assert "see whether it runs" in found["advice"]
    assert health.body["reason"].endswith("no answer within 1 s")


def test_what_goes_on_without_a_full_redis_is_one_warning(servers: EmbeddedServers) -> None:
    migrate(servers.postgres_url)
    cli = Cli({"JOBS__POSTGRES__URL": servers.postgres_url, "JOBS__REDIS__URL": servers.redis_url})
    with plain_client(servers.redis_url) as client:
        client.config_set("maxmemory", "1")
        try:
            answer = cli.process("job", "enqueue", "work")
        finally:
            client.config_set("maxmemory", "0")
    assert answer.code == 0
    why = "command not allowed when used memory > 'maxmemory'."
    first, *others = answer.err.splitlines()
    assert first == f"jobconsole: warning: redis is full, going on without it: {why}"
    assert all(line.startswith("jobconsole: warning: no live worker") for line in others)


@pytest.mark.parametrize(
    "text",
    [
        "command not allowed when used memory > 'maxmemory'.",
        f"command not allowed when used memory > 'maxmemory'. script: {'fa7eedab' * 5}, on @user_script:11.",
        """Command # 1 (SET a b) of pipeline caused error: ("command not allowed when used memory > 'maxmemory'.",)""",
    ],
)
def test_an_answer_of_redis_is_named_without_what_was_asked(text: str) -> None:
    assert reason_of(OutOfMemoryError(text)) == "command not allowed when used memory > 'maxmemory'."
