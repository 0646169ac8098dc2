"""Both servers answer, and each can be stopped, killed, frozen and started again."""

import psycopg
import pytest
import redis

from jobconsole.embedded.folders import EmbeddedError
from jobconsole.embedded.servers import EmbeddedServers
from tests.conftest import StartServers


def ask_postgres(url: str, seconds: int = 30) -> bool:
    with psycopg.connect(url, connect_timeout=seconds) as connection:
        return connection.execute("select 1").fetchone() == (1,)


def redis_client(servers: EmbeddedServers, seconds: float = 30) -> redis.Redis:
    return redis.Redis.from_url(servers.redis_url, socket_timeout=seconds, socket_connect_timeout=seconds)


def test_each_test_has_its_own_database(postgres_url: str, empty_postgres_url: str) -> None:
    assert postgres_url != empty_postgres_url
    assert ask_postgres(postgres_url)
    assert ask_postgres(empty_postgres_url)


def test_redis_answers(redis_url: str, redis_prefix: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert client.set(f"{redis_prefix}key", "value")
        assert client.get(f"{redis_prefix}key") == b"value"


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_postgres_keeps_what_was_committed(own_servers: EmbeddedServers, mode: str) -> None:
    with psycopg.connect(own_servers.postgres_url, autocommit=True) as connection:
        connection.execute("create table kept (value integer)")
        connection.execute("insert into kept values (7)")
        # Throw-away servers do not wait for the log; a crash right now could lose the last commits.
        connection.execute("checkpoint")
    own_servers.postgres.stop(mode)  # type: ignore[arg-type]
    assert own_servers.postgres.pid is None
    with pytest.raises(psycopg.OperationalError):
        ask_postgres(own_servers.postgres_url)
    own_servers.postgres.start()
    with psycopg.connect(own_servers.postgres_url) as connection:
        assert connection.execute("select value from kept").fetchone() == (7,)


def test_postgres_comes_back_after_a_kill(own_servers: EmbeddedServers) -> None:
    before = own_servers.postgres.pid
    own_servers.postgres.kill()
    assert own_servers.postgres.pid is None
    own_servers.postgres.start()
    assert own_servers.postgres.pid not in (None, before)
    assert ask_postgres(own_servers.postgres_url)


def test_a_redis_without_its_file_forgets(own_servers: EmbeddedServers) -> None:
    with redis_client(own_servers) as client:
        client.set("key", "value")
    own_servers.redis.kill()
    assert own_servers.redis.pid is None
    own_servers.redis.start()
    with redis_client(own_servers) as client:
        assert client.get("key") is None


def test_a_redis_with_its_file_remembers(start_servers: StartServers) -> None:
    servers = start_servers(redis_appendonly=True)
    with redis_client(servers) as client:
        client.set("key", "value")
    servers.redis.stop()
    with pytest.raises(redis.ConnectionError):
        redis_client(servers).ping()
    servers.redis.start()
    with redis_client(servers) as client:
        assert client.get("key") == b"value"


def test_a_frozen_postgres_says_nothing(own_servers: EmbeddedServers) -> None:
    own_servers.postgres.pause()
    with pytest.raises(psycopg.OperationalError):
        ask_postgres(own_servers.postgres_url, seconds=2)
    own_servers.postgres.resume()
    assert ask_postgres(own_servers.postgres_url)


def test_a_frozen_redis_says_nothing(own_servers: EmbeddedServers) -> None:
    own_servers.redis.pause()
    with redis_client(own_servers, seconds=0.3) as client, pytest.raises(redis.TimeoutError):
        client.ping()
    own_servers.redis.resume()
    with redis_client(own_servers) as client:
        assert client.ping()


def test_frozen_servers_can_be_stopped(own_servers: EmbeddedServers) -> None:
    own_servers.postgres.pause()
    own_servers.redis.pause()
    own_servers.postgres.stop()
    own_servers.redis.stop()
    assert (own_servers.postgres.pid, own_servers.redis.pid) == (None, None)


def test_doing_it_twice_changes_nothing(own_servers: EmbeddedServers) -> None:
    pid = own_servers.postgres.pid
    own_servers.postgres.start()
    assert own_servers.postgres.pid == pid
    for _ in range(2):
        own_servers.redis.stop()
        own_servers.postgres.resume()
    own_servers.close()
    own_servers.close()
    with pytest.raises(EmbeddedError, match="gone"):
        own_servers.postgres.start()


def test_durable_servers_wait_for_the_disk(start_servers: StartServers) -> None:
    servers = start_servers(durable=True, postgres_options={"work_mem": "7MB"}, redis_options={"maxmemory": "50mb"})
    with psycopg.connect(servers.postgres_url) as connection:
        settings = [
            connection.execute("select current_setting(%s)", [name]).fetchone()
            for name in ("fsync", "synchronous_commit", "full_page_writes", "work_mem", "max_connections")
        ]
    assert settings == [("on",), ("on",), ("on",), ("7MB",), ("200",)]
    with redis_client(servers) as client:
        assert client.config_get("maxmemory") == {"maxmemory": "52428800"}


def test_a_setting_that_postgres_refuses_is_told(start_servers: StartServers) -> None:
    with pytest.raises(EmbeddedError, match=r"PostgreSQL ended while it started.*no_such_setting"):
        start_servers(postgres_options={"no_such_setting": "1"})


def test_a_setting_that_redis_refuses_is_told(start_servers: StartServers) -> None:
    with pytest.raises(EmbeddedError, match=r"Redis-protocol server ended while it started.*no-such-setting"):
        start_servers(redis_options={"no-such-setting": "1"})
