"""Filters on jobs in memory; what they mean is tested over all stores in tests/conformance/test_list_filters.py."""

from datetime import UTC, datetime

import pytest

from queue_core.model.filters import Filter, Term, matches
from queue_core.model.job import NewJob
from queue_core.model.states import Status
from queue_core.stores.memory.records import JobRow


def test_a_field_that_is_none_is_refused() -> None:
    job = JobRow(NewJob("a", "work", "task", "{}"), 1, 1, Status.QUEUED, 0.0, 0.0, 0.0).view()
    assert matches(job, Filter(), datetime.now(UTC))
    for name in ("colour", "payload", "payload.", ""):
        with pytest.raises(ValueError, match="no field"):
            matches(job, Filter((Term(name, "=", "x"),)), datetime.now(UTC))
