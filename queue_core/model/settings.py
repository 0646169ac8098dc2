"""The settings of a job queue: one validated model. Where the values come from is in queue_core.configuration."""

from __future__ import annotations

import os
import re
import warnings
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    PrivateAttr,
    SecretStr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from queue_core.errors import ConfigurationError, InvalidJob
from queue_core.model.addresses import check_postgres_url, check_redis_url, join_redis_urls, mask, path_of
from queue_core.model.rules import QueueRules, Rules, resolve
from queue_core.model.triage.release import parse_release
from queue_core.model.triage.rules import TriageSettings
from queue_core.model.validation import MAX_DELAY_SECONDS, Duration, Retention, SettingsModel, Size, check_name


def _postgres_url(value: SecretStr) -> SecretStr:
    return SecretStr(check_postgres_url(value.get_secret_value()))


def _one_url(value: object) -> object:
    """Join a list of addresses; a text stays as it is."""
    if not isinstance(value, list | tuple):
        return value
    texts = [one.get_secret_value() if isinstance(one, SecretStr) else one for one in value]
    if not all(isinstance(one, str) for one in texts):
        raise ValueError("a list of Redis addresses has texts alone")
    return join_redis_urls(texts)


def _redis_url(value: SecretStr) -> SecretStr:
    return SecretStr(check_redis_url(value.get_secret_value()))


def _masked(value: SecretStr) -> str:
    return mask(value.get_secret_value())


def _sqlite_path(value: object) -> str:
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else value
    if not isinstance(path, str) or not path or "\0" in path:
        raise ValueError("the path of the SQLite file is a text that is not empty")
    if path == ":memory:" or path.startswith("file:"):
        raise ValueError("SQLite needs the path of a file that processes share; queue_backend 'memory' keeps no file")
    try:
        path_of(path)
    except ConfigurationError as error:
        raise ValueError(str(error)) from None
    return path


def _prefix(value: object) -> str:
    text = str(value)
    if "{" in text or "}" in text:
        raise ValueError("a prefix cannot contain { or }: the queue's name stands in braces, as the hash tag")
    if not text.isprintable() or text.strip() != text:
        raise ValueError("a prefix cannot contain unseen characters, nor begin or end with a blank")
    return text.rstrip(":") + ":" if text.rstrip(":") else ""


def _schema(value: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_]{0,62}", value):
        raise ValueError("a schema's name is made of a to z, 0 to 9 and _, not with a digit first, 63 at most")
    if value.startswith("pg_") or value in ("public", "information_schema"):
        raise ValueError(f"the schema '{value}' is PostgreSQL's, as all of pg_ are; name one for the queue alone")
    return value


def _release(value: object) -> str | None:
    return None if value is None or value == "" else parse_release(value)


def _queue_name(value: str) -> str:
    try:
        return check_name(value, "the queue's name")
    except InvalidJob as error:
        raise ValueError(str(error)) from None


Prefix = Annotated[str, BeforeValidator(_prefix)]
PostgresUrl = Annotated[SecretStr, AfterValidator(_postgres_url), PlainSerializer(_masked, when_used="json")]
"""A checked URL; its password is masked in every form but `get_secret_value()`."""
RedisUrl = Annotated[
    SecretStr, BeforeValidator(_one_url), AfterValidator(_redis_url), PlainSerializer(_masked, when_used="json")
]
"""A checked URL; its password is masked in every form but `get_secret_value()`."""
SchemaName = Annotated[str, AfterValidator(_schema)]
SqlitePath = Annotated[str, BeforeValidator(_sqlite_path)]
QueueName = Annotated[str, AfterValidator(_queue_name)]
ReleaseName = Annotated[str | None, BeforeValidator(_release)]


SCHEMA = "jobconsole"
"""The PostgreSQL schema of a queue that names none."""

LONGEST_TIMEOUT = 86_400.0
"""Seconds, a day: servers and drivers take no time that is much longer."""

with warnings.catch_warnings():
    # `schema` is what PostgreSQL calls it; pydantic's own method of that name is deprecated and not used here.
    warnings.filterwarnings("ignore", 'Field name "schema"', UserWarning)

    class PostgresSettings(SettingsModel):
        url: PostgresUrl | None = None
        # in which all tables are; two schemas of a database are two queues that do not see each other
        schema: SchemaName = SCHEMA  # type: ignore[assignment]
        # LISTEN needs a direct connection where `url` leads through a pooler in transaction mode
        listen_url: PostgresUrl | None = None
        # seconds to wait for a connection or an answer before StoreUnavailable
        timeout: Duration = Field(default=10.0, gt=0, le=LONGEST_TIMEOUT)
        # the most connections of one process's shared pool, and of its handlers' own transactions
        pool: int = Field(default=8, ge=2, le=100)
        # False where a pooler in transaction mode cannot keep prepared statements
        prepare: bool = True
        _reads_alone: bool = PrivateAttr(default=False)

        @property
        def reads_alone(self) -> bool:
            """Whether they are of a program that writes nothing: a role and a server that are read-only will do."""
            return self._reads_alone

        def for_reading(self) -> Self:
            """Return the same settings for a program that writes nothing."""
            copy = self.model_copy()
            copy._reads_alone = True
            return copy


class RedisSettings(SettingsModel):
    # of one server, of Sentinels or of nodes of a cluster; these may be a list
    url: RedisUrl | None = None
    prefix: Prefix = "jobs:"
    # seconds to wait for an answer before going on without Redis
    timeout: Duration = Field(default=2.0, gt=0, le=LONGEST_TIMEOUT)
    # replicas that have a job before its enqueue returns, in mode redis; 0 waits for none
    min_replicas: int = Field(default=0, ge=0, le=10)


class SqliteSettings(SettingsModel):
    # beside the file SQLite keeps two more, with -wal and -shm behind its name; all three belong together
    path: SqlitePath = "jobs.db"
    # seconds to wait for the file's lock or an answer before StoreUnavailable
    timeout: Duration = Field(default=10.0, gt=0, le=LONGEST_TIMEOUT)


SHORTEST_LEASE = 1.0
"""Seconds: a worker whose event loop or store is busy for a moment does not renew shorter ones in time, and jobs that
run well count as lost."""


class Defaults(SettingsModel):
    max_retries: int = Field(default=3, ge=0, le=1000)
    retry_delay: Duration = 5.0
    retry_backoff: float = Field(default=2.0, ge=1.0, le=100.0)
    retry_cap: Duration = 3600.0
    # 0 to 1: the part of a delay that is random
    retry_jitter: float = Field(default=0.0, ge=0.0, le=1.0)
    timeout: Duration = 300.0
    lease: Duration = Field(default=300.0, ge=SHORTEST_LEASE, le=MAX_DELAY_SECONDS)
    # a fifth of the lease where it is left out
    heartbeat: Duration = Field(default=60.0, gt=0)
    # losses of its workers after which a job is buried although it was not seen to be to blame
    max_losses: int = Field(default=20, ge=1, le=1000)
    # how long an event loop may be blocked before its worker gives back what has not started
    stall: Duration = 10.0
    # child processes of a worker at a time for jobs that run alone, and as many for tasks with `process=True`;
    # None: one for each processor, at least 4 and 2
    children: int | None = Field(default=None, ge=1, le=1000)

    @field_validator("heartbeat")
    @classmethod
    def _renews_in_time(cls, value: float, info: ValidationInfo) -> float:
        lease = info.data.get("lease")
        if lease is not None and value > lease / 2:
            raise ValueError(f"the heartbeat ({value:g} s) must be at most half of jobs.defaults.lease ({lease:g} s)")
        return value

    @model_validator(mode="after")
    def _follow_the_lease(self) -> Self:
        if "heartbeat" not in self.model_fields_set:
            object.__setattr__(self, "heartbeat", self.lease / 5)  # frozen, but for its own validation
        return self


class RetentionSettings(SettingsModel):
    # a day in mode redis
    completed: Retention = 7 * 86400.0
    dead: Retention = None
    trash: Retention = 30 * 86400.0
    results: Retention = 86400.0
    # operations that have ended: the record of who did what
    operations: Retention = 90 * 86400.0


class Limits(SettingsModel):
    payload: Size = 1 << 20
    result: Size = 1 << 20
    traceback: Size = 64 << 10


class JobsSettings(SettingsModel):
    """Everything that `JobQueue` needs to know."""

    queue_backend: Literal["redis", "postgres", "sqlite", "memory"] = "postgres"
    # of the program, which its workers announce, such as "r124"; None: unknown
    release: ReleaseName = None
    postgres: PostgresSettings = PostgresSettings()
    redis: RedisSettings = RedisSettings()
    sqlite: SqliteSettings = SqliteSettings()
    defaults: Defaults = Defaults()
    retention: RetentionSettings = RetentionSettings()
    limits: Limits = Limits()
    # by the queue's name, as they were given; * has those for all queues. `rules` has what holds
    queues: dict[QueueName, QueueRules] = Field(default_factory=dict)
    # who owns which error signatures, and what to do about them
    triage: TriageSettings = TriageSettings()

    @model_validator(mode="after")
    def _keep_less_in_memory(self) -> Self:
        """Redis alone keeps everything in memory: finished jobs go after a day, unless something else is set."""
        if self.mode == "redis" and "completed" not in self.retention.model_fields_set:
            shorter = self.retention.model_copy(update={"completed": 86400.0})
            object.__setattr__(self, "retention", shorter)  # frozen, but for its own validation
        return self

    @property
    def rules(self) -> Rules:
        """The rules that hold for each queue."""
        return resolve(self.queues)

    @property
    def mode(self) -> str:
        """`postgres+redis`, `postgres`, `redis`, `sqlite` or `memory`."""
        if self.queue_backend == "redis" and self.postgres.url is not None:
            return "postgres+redis"
        return self.queue_backend

    @property
    def store_timeout(self) -> float:
        """Seconds that a call waits for the store of this mode."""
        chosen = {"sqlite": self.sqlite.timeout, "redis": self.redis.timeout}
        return chosen.get(self.mode, self.postgres.timeout)

    def masked(self) -> dict[str, Any]:
        """Return the settings as plain values with passwords masked."""
        return self.model_dump(mode="json")


def settings_from(
    *,
    postgres: str | None = None,
    schema: str | None = None,
    redis: str | None = None,
    prefix: str | None = None,
    sqlite: str | os.PathLike[str] | None = None,
    memory: bool = False,
) -> JobsSettings:
    """Return settings made from addresses alone.

    Raises:
        ConfigurationError: no address, one that cannot be understood, or addresses of two stores.
    """
    if not (postgres or redis or memory or sqlite is not None):
        raise ConfigurationError(
            "a JobQueue needs addresses: postgres=… and redis=…, or sqlite=…, or memory=True, or settings=…"
        )
    if sqlite is not None and (postgres or redis or memory):
        raise ConfigurationError("sqlite=… is a store of its own: give it without postgres=…, redis=… and memory=True")
    backend = "sqlite" if sqlite is not None else "memory" if memory else "redis" if redis else "postgres"
    named = {} if schema is None else {"schema": schema}
    try:
        return JobsSettings(
            queue_backend=backend,  # type: ignore[arg-type]
            postgres=PostgresSettings.model_validate({"url": postgres, **named}),
            redis=RedisSettings.model_validate({"url": redis, **({} if prefix is None else {"prefix": prefix})}),
            sqlite=SqliteSettings.model_validate({} if sqlite is None else {"path": sqlite}),
        )
    except ValidationError as error:
        raise ConfigurationError(error.errors()[0]["msg"].removeprefix("Value error, ")) from None


def with_release(settings: JobsSettings, release: str) -> JobsSettings:
    """Return the settings with another release.

    Raises:
        ConfigurationError: its name cannot be.
    """
    try:
        return settings.model_copy(update={"release": parse_release(release)})
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
