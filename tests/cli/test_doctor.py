"""The doctor: what it makes of facts, and what it says about real servers."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from jobconsole.core.doctor.checks import Check, check_operations, check_work
from jobconsole.core.doctor.outages import unreachable
from jobconsole.core.doctor.postgres import check_postgres
from jobconsole.core.doctor.redis import check_redis
from jobconsole.embedded.servers import EmbeddedServers
from queue_core.model.operation import Author, Operation, OperationRequest, OperationState
from queue_core.model.report import Overview, QueueInfo, WorkerInfo
from queue_core.stores.postgres.migrate import migrate
from tests.cli.running import Cli
from tests.conftest import StartServers
from tests.servers import SessionServers, fresh_database

NOW = datetime(2026, 1, 30, 3, 7, tzinfo=UTC)

POSTGRES: dict[str, Any] = {
    "version": "15.4", "version_number": 150004, "encoding": "UTF8", "schema": 1, "schema_known": 1, "fsync": True,
    "full_page_writes": True, "synchronous_commit": "on", "read_only": False, "connections": 5, "max_connections": 100,
    "oldest_transaction_s": None, "oldest_transaction_pid": None, "prepared_transactions": 0, "invalid_indexes": [],
    "held_snapshots": [], "blockers": [], "partitions_ahead_days": 7, "tables": {}, "clock_skew_s": 0.1,
    "clock_skew_error_s": 0.0, "pooler": False,
    "refused": "", "untried": "", "notifications_s": 0.003, "notifications_reason": "",
    "notifications_advice": "set jobs.postgres.listen_url",
}  # fmt: skip
REDIS: dict[str, Any] = {
    "version": None, "redis_version": "7.0.15", "aof_enabled": 1, "aof_last_write_status": "ok", "maxmemory": 0,
    "maxmemory_policy": "noeviction", "used_memory": 1 << 20, "role": "master", "evicted_keys": 0, "clock_skew": 0.0,
    "tcp_keepalive": 300, "appendfsync": "everysec", "cluster": None, "refused": {},
}  # fmt: skip
QUEUE = QueueInfo("work", False, {}, 0, 0, 0, 0, 0, None)
WORKER = WorkerInfo("w", "h", 1, "1", ("work",), ("task",), 10, 0, False, NOW, NOW, 1.0, False)
WELL = Overview(NOW, (QUEUE,), (WORKER,))


def _held(kind: str, transactions: int = 2_000_000) -> dict[str, Any]:
    return {"kind": kind, "name": "old", "transactions": transactions}


def _blocker(**differs: Any) -> dict[str, Any]:
    return {
        "pid": 7, "application": "shop\x1b[2J", "client": "10.0.0.3", "state": "idle in transaction", "open_s": 90.0,
        "tables": ["jobs"], "waiters": 0, "waiting_s": None, "waiter": None, "waiter_application": "", "asked": [],
        "found": 1, "username": "", "statement": "", "bars": False,
    } | differs  # fmt: skip


class TestLocks:
    """What the doctor says about transactions that hold others up."""

    def check(self, *blockers: dict[str, Any]) -> Check:
        (check,) = [check for check in check_postgres(POSTGRES | {"blockers": list(blockers)}) if check.name == "locks"]
        return check

    def test_each_is_one_sentence(self) -> None:
        crowd = {"waiters": 3, "waiting_s": 8.0, "waiter": 9, "waiter_application": "web", "asked": ["ordering_locks"]}
        check = self.check(_blocker(**crowd, found=12), _blocker(application="", client=None, state="active"))
        assert check.finding.splitlines() == [
            "shop␛[2J (pid 7) from 10.0.0.3: open for 1m, idle, locks in jobs; "
            "3 connections held up for 8s: web (pid 9) at ordering_locks and others",
            "a program without a name (pid 7) from this machine: open for 1m, locks in jobs; nothing waits for it now",
            "and 10 more",
        ]

    def test_a_session_that_this_user_may_not_look_at_is_named_nevertheless(self) -> None:
        check = self.check(_blocker(state="", client=None, open_s=None, waiters=1, waiting_s=9.0, waiter=9))
        assert check.finding.startswith("shop␛[2J (pid 7): open, locks in jobs; 1 connection held up for 9s")

    def test_the_user_and_the_statement_are_named_in_one_short_line(self) -> None:
        lock = "lock table jobs\n  in access exclusive mode; " + "select 1; " * 20
        active = self.check(_blocker(username="ops", state="active", statement=lock))
        assert active.finding.startswith(
            "shop␛[2J (pid 7) of user ops from 10.0.0.3: open for 1m, in 'lock table jobs in access exclusive mode; "
        )
        assert len(active.finding) < 240
        idle = self.check(_blocker(statement="select \x1b"))
        assert "open for 1m, idle after 'select ␛', locks in jobs" in idle.finding

    def test_short_ones_are_nothing_to_look_at(self) -> None:
        check = self.check(_blocker(open_s=1.0, waiters=1, waiting_s=0.5, waiter=9))
        assert (check.level, check.advice) == ("ok", "")


class TestJudgement:
    def test_all_is_well(self) -> None:
        checks = [*check_postgres(POSTGRES), *check_redis(REDIS), *check_work(WELL)]
        assert {check.level for check in checks} == {"ok"}
        assert not any(check.advice for check in checks)
        assert len({check.name for check in checks}) == len(checks)

    @pytest.mark.parametrize(
        ("facts", "name", "level", "advice"),
        [
            ({"version": "14.9", "version_number": 140009}, "postgres version", "fail", "PostgreSQL 15"),
            ({"encoding": "SQL_ASCII"}, "database encoding", "fail", "ENCODING 'UTF8' TEMPLATE template0"),
            ({"schema": 0}, "schema", "fail", "jobconsole migrate"),
            ({"schema": 2}, "schema", "fail", "upgrade this program"),
            ({"read_only": True}, "postgres role", "fail", "primary"),
            ({"fsync": False}, "durability", "fail", "lose jobs"),
            ({"synchronous_commit": "off"}, "durability", "fail", "set it to 'on'"),
            ({"clock_skew_s": -5.0}, "postgres clock", "warn", "NTP"),
            ({"oldest_transaction_s": 900.0, "oldest_transaction_pid": 77}, "oldest transaction", "warn", "(77)"),
            ({"oldest_transaction_s": 9e9, "oldest_transaction_pid": 77}, "oldest transaction", "fail", "(77)"),
            ({"held_snapshots": [_held("replication slot")]}, "held snapshots", "warn", "slot('old')"),
            (
                {"held_snapshots": [_held("standby"), _held("replication slot", 9)]},
                "held snapshots",
                "warn",
                "hot_standby_feedback",
            ),
            ({"blockers": [_blocker()]}, "locks", "warn", "pg_terminate_backend(7)"),
            ({"blockers": [_blocker(pid=0, open_s=None, waiting_s=6.0)]}, "locks", "warn", "pg_prepared_xacts"),
            ({"prepared_transactions": 2}, "prepared transactions", "warn", "pg_prepared_xacts"),
            ({"invalid_indexes": ["jobs_ready"]}, "indexes", "fail", "REINDEX"),
            ({"partitions_ahead_days": 0}, "history partitions", "warn", "jobconsole migrate"),
            ({"partitions_ahead_days": -1}, "history partitions", "fail", "jobconsole migrate"),
            ({"tables": {"jobs": {"live": 10, "dead": 200_000}}}, "tables", "warn", "VACUUM"),
            ({"connections": 95}, "connections", "warn", "max_connections"),
            ({"notifications_s": None, "notifications_reason": "gone"}, "notifications", "warn", "listen_url"),
            ({"refused": "permission denied for table queues"}, "operators", "fail", "rights"),
            ({"untried": "others hold rows that this needs"}, "operators", "warn", "run this again"),
        ],
    )
    def test_postgres(self, facts: dict[str, Any], name: str, level: str, advice: str) -> None:
        (check,) = [check for check in check_postgres(POSTGRES | facts) if check.level != "ok"]
        assert (check.name, check.level) == (name, level)
        assert advice in check.advice

    def test_what_this_user_may_not_change_is_nothing_to_one_that_only_looks(self) -> None:
        facts = POSTGRES | {"refused": "permission denied for table queues"}
        assert {check.level for check in check_postgres(facts, read_only=True)} == {"ok"}

    @pytest.mark.parametrize("schema", [0, 99])
    def test_of_tables_that_are_not_there_nothing_is_said(self, schema: int) -> None:
        names = {check.name for check in check_postgres(POSTGRES | {"schema": schema})}
        assert "schema" in names
        assert not names & {"operators", "tables", "indexes"}

    def test_a_missing_grant_is_no_wrong_address(self) -> None:
        check = unreachable("postgres", "permission denied for schema jobconsole")
        assert check.advice.startswith("grant this user")

    @pytest.mark.parametrize(
        ("facts", "name", "level", "advice"),
        [
            ({"redis_version": "6.2.1"}, "redis version", "fail", "Redis 7.0"),
            ({"role": "slave"}, "redis role", "fail", "primary"),
            ({"aof_enabled": 0}, "redis persistence", "warn", "appendonly yes"),
            ({"aof_last_write_status": "err"}, "redis persistence", "fail", "disk"),
            ({"maxmemory_policy": "allkeys-lru"}, "redis eviction", "warn", "noeviction"),
            ({"maxmemory_policy": "allkeys-lru", "maxmemory": 1 << 30}, "redis eviction", "fail", "noeviction"),
            ({"maxmemory": (1 << 20) + 1}, "redis memory", "warn", "maxmemory"),
            ({"clock_skew": 3.0}, "redis clock", "warn", "NTP"),
            ({"tcp_keepalive": 0}, "redis keepalive", "warn", "300"),
            ({"refused": {"zadd": "not allowed"}}, "redis rights", "fail", "+@write"),
            ({"appendfsync": "no"}, "redis persistence", "warn", "everysec"),
            ({"appendfsync": "no", "backend": "redis"}, "redis persistence", "fail", "loses jobs"),
            ({"cluster": {"state": "fail", "slots": 0, "servers": 0}}, "redis cluster", "fail", "every slot"),
            ({"cluster": {"state": "ok", "slots": 16_383, "servers": 1}}, "redis cluster", "fail", "every slot"),
            ({"cluster": {"state": "ok", "slots": 16_384, "servers": 3}}, "redis cluster", "fail", "another"),
        ],
    )
    def test_redis(self, facts: dict[str, Any], name: str, level: str, advice: str) -> None:
        (check,) = [check for check in check_redis(REDIS | facts) if check.level != "ok"]
        assert (check.name, check.level) == (name, level)
        assert advice in check.advice

    def test_who_only_looks_needs_no_rights_to_write(self) -> None:
        facts = REDIS | {"refused": {"zadd": "not allowed"}}
        assert {check.level for check in check_redis(facts, read_only=True)} == {"ok"}

    @pytest.mark.parametrize(("policy", "level"), [("noeviction", "fail"), ("allkeys-lru", "ok")])
    def test_a_full_redis_accepts_no_writes(self, policy: str, level: str) -> None:
        facts = REDIS | {"maxmemory": 1 << 20, "maxmemory_policy": policy}
        (role,) = [check for check in check_redis(facts) if check.name == "redis role"]
        assert (role.level, "accepts" in role.finding) == (level, level == "ok")

    @pytest.mark.parametrize(
        ("number", "said"),
        [(1, "1 of 1 Sentinel of 'shop' answers, 1 replica, "), (3, "3 of 3 Sentinels of 'shop' answer, 1 replica, ")],
    )
    def test_one_sentinel_is_no_several(self, number: int, said: str) -> None:
        sentinels = {"name": "shop", "sentinels": number, "answering": number, "replicas": 1, "quorum": True}
        assert check_redis(REDIS | {"sentinel": sentinels})[-1].finding == f"{said}with a quorum"

    @pytest.mark.parametrize(
        ("overview", "name", "level", "said"),
        [
            (replace(WELL, workers=()), "workers", "warn", "0 alive, 0 lost"),
            (replace(WELL, workers=(WORKER, replace(WORKER, lost=True))), "workers", "warn", "1 alive, 1 lost"),
            (
                replace(WELL, orphaned_types={"a\x1b": 2}),
                "types",
                "fail",
                "no worker takes a␛ (2 jobs) from their queues",
            ),
            (replace(WELL, queues=(replace(QUEUE, paused=True),)), "paused queues", "warn", "work"),
            (
                replace(WELL, queues=(replace(QUEUE, oldest=NOW - timedelta(hours=2)),)),
                "waiting time",
                "warn",
                "work for 2h",
            ),
        ],
    )
    def test_work(self, overview: Overview, name: str, level: str, said: str) -> None:
        (check,) = [check for check in check_work(overview) if check.level != "ok"]
        assert (check.name, check.level, check.finding) == (name, level, said)
        assert check.advice


class TestOperations:
    """What the doctor makes of operations that have not ended."""

    def asked(self, number: int, state: OperationState, seconds: float) -> Operation:
        asked = OperationRequest("retry", "all", Author("anna", "ops-1"))
        then = NOW - timedelta(seconds=seconds)
        return Operation(number, asked, state, "", 9, 0, 0, 0, 0, 9, then, then, then, None)

    def test_nobody_carries_it_out(self) -> None:
        alone = replace(WELL, workers=(replace(WORKER, lost=True),))
        old, new = self.asked(1, "running", 600), self.asked(2, "running", 1)
        check = check_operations([new, old], alone)
        assert (check.level, check.finding) == ("warn", "no worker carries #1 retry out")
        assert "jobconsole op run" in check.advice
        assert check_operations([new], alone).level == "ok"
        assert check_operations([new, old], WELL).finding == "2 running"

    def test_it_was_stopped_and_somebody_has_to_decide(self) -> None:
        check = check_operations([self.asked(3, "stopped", 1), self.asked(4, "paused", 9e9)], WELL)
        assert (check.level, check.finding) == ("warn", "stopped by a threshold: #3 retry")
        assert check_operations([], WELL).finding == "0 running"


class TestRealServers:
    @pytest.fixture
    def sound(self, start_servers: StartServers) -> EmbeddedServers:
        """Servers as production should have them."""
        return start_servers(durable=True, redis_appendonly=True, template=None)

    def cli(self, servers: EmbeddedServers) -> Cli:
        return Cli(
            {
                "JOBS__POSTGRES__URL": servers.postgres_url,
                "JOBS__REDIS__URL": servers.redis_url,
                "JOBS__POSTGRES__TIMEOUT": "2s",
                "JOBS__REDIS__TIMEOUT": "1s",
            }
        )

    def levels(self, cli: Cli) -> tuple[int, dict[str, str]]:
        answer = cli("doctor", "--json")
        return answer.code, {check["name"]: check["level"] for check in answer.body["checks"]}

    def test_from_nothing_to_production(self, sound: EmbeddedServers) -> None:
        cli = self.cli(sound)
        code, levels = self.levels(cli)
        assert (code, levels["schema"]) == (1, "fail")
        migrate(sound.postgres_url)
        code, levels = self.levels(cli)
        assert code == 0
        assert [name for name, level in levels.items() if level != "ok"] == ["workers"]
        cli("job", "enqueue", "nobody")
        code, levels = self.levels(cli)
        assert (code, levels["types"]) == (1, "fail")

    def test_a_database_that_lacks_characters(self, servers: SessionServers) -> None:
        with fresh_database(servers.postgres_url, encoding="LATIN1") as url:
            cli = Cli({"JOBS__POSTGRES__URL": url})
            code, levels = self.levels(cli)
            assert (code, levels["database encoding"]) == (1, "fail")

    def test_without_redis_there_is_nothing_to_say_about_it(self, cli: Cli) -> None:
        alone = Cli({"JOBS__POSTGRES__URL": cli.environ["JOBS__POSTGRES__URL"]})
        names = {check["name"] for check in alone("doctor", "--json").body["checks"]}
        assert "schema" in names
        assert not any(name.startswith("redis") for name in names)

    def test_health(self, own_servers: EmbeddedServers) -> None:
        cli = self.cli(own_servers)
        missing = cli("health", "--json")
        assert (missing.code, missing.body["healthy"]) == (1, False)
        assert "jobconsole migrate" in missing.body["reason"]
        migrate(own_servers.postgres_url)
        cli("job", "enqueue", "nobody")
        answer = cli("health", "--json")
        assert answer.code == 0
        assert answer.body == {
            "version": 1, "status": "ok", "healthy": True, "mode": "postgres+redis", "pending": 1, "running": 0,
            "workers": 0, "degraded_since": None, "reason": "no worker is alive: what is pending waits for one",
        }  # fmt: skip
        assert cli("health").out == (
            "ok, mode postgres+redis\n1 pending, 0 running, 0 workers alive\n"
            "no worker is alive: what is pending waits for one\n"
        )
        own_servers.redis.pause()
        answer = cli("health", "--json")
        assert (answer.code, answer.body["status"], answer.body["pending"]) == (0, "degraded", 1)
        own_servers.redis.resume()
        own_servers.postgres.stop()
        answer = cli("health", "--json")
        assert (answer.code, answer.body["status"], answer.body["pending"]) == (1, "failing", None)
        assert answer.body["reason"]
        assert cli("health").out.startswith("failing, mode postgres+redis\n")

    def test_servers_that_are_gone_or_hang_are_findings(self, own_servers: EmbeddedServers) -> None:
        migrate(own_servers.postgres_url)
        cli = self.cli(own_servers)
        own_servers.redis.pause()
        own_servers.postgres.stop()
        answer = cli("doctor")
        assert answer.code == 1
        assert answer.err == ""
        assert [line.split()[:2] for line in answer.out.splitlines() if not line.startswith(" ")] == [
            ["fail", "postgres"],
            ["fail", "redis"],
            ["0", "ok,"],
        ]
        own_servers.redis.resume()
