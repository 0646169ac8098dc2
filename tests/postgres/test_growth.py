"""Counting the dead jobs that match a filter, and their growth, is one look at them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import psycopg
import pytest

from queue_core.model.filters import parse
from queue_core.model.settings import PostgresSettings
from queue_core.stores.postgres.session.pool import ConnectionPool
from queue_core.stores.postgres.statistics.totals import signatures


class Kept:
    """Keeps a query instead of asking it."""

    settings = PostgresSettings()

    async def rows(self, query: bytes, params: dict[str, Any]) -> list[object]:
        """Return nothing."""
        self.query, self.params = query, params
        return []


def looks(node: dict[str, Any]) -> Iterator[str]:
    """Yield a word for each look at the dead jobs, but for those that find a sample of each group."""
    if node.get("Relation Name") == "jobs_dead":
        yield node["Node Type"]
    for child in node.get("Plans", ()):
        if not child.get("Subplan Name", "").startswith("SubPlan"):
            yield from looks(child)


@pytest.mark.parametrize("window", [60.0, 86400.0])
@pytest.mark.parametrize("text", ["", "sig:aa queue:mail", "type:x", "err:~smtp", "payload.n=7", "smtp", "age:<1h"])
async def test_growth_takes_no_look_of_its_own(postgres_url: str, text: str, window: float) -> None:
    kept = Kept()
    await signatures(cast("ConnectionPool", kept), parse(text), window, 6, 500)
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        explain = b"EXPLAIN (FORMAT JSON) " + kept.query
        ((plan,),) = connection.execute(explain, kept.params).fetchall()
    assert len(list(looks(plan[0]["Plan"]))) == 1
