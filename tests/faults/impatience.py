"""Settings of the fault tests: servers that do not answer are given up sooner than usual, to keep the tests short."""

from __future__ import annotations

from queue_core.model.settings import JobsSettings, PostgresSettings, RedisSettings

POSTGRES_SECONDS = 4.0
REDIS_SECONDS = 1.0


def settings(postgres_url: str, redis_url: str, prefix: str) -> JobsSettings:
    """Return the settings of producers and workers."""
    return JobsSettings(
        queue_backend="redis",
        postgres=PostgresSettings.model_validate({"url": postgres_url, "timeout": POSTGRES_SECONDS}),
        redis=RedisSettings.model_validate({"url": redis_url, "prefix": prefix, "timeout": REDIS_SECONDS}),
    )
