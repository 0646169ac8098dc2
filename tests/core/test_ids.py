"""The ids that producers give their jobs."""

from __future__ import annotations

from uuid import RFC_4122, UUID

import pytest

from queue_core.client.joblist import new_ids
from queue_core.model.job import new_id


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_ids_made_together_are_those_of_one_alone(count: int) -> None:
    """UUIDv7 in their canonical form, all different, of the moment."""
    before, ids, after = new_id(), new_ids(count), new_id()
    assert len(set(ids)) == count
    for one in ids:
        read = UUID(one)
        assert (str(read), read.version, read.variant) == (one, 7, RFC_4122)
        assert before[:13] <= one[:13] <= after[:13]
