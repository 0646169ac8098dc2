"""A server that demands a password where none is set: one sentence, whatever asks."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from jobconsole.embedded.servers import EmbeddedServers
from jobconsole.exporter.server import Exporter, ExporterOptions
from queue_core import JobQueue, StoreUnavailable
from queue_core.model.settings import settings_from
from queue_core.stores.postgres.migrate import migrate
from tests.cli.running import Cli
from tests.exporter.test_server import ask
from tests.redis_topology.clients import plain_client

REASON = "it demands a password; set it in jobs.redis.url"
SENTENCE = f"redis cannot be reached: {REASON}"


@pytest.fixture
def servers(own_servers: EmbeddedServers) -> Iterator[EmbeddedServers]:
    """Servers of this test alone, whose Redis demands a password."""
    with plain_client(own_servers.redis_url) as client:
        client.config_set("requirepass", "right")
        yield own_servers
        client.config_set("requirepass", "")


def test_as_the_store(servers: EmbeddedServers) -> None:
    cli = Cli({"JOBS__REDIS__URL": servers.redis_url, "JOBS__QUEUE_BACKEND": "redis"})
    for command in ("job list", "job enqueue work", "migrate", "queue list"):
        answer = cli(*command.split())
        assert (answer.code, SENTENCE in answer.err, "HELLO" in answer.err) == (3, True, False), answer.err
    assert cli("health", "--json").body["reason"] == SENTENCE
    with Exporter(settings_from(redis=servers.redis_url), ExporterOptions(port=0)) as exporter:
        answer, body = ask(exporter, "/healthz")
        assert json.loads(body)["backends"]["redis"]["reason"] == SENTENCE
    with pytest.raises(StoreUnavailable) as away, JobQueue(redis=servers.redis_url).blocking() as jobs:
        jobs.enqueue("work")
    assert str(away.value) == SENTENCE


def test_beside_a_database(servers: EmbeddedServers) -> None:
    migrate(servers.postgres_url)
    settings = settings_from(postgres=servers.postgres_url, redis=servers.redis_url)
    with JobQueue(settings=settings).blocking() as jobs:
        found = jobs.health()
        assert (found.healthy, found.reason) == (True, f"redis: {REASON}")
    with Exporter(settings, ExporterOptions(port=0)) as exporter:
        assert json.loads(ask(exporter, "/healthz")[1])["backends"]["redis"]["reason"] == REASON
