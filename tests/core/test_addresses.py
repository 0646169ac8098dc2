"""Server addresses: what is refused, and that no password is ever shown."""

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_core.model.addresses import check_postgres_url, check_redis_url, mask
from queue_core.model.settings import PostgresSettings, RedisSettings
from queue_core.redis.client import place_of as redis_place
from queue_core.stores.postgres.session.connection import place_of as postgres_place

HERE = socket.gethostname()

GOOD_POSTGRES = [
    "postgresql://app@db/app",
    "postgres://app:secret@db:5432/app?sslmode=require",
    "postgresql://app@/postgres?host=/tmp/pg",
    "postgresql://a:1@[::1]:5433/x",
    "postgresql://one:5432,two:5433/app?target_session_attrs=read-write",
    "postgresql:///app",
    "postgresql://app:1?hunter2@db/app",
    "postgresql:///app?host=/tmp/with%20space&port=5432,",
    "postgresql://db/app?connect_timeout=-1&options=-c%20a%3Db&of_a_later_client=1",
]
GOOD_REDIS = [
    "redis://localhost:6379/0",
    "rediss://:secret@cache.example:6380",
    "redis://",
    "unix:///tmp/r.sock?db=0",
    "unix://user:secret@/tmp/r.sock",
    "unix:///tmp/with%20space.sock",
    "redis+sentinel://h1:26379,h2,[::1]:26380/name/0?sentinel_password=x",
    "rediss+sentinel://app:secret@h1/name",
    "redis+cluster://h1:7000,h2:7000",
    "rediss+cluster://app:secret@h1/0",
]
BAD_POSTGRES = {
    "mysql://a:hunter2@db/x": "a PostgreSQL URL begins with postgresql:// or postgres://, not with mysql://",
    "hunter2": "a PostgreSQL URL begins with postgresql:// or postgres://",
    "postgresql://a:hunter2@db:99999/x": "the port of the PostgreSQL URL must be a number from 1 to 65535",
    "postgresql://a:hunter2@db:5432x/x": "the port of the PostgreSQL URL must be a number from 1 to 65535",
    "postgresql://a:hunter2%zz@db/x": "the PostgreSQL URL holds a % that is no escape; "
    "write %25 for the character itself",
    "postgresql://a:hunter2@db/x y": "the PostgreSQL URL holds a space or a control character",
    "postgresql://a:hunter2@db/x%00": "the PostgreSQL URL holds %00, which no address can hold",
    "postgresql://a:hunter2@db:0/x": "the port of the PostgreSQL URL must be a number from 1 to 65535",
    "postgresql:///x?password=hunter2&port=1,x": "the port of the PostgreSQL URL must be a number from 1 to 65535",
    "postgresql:///x?host=/tmp/a b": "the PostgreSQL URL holds a space or a control character",
    "postgresql:///x?password=hunter2&sslmode=nonsense": "the option 'sslmode' of the PostgreSQL URL must be one of: "
    "disable, allow, prefer, require, verify-ca, verify-full",
    "postgresql:///x?target_session_attrs=hunter2": "the option 'target_session_attrs' of the PostgreSQL URL must be "
    "one of: any, read-write, read-only, primary, standby, prefer-standby",
    "postgresql:///x?connect_timeout=hunter2": "the option 'connect_timeout' of the PostgreSQL URL must be a whole "
    "number",
    **dict.fromkeys(
        ["postgresql:///x?hunter2", "postgresql:///x?=hunter2", "postgresql:///x?&", "postgresql:///x?a=hunter2=b"],
        "the options of the PostgreSQL URL are written name=value with & between them, and = in a value as %3D",
    ),
    "postgresql://a:hunter2:@[db/x": "the host of the PostgreSQL URL cannot be read; "
    "write the special characters of a password as %XX",
}
BAD_REDIS = {
    "http://:hunter2@h": "a Redis URL begins with redis://, rediss://, unix://, redis+sentinel:// or "
    "redis+cluster://, not with http://",
    "redis+sentinel://:hunter2@h1,h2": "a Redis URL of Sentinels names the primary that they know, as in "
    "redis+sentinel://h1,h2/name/0",
    "redis+sentinel://:hunter2@h1/name/x": "the database of a Redis URL must be a number, as in "
    "redis+sentinel://h1,h2/name/0",
    "redis+cluster://:hunter2@h1/1": "a Redis Cluster has the database 0 alone, as in redis+cluster://h1:6379,h2:6379",
    "redis+cluster://:hunter2@h1,h2:x/": "the port of the Redis URL must be a number from 1 to 65535",
    "redis://:hunter2@h/jobs": "the database of a Redis URL must be a number, as in redis://localhost:6379/0",
    "unix:///s.sock?db=x": "the database of a Redis URL must be a number, as in redis://localhost:6379/0",
    "redis://:hunter2@h:0/0": "the port of the Redis URL must be a number from 1 to 65535",
    "redis://:hunter2@h/0%00": "the Redis URL holds %00, which no address can hold",
    "unix:///tmp/a b.sock": "the Redis URL holds a space or a control character",
    "unix:///": "a Redis URL with unix:// needs the absolute path of a socket, as in unix:///run/redis.sock",
    "unix://s.sock": "a Redis URL with unix:// needs the absolute path of a socket, as in unix:///run/redis.sock",
}


@pytest.mark.parametrize("url", GOOD_POSTGRES)
def test_a_good_postgres_address_is_returned_as_it_is(url: str) -> None:
    assert check_postgres_url(url) == url


def test_a_list_of_addresses_is_one() -> None:
    first = "redis+sentinel://app:hunter2@h1/name/0?sentinel_password=hunter3"
    settings = RedisSettings.model_validate({"url": [first, "h2:26380", "redis+sentinel://h3"]})
    assert settings.url is not None
    url = settings.url.get_secret_value()
    assert url == "redis+sentinel://app:hunter2@h1,h2:26380,h3/name/0?sentinel_password=hunter3"
    assert mask(url) == "redis+sentinel://app:***@h1,h2:26380,h3/name/0?sentinel_password=***"
    assert redis_place(settings) == "Sentinels of 'name' at h1:26379,h2:26380,h3:26379, database 0, prefix 'jobs:'"
    for wrong in (["redis://h1", "h2"], ["redis+cluster://h1", "redis+sentinel://h2/x"], []):
        with pytest.raises(ValueError, match="begin"):
            RedisSettings.model_validate({"url": wrong})


@pytest.mark.parametrize("url", GOOD_REDIS)
def test_a_good_redis_address_is_returned_as_it_is(url: str) -> None:
    assert check_redis_url(url) == url


@pytest.mark.parametrize(("url", "sentence"), BAD_POSTGRES.items())
def test_a_bad_postgres_address_is_one_sentence_without_the_password(url: str, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        check_postgres_url(url)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(("url", "sentence"), BAD_REDIS.items())
def test_a_bad_redis_address_is_one_sentence_without_the_password(url: str, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        check_redis_url(url)
    assert str(caught.value) == sentence


@given(st.text(st.characters(blacklist_categories=["Z", "C"]), min_size=1))
def test_whatever_a_password_holds_it_is_masked(password: str) -> None:
    secret = f"<{password}>"
    assert secret not in mask(f"could not connect to postgresql://app:{secret}@db/app at all")
    assert mask(f"redis://:{secret}@h/0").startswith("redis://:***@")


def test_passwords_in_parameters_are_masked_and_the_rest_stays() -> None:
    assert mask("postgresql:///x?user=a&password=p&sslmode=on") == "postgresql:///x?user=a&password=***&sslmode=on"
    assert mask("unix:///r.sock?db=0") == "unix:///r.sock?db=0"
    assert mask("postgresql://app@db:5432/x") == "postgresql://app@db:5432/x"


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("redis://app:hunter2@cache.example:6380/3", "cache.example:6380, database 3, prefix 'p:'"),
        ("redis://", f"localhost:6379 on {HERE}, database 0, prefix 'p:'"),
        ("unix://app:hunter2@/run/r.sock?db=2", f"/run/r.sock on {HERE}, database 2, prefix 'p:'"),
    ],
)
def test_the_place_of_a_redis_names_its_server_and_no_credentials(url: str, place: str) -> None:
    assert redis_place(RedisSettings.model_validate({"url": url, "prefix": "p:"})) == place


@pytest.mark.parametrize(
    ("url", "place"),
    [
        ("postgresql://app:hunter2@db:5433/shop?password=hunter2", "'shop' at db:5433"),
        ("postgresql://app@/shop?host=/tmp/pg", f"'shop' at /tmp/pg on {HERE}"),
        ("postgresql://app@one:5432,[::2]:5433/shop", "'shop' at one:5432, [::2]:5433"),
    ],
)
def test_the_place_of_a_database_names_its_server_and_no_credentials(url: str, place: str) -> None:
    assert postgres_place(PostgresSettings.model_validate({"url": url})) == f"{place}, schema 'jobconsole'"
