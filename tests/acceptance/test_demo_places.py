"""Servers of others are only used when they are empty; whatever is wrong with them is one sentence."""

import psycopg
import pytest
import redis

from jobconsole.demo.options import DemoOptions
from jobconsole.embedded.places import DemoError, open_places


def test_an_empty_database_and_prefix_are_taken(empty_postgres_url: str, redis_url: str, redis_prefix: str) -> None:
    options = DemoOptions(postgres_url=empty_postgres_url, redis_url=redis_url, prefix=redis_prefix)
    with open_places(options) as places:
        assert places.postgres_url == empty_postgres_url
        assert places.redis_prefix == redis_prefix
        folder = places.folder
        assert folder.is_dir()
    assert not folder.exists()


def test_a_database_that_holds_anything_is_refused(postgres_url: str, redis_url: str, redis_prefix: str) -> None:
    options = DemoOptions(postgres_url=postgres_url, redis_url=redis_url, prefix=redis_prefix)
    with pytest.raises(DemoError, match="not empty") as refusal, open_places(options):
        pass
    assert refusal.value.exit_code == 5
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT count(*) FROM jobs").fetchone() == (0,)


def test_a_prefix_that_holds_anything_is_refused(empty_postgres_url: str, redis_url: str, redis_prefix: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.set(f"{redis_prefix}mine", "1")
    options = DemoOptions(postgres_url=empty_postgres_url, redis_url=redis_url, prefix=redis_prefix)
    with pytest.raises(DemoError, match="holds keys under") as refusal, open_places(options):
        pass
    assert refusal.value.exit_code == 5


def test_a_prefix_with_wildcards_means_itself(empty_postgres_url: str, redis_url: str, redis_prefix: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        client.set(f"{redis_prefix}mine", "1")
    options = DemoOptions(postgres_url=empty_postgres_url, redis_url=redis_url, prefix=f"{redis_prefix[:-1]}*:")
    with open_places(options), redis.Redis.from_url(redis_url) as client:
        assert client.get(f"{redis_prefix}mine") == b"1", "the keys of others stay"


@pytest.mark.parametrize(
    ("postgres_url", "redis_url", "sentence", "code"),
    [
        ("postgresql://app@127.0.0.1:1/x", "redis://127.0.0.1:1", "PostgreSQL at --postgres-url cannot be reached", 3),
        ("mysql://x", "redis://127.0.0.1:1", "--postgres-url: a PostgreSQL URL begins with", 2),
        ("postgresql://app@127.0.0.1:1/x", "http://x", "--redis-url: a Redis URL begins with", 2),
    ],
)
def test_servers_that_are_not_there_are_one_sentence(
    postgres_url: str, redis_url: str, sentence: str, code: int
) -> None:
    with (
        pytest.raises(DemoError, match=sentence) as refusal,
        open_places(DemoOptions(postgres_url=postgres_url, redis_url=redis_url)),
    ):
        pass
    assert refusal.value.exit_code == code
    assert "\n" not in str(refusal.value)
