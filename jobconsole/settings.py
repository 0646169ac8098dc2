"""The settings of console, command line and exporter: a job queue's, plus the context that is displayed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, SecretStr

from jobconsole.configuration import ConsoleConfiguration, load
from queue_core.configuration import read_block
from queue_core.errors import ConfigurationError
from queue_core.model.addresses import path_of
from queue_core.model.settings import JobsSettings
from queue_core.model.validation import Duration, SettingsModel

if TYPE_CHECKING:
    from queue_core.queue import JobQueue

Colour = Literal["red", "orange", "yellow", "green", "cyan", "blue", "magenta", "grey"]


class Alerts(SettingsModel):
    """For what the console rings the bell and notifies: the values from which on; what is left out never does."""

    # jobs in the DLQ
    dead: int | None = Field(default=None, ge=1)
    # deaths within the console's time window, at most an hour
    deaths: int | None = Field(default=None, ge=1)
    # ready jobs
    queued: int | None = Field(default=None, ge=1)
    # age of the oldest ready job
    oldest: Duration | None = None
    lost_workers: int | None = Field(default=None, ge=1)
    # also for signatures that are new, that came back, or whose mute ended because they grew
    signatures: bool = True
    bell: bool = True
    # by OSC 9 and OSC 777, which many terminals show on the desktop
    notify: bool = True


class Context(SettingsModel):
    """A named place to look at, such as staging or prod; its `jobs:` block is applied by `jobconsole.configuration`."""

    beside: ClassVar[tuple[str, ...]] = ("jobs",)
    # refuse everything that changes jobs
    read_only: bool = False
    # of the header
    colour: Colour | None = None
    # the word in the header; the context's name in capitals when left out
    word: str | None = None
    alerts: Alerts = Alerts()


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """What a front end needs to know."""

    jobs: JobsSettings
    # None: no context was chosen
    context: str | None = None
    read_only: bool = False
    colour: str | None = None
    word: str = ""
    alerts: Alerts = field(default_factory=Alerts)
    # the console's own configuration file, or None
    source: Path | None = None
    # every context of the file
    contexts: Mapping[str, Context] = field(default_factory=dict)
    # the variables that programs need for the same settings; None: they read the same by themselves
    handed_down: Mapping[str, str] | None = field(default=None, repr=False)
    # the address of the store was given by the caller: then no context can be meant by mistake
    addressed: bool = False

    @property
    def unnamed(self) -> str:
        """Why a change asks first: several contexts are configured, and none was named; "" when it need not."""
        if self.context is not None or self.addressed or len(self.contexts) < 2:
            return ""
        return f"{len(self.contexts)} contexts are configured and none was named"

    @property
    def target(self) -> str:
        """What a change reaches: the context and the servers, without passwords."""
        jobs = self.jobs
        servers: list[str] = []
        if jobs.mode == "sqlite":
            servers = [f"file {jobs.sqlite.path}"]
        if "postgres" in jobs.mode and jobs.postgres.url is not None:
            servers.append(f"{_place(jobs.postgres.url.get_secret_value())} schema {jobs.postgres.schema}")
        if "redis" in jobs.mode and jobs.redis.url is not None:
            servers.append(f"{_place(jobs.redis.url.get_secret_value())} prefix {jobs.redis.prefix}")
        named = ", ".join(servers)
        return f"{self.context} ({named})" if self.context else named


def _place(url: str) -> str:
    """Return an address without credentials and options."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.rpartition('@')[2].partition('?')[0]}"


def read_settings(
    path: str | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    context: str | None = None,
    read_only: bool = False,
) -> ConsoleSettings:
    """Return the settings in a context (`context`, else JOBCONSOLE_CONTEXT, else none).

    Raises:
        ConfigurationError: as `jobconsole.configuration.load`, and for a context that is unknown or malformed.
    """
    loaded = load(path, environ, overrides, context)
    _check_named_servers((overrides or {}).get("jobs", {}), loaded.settings.mode)
    contexts = {key: _context(loaded, key) for key in loaded.contexts}
    named = (overrides or {}).get("jobs", {})
    store = "redis" if loaded.settings.mode == "redis" else "postgres"
    settings = ConsoleSettings(
        loaded.settings,
        read_only=read_only,
        source=loaded.source,
        contexts=contexts,
        handed_down=loaded.handed_down,
        addressed=bool(named.get(store, {}).get("url")),
    )
    if loaded.context is None:
        return settings
    chosen = contexts[loaded.context]
    return replace(
        settings,
        context=loaded.context,
        read_only=read_only or chosen.read_only,
        colour=chosen.colour,
        word=loaded.context.upper() if chosen.word is None else chosen.word,
        alerts=chosen.alerts,
    )


def _check_named_servers(named: Mapping[str, Any], mode: str) -> None:
    """Refuse a server that was named for this call, where the configured mode would not look at it.

    What was meant for that server would otherwise be done to a local file.
    """
    for block, server in (("postgres", "PostgreSQL"), ("redis", "Redis")):
        if mode in {"sqlite", "memory"} and named.get(block, {}).get("url"):
            raise ConfigurationError(
                f"an address of {server} was given, and jobs.queue_backend is '{mode}', which uses none: "
                "leave the address out, or set JOBS__QUEUE_BACKEND to redis or postgres"
            )


def _context(loaded: ConsoleConfiguration, name: str) -> Context:
    raw = loaded.contexts[name] or {}
    if not isinstance(raw, dict):
        raise ConfigurationError(f"{loaded.source}: contexts.{name}: must be a block of keys, not a single value")
    own = {key: value for key, value in raw.items() if key != "jobs"}
    return read_block(str(loaded.source), Context, own, ("contexts", str(name)))


def every_context(settings: ConsoleSettings, path: str | None = None) -> dict[str, ConsoleSettings]:
    """Return the settings in each context of the file; addresses that were given for one call are not applied.

    Raises:
        ConfigurationError: one of them is malformed.
    """
    return {name: read_settings(path, context=name) for name in settings.contexts}


def opener_of(settings: ConsoleSettings) -> Callable[[], JobQueue]:
    """Return what makes the queue of the settings, and raises `ConfigurationError` where none can be made."""
    return lambda: queue_of(replace(settings, read_only=True))


BY_OPTIONS = "give --postgres-url and --redis-url"
"""How the command line takes addresses."""


def queue_of(settings: ConsoleSettings, advice: str = BY_OPTIONS) -> JobQueue:
    """Return the unopened queue of the settings.

    Raises:
        ConfigurationError: no servers are configured, or their mode cannot be used from outside.
    """
    check_servers(settings, advice)
    from queue_core.queue import JobQueue

    return JobQueue.from_settings(to_read(settings.jobs) if settings.read_only else settings.jobs)


def to_read(jobs: JobsSettings) -> JobsSettings:
    """Return the settings with addresses of PostgreSQL that lead to a standby, too, and to a role that may only read.

    Of several servers the one that can be written is wanted still, for it has the latest; where none can, the primary.
    """
    from psycopg import ProgrammingError
    from psycopg.conninfo import conninfo_to_dict

    wanted = {}
    for name, secret in (("url", jobs.postgres.url), ("listen_url", jobs.postgres.listen_url)):
        url = "" if secret is None else secret.get_secret_value()
        # One that cannot be read is reported when it is opened.
        with suppress(ProgrammingError):
            given = conninfo_to_dict(url)
            if url and "target_session_attrs" not in given and "," not in str(given.get("host", "")):
                wanted[name] = SecretStr(f"{url}{'&' if '?' in url else '?'}target_session_attrs=any")
    return jobs.model_copy(update={"postgres": jobs.postgres.model_copy(update=wanted).for_reading()})


def check_servers(settings: ConsoleSettings, advice: str = BY_OPTIONS) -> None:
    """Find out whether a queue can be made of the settings, without the drivers that making it loads.

    `advice`: how to give the addresses.

    Raises:
        ConfigurationError: no servers are configured, or their mode cannot be used from outside.
    """
    jobs = settings.jobs
    if jobs.mode == "memory":
        raise ConfigurationError("queue_backend 'memory' lives inside one process, where no command can reach it")
    if settings.read_only and jobs.mode == "sqlite" and not path_of(jobs.sqlite.path).exists():
        # Opening it would make it, with nothing in it.
        raise ConfigurationError(f"there is no file '{jobs.sqlite.path}' (jobs.sqlite.path)")
    if jobs.mode != "sqlite" and jobs.postgres.url is None and jobs.redis.url is None:
        if settings.contexts and settings.context is None:
            names = ", ".join(sorted(settings.contexts))
            raise ConfigurationError(
                f"no servers are configured outside of the contexts; give --context with one of: {names}"
            )
        raise ConfigurationError(
            f"no servers are configured: {advice}, set JOBS__POSTGRES__URL and JOBS__REDIS__URL, "
            "or write them into jobs.yaml ('jobconsole demo' needs none)"
        )
    if "postgres" in jobs.mode and jobs.postgres.url is None:
        raise ConfigurationError("jobs.postgres.url is not set")
    if "redis" in jobs.mode and jobs.redis.url is None:
        raise ConfigurationError("jobs.redis.url is not set")
