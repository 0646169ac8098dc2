"""What a worker was asked for, checked: every wrong value is one sentence."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence

from queue_core.errors import ConfigurationError
from queue_core.settings import Defaults
from queue_core.tasks import Duration, TaskRegistry
from queue_core.units import parse_duration
from queue_core.validation import check_name
from queue_core.worker.heartbeat import Times


def check_slots(concurrency: object) -> int:
    """Return how many jobs run at a time.

    Raises:
        ConfigurationError: no whole number of at least 1.
    """
    if isinstance(concurrency, bool) or not isinstance(concurrency, int) or concurrency < 1:
        raise ConfigurationError(f"a worker's concurrency is a whole number of at least 1, not {concurrency!r}")
    return concurrency


def queues_of(tasks: TaskRegistry, queues: object) -> tuple[str, ...]:
    """Return the queues that were named, or those of the tasks.

    Raises:
        ConfigurationError: no list of names.
    """
    if isinstance(queues, str) or not isinstance(queues, Sequence | None):
        raise ConfigurationError(f"a worker's queues are a list of names, not {queues!r}")
    try:
        return tuple(dict.fromkeys(check_name(queue, "the queue's name") for queue in queues or tasks.queues()))
    except ValueError as error:
        raise ConfigurationError(str(error)) from None


def seconds(value: Duration, what: str) -> float:
    """Return a duration in seconds.

    Raises:
        ConfigurationError: it is none; `what` names it.
    """
    try:
        return parse_duration(value)
    except ValueError as error:
        raise ConfigurationError(f"{what}: {error}") from None


def times_of(defaults: Defaults, lease: Duration | None, heartbeat: Duration | None) -> Times:
    """Return how long leases last and how often they are renewed.

    Raises:
        ConfigurationError: no durations, or a heartbeat that comes too late for the lease.
    """
    length = defaults.lease if lease is None else seconds(lease, "a worker's lease")
    if heartbeat is not None:
        interval = seconds(heartbeat, "a worker's heartbeat")
    elif lease is None:
        interval = defaults.heartbeat
    else:
        interval = length / 5
    if not 0 < interval <= length / 2:
        raise ConfigurationError(f"the heartbeat ({interval:g} s) must be at most half of the lease ({length:g} s)")
    return Times(length, interval)


def version() -> str:
    """Return this program's version."""
    try:
        return importlib.metadata.version("jobconsole")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
