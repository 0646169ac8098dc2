"""Sentinels and a cluster, started once for a session; a test leaves them whole, with another primary perhaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from queue_core.model.settings import JobsSettings
from tests.redis_topology.rig import Cluster, Trio, started

MakeSettings = Callable[..., JobsSettings]


@pytest.fixture(scope="session")
def running_trio() -> Iterator[Trio]:
    """A primary with two replicas and three Sentinels."""
    with started(Trio) as trio:
        yield trio


@pytest.fixture
def trio(running_trio: Trio) -> Iterator[Trio]:
    """The same, whole before and after each test."""
    yield running_trio
    for one in [*running_trio.servers, *running_trio.sentinels]:
        one.revive()
    # The third is told only after 10 s whom to follow.
    running_trio.wait_whole(replicas=1)


@pytest.fixture(scope="session")
def running_cluster() -> Iterator[Cluster]:
    """Three masters with a replica each."""
    with started(Cluster) as cluster:
        yield cluster


@pytest.fixture
def cluster(running_cluster: Cluster) -> Iterator[Cluster]:
    """The same, whole before and after each test."""
    yield running_cluster
    for one in running_cluster.servers:
        one.revive()
    running_cluster.wait_whole()


@pytest.fixture
def make_settings(request: pytest.FixtureRequest, redis_prefix: str) -> MakeSettings:
    """Return settings in a mode with this address of Redis."""

    def make(mode: str, url: str, **options: Any) -> JobsSettings:
        backend: dict[str, Any] = {
            "queue_backend": "redis",
            "redis": {"url": url, "prefix": redis_prefix, **options},
        }
        if mode == "postgres+redis":
            backend["postgres"] = {"url": request.getfixturevalue("postgres_url")}
        return JobsSettings.model_validate(backend)

    return make
