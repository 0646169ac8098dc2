"""Where replicas have to have each job, one that they do not have is not acknowledged."""

from __future__ import annotations

import pytest

from queue_core import JobQueue
from queue_core.errors import StoreUnavailable
from queue_core.model.settings import JobsSettings


async def test_a_job_that_no_replica_has_is_refused_although_it_was_written(redis_url: str, redis_prefix: str) -> None:
    redis = {"url": redis_url, "prefix": redis_prefix, "timeout": "1s", "min_replicas": 1}
    settings = JobsSettings.model_validate({"queue_backend": "redis", "redis": redis})
    async with JobQueue(settings=settings) as jobs:
        with pytest.raises(StoreUnavailable):  # the server has to learn the script first
            await jobs.enqueue("task")
        with pytest.raises(StoreUnavailable, match="NOREPLICAS only 0 of 1 replicas have what was written"):
            await jobs.enqueue("task")
        assert await jobs.count("type:task") == 2
