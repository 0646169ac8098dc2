"""Databases behind a pooler; where PgBouncer is not installed these tests are skipped."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from queue_core.stores.postgres.session import connection
from tests.postgres.poolers.pooler import PGBOUNCER, pgbouncer


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    """Let this process know nothing of poolers from other tests."""
    yield
    connection._poolers.clear()
    connection._direct.clear()


@pytest.fixture
def pooled_url(postgres_url: str) -> Iterator[str]:
    """A database through PgBouncer in transaction mode, as its distribution sets it up."""
    if PGBOUNCER is None:
        pytest.skip("needs pgbouncer")
    with pgbouncer(postgres_url) as url:
        yield url


@pytest.fixture
def lenient_url(postgres_url: str) -> Iterator[str]:
    """The same, but it takes and forgets the options of a session, as many set it up."""
    if PGBOUNCER is None:
        pytest.skip("needs pgbouncer")
    with pgbouncer(postgres_url, ignore_startup_parameters="options,extra_float_digits") as url:
        yield url
