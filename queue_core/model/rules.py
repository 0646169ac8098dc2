"""The rules of a queue: how much may wait in it, in which order and how fast it is worked on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from enum import IntEnum
from typing import Annotated, Literal, NamedTuple, TypedDict
from zlib import crc32

from pydantic import BeforeValidator, Field, ValidationError

from queue_core.errors import ConfigurationError, InvalidJob
from queue_core.model.validation import ALL_QUEUES, Duration, SettingsModel, first_problem

MIN_PRIORITY, MAX_PRIORITY = -128, 127
SEQUENCE_BITS = 45
"""35 trillion jobs per store; with 8 bits of priority a rank stays below 2^53, exact in a double."""


class Priority(IntEnum):
    """Named priorities; any integer from -128 to 127 is valid, higher is sooner."""

    LOW = 0
    NORMAL = 5
    HIGH = 10
    URGENT = 20


PriorityName = Literal["low", "normal", "high", "urgent"]
"""The names of priorities as texts."""
BANDS = ("high", "normal", "low")


def band(priority: int) -> str:
    """Return the band of a priority: high (10 and above), normal (5 to 9) or low (below 5)."""
    if priority >= Priority.HIGH:
        return "high"
    return "normal" if priority >= Priority.NORMAL else "low"


def rank(priority: int, sequence: int) -> int:
    """Return the order of a job in its queue: priority first, then arrival; lower ranks run first."""
    return (MAX_PRIORITY - priority) << SEQUENCE_BITS | sequence


def parse_priority(value: object) -> int:
    """Return the number of a priority given as a number or as one of the words low, normal, high, urgent.

    Raises:
        InvalidJob: neither a whole number from -128 to 127 nor one of the words.
    """
    if isinstance(value, str):
        word = value.strip().upper()
        if word in Priority.__members__:
            return int(Priority[word])
        try:
            value = int(word)
        except ValueError:
            value = None
    if isinstance(value, bool) or not isinstance(value, int) or not MIN_PRIORITY <= value <= MAX_PRIORITY:
        raise InvalidJob(
            f"priority must be a whole number from {MIN_PRIORITY} to {MAX_PRIORITY}, or low, normal, high or urgent"
        )
    return int(value)


FIFO_KEY = "fifo"
"""The one ordering key of all jobs of a FIFO queue."""
SHARD_PREFIX = "shard-"
"""Begins the ordering key that a queue with shards makes of a given one; the number of the shard follows."""
LONGEST_AGING = 86400.0
"""Seconds. Whole microseconds since 2020, moved by 255 steps of this, stay below 2^53, the last whole number that a
Redis score keeps, for two centuries."""
AGING_EPOCH_US = 1_577_836_800_000_000
"""The start of 2020 in microseconds since the epoch, from which the ranks of a queue with aging are counted."""

_RATE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*/\s*(s|m|h|d)\s*")
_PERIODS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_rate(value: object) -> float | None:
    """Return the starts a second in 100, "100/s", "90/m", "1000/h" or "500/d"; None stays None.

    Raises:
        ValueError: none of these, or not positive.
    """
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        rate = float(value)
    elif isinstance(value, str) and (match := _RATE.fullmatch(value.lower())):
        rate = float(match.group(1)) / _PERIODS[match.group(2)]
    else:
        raise ValueError(f"{value!r} is no rate; write for example 100/s, 90/m or 1000/h")
    if not 0 < rate < float("inf"):
        raise ValueError(f"a rate is more than 0: {value!r}")
    return rate


def parse_moment(text: str) -> datetime:
    """Return the moment of an ISO text with its time zone, as in 2030-01-31T09:00:00+01:00.

    Raises:
        ValueError: it is none, or has no time zone.
    """
    try:
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is not None:
            moment.astimezone(UTC)
    except (ValueError, OverflowError):  # the first and the last hours of the calendar are none everywhere
        raise ValueError(f"'{text}' is no time; write it as in 2030-01-31T09:00:00+01:00") from None
    if moment.tzinfo is None:
        raise ValueError(f"'{text}' has no time zone; add one, as in {moment.isoformat()}Z")
    return moment


MAX_COUNT = 2**31 - 1
"""What an integer of a database holds."""
Most = Annotated[int | None, Field(ge=0, le=MAX_COUNT)]
Rate = Annotated[float | None, BeforeValidator(parse_rate)]
"""Starts a second."""


class BandLimits(SettingsModel):
    """How many jobs may wait in each band of priority."""

    high: Most = None
    normal: Most = None
    low: Most = None


class QueueRules(SettingsModel):
    """The settings of one queue; every process that uses the queue must be given the same."""

    # waiting jobs (scheduled, queued, retrying) above which enqueues are refused
    limit: Most = None
    band_limits: BandLimits = BandLimits()
    # seconds that a refused producer is asked to wait
    retry_after: Duration = 60.0
    # seconds of waiting that count like one step of priority; 0: strict priorities
    aging: Annotated[Duration, Field(le=LONGEST_AGING)] = 0.0
    # all jobs in one order, one at a time
    fifo: bool = False
    # a dead job holds up its ordering key until it is retried or deleted
    dead_blocks_key: bool = False
    # jobs running at a time, over all workers
    concurrency: Annotated[int | None, Field(ge=1, le=MAX_COUNT)] = None
    # jobs of one ordering key running at a time
    key_concurrency: Annotated[int, Field(ge=1, le=MAX_COUNT)] = 1
    # starts a second over all workers, with a burst of one second
    rate: Rate = None
    # the end of each job, with its result, is published on a channel of its own
    publish_results: bool = False
    # ordering keys are spread by hash over this many; 1: each key is its own
    shards: Annotated[int, Field(ge=1, le=65536)] = 1

    def over(self, base: QueueRules) -> QueueRules:
        """Return these rules, with what they leave out taken from others; band by band in `band_limits`."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        if "band_limits" in given:
            bands = {name: getattr(self.band_limits, name) for name in self.band_limits.model_fields_set}
            given["band_limits"] = base.band_limits.model_copy(update=bands)
        return base.model_copy(update=given)

    @property
    def limits(self) -> dict[str, int]:
        """The limits that are set, by band; the empty text is the whole queue."""
        bands = self.band_limits
        limits = {"": self.limit, "high": bands.high, "normal": bands.normal, "low": bands.low}
        return {band: most for band, most in limits.items() if most is not None}

    @property
    def locks_enqueues(self) -> bool:
        """Whether enqueues into the queue wait for each other, since they are counted, or their arrivals are."""
        return bool(self.limits or self.aging)

    @property
    def limits_claims(self) -> bool:
        """Whether a claim is limited by what runs already or by the time."""
        return self.concurrency is not None or self.rate is not None

    @property
    def aging_us(self) -> int:
        """Microseconds of waiting that count like one step of priority; 0: strict priorities."""
        return round(self.aging * 1_000_000)

    @property
    def open_keys(self) -> int:
        """How many jobs of one ordering key may be under way at a time."""
        return 1 if self.fifo else self.key_concurrency

    def key_of(self, given: str | None) -> str | None:
        """Return the ordering key that a job is stored with, decided once at enqueue."""
        if self.fifo:
            return FIFO_KEY
        if given is None or self.shards <= 1 or self._is_shard(given):
            return given
        return f"{SHARD_PREFIX}{crc32(given.encode()) % self.shards}"

    def _is_shard(self, key: str) -> bool:
        """Who makes a job like another one hands in the key that the first was stored with: it must stay that one."""
        number = key.removeprefix(SHARD_PREFIX)
        return key.startswith(SHARD_PREFIX) and number.isdecimal() and int(number) < self.shards

    def burst(self) -> float:
        """Return how many starts may be saved up by a rate."""
        return max(1.0, self.rate or 0.0)


class QueueArguments(TypedDict, total=False):
    """The rules of a queue as keyword arguments; see `QueueRules`."""

    limit: int | None
    band_limits: Mapping[str, int | None]
    retry_after: float | str
    aging: float | str
    fifo: bool
    dead_blocks_key: bool
    concurrency: int | None
    key_concurrency: int
    rate: float | str | None
    publish_results: bool
    shards: int


NO_RULES = QueueRules()
Rules = Mapping[str, QueueRules]
"""By the queue's name; a queue that is not in it has no rules."""


class RulesForAll(dict[str, QueueRules]):
    """Rules where each queue has some: a queue is in it from its first mention on.

    Statements take the names of all queues with a rule from here, so a store mentions each queue that it reads of.
    """

    def __init__(self, own: Rules, every: QueueRules) -> None:
        super().__init__({name: rules.over(every) for name, rules in own.items() if name != ALL_QUEUES})
        self._every = every

    def __missing__(self, queue: str) -> QueueRules:
        found = self[queue] = self._every
        return found

    def get(self, queue: str, default: object = None) -> QueueRules:
        """Return the rules of a queue, which is in this mapping from now on."""
        return self[queue]

    def __contains__(self, queue: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return True


def rules_from(queue: str, given: Mapping[str, object]) -> QueueRules:
    """Return rules that a program gives by name.

    Raises:
        ConfigurationError: there is no such rule, or it cannot have this value.
    """
    if unknown := sorted(given.keys() - QueueRules.model_fields.keys()):
        known = ", ".join(sorted(QueueRules.model_fields))
        raise ConfigurationError(f"queue '{queue}': there is no rule '{unknown[0]}'; there are {known}")
    try:
        return QueueRules.model_validate(given)
    except ValidationError as error:
        path, problem = first_problem(error)
        raise ConfigurationError(f"queue '{queue}': {'.'.join(path)}: {problem}") from None


def resolve(given: Rules) -> Rules:
    """Return the rules of each queue from rules as they were given, among which may be some for all queues."""
    every = given.get(ALL_QUEUES)
    return given if every is None else RulesForAll(given, every)


def mention(rules: Rules, queues: Iterable[str]) -> None:
    """Have these queues in the rules, if there are some for all queues."""
    if isinstance(rules, RulesForAll):
        for queue in queues:
            rules.get(queue)


def rules_of(rules: Rules, queue: str) -> QueueRules:
    """Return the rules of a queue."""
    return rules.get(queue, NO_RULES)


def key_in(rules: Rules, target: str, source: str, key: str | None) -> str | None:
    """Return the ordering key that a job has when it comes from one queue into another one.

    The key of a FIFO queue is that queue's and stays behind; any other one goes with the job, under the target's rules.
    """
    own = None if rules_of(rules, source).fifo else key
    return key if target == source else rules_of(rules, target).key_of(own)


def aged_rank(priority: int, arrival_us: int, aging_us: int) -> int:
    """Return the order of a job in a queue with aging: its arrival, put off by a step for each priority it is lower.

    So a job is overtaken only by those that arrive within (their priority - its own) × `aging` after it, which bounds
    its wait. `arrival_us` is microseconds since the epoch.
    """
    return max(0, arrival_us - AGING_EPOCH_US) + (MAX_PRIORITY - priority) * aging_us


class Room(NamedTuple):
    """What a worker has room for."""

    # jobs
    most: int
    # of which so many begin at once, and the others wait for a slot
    starting: int


AHEAD_SECONDS = 0.5
"""A job of a queue with a rate that waits longer than this for a slot of its worker is given back: it took its token at
its claim, and a rate counts starts."""


class Allowance(NamedTuple):
    """What may be claimed of a queue whose claims are limited."""

    # jobs
    most: int
    # of which so many begin at once
    starting: int
    # the rate's tokens before this claim
    tokens: float
    # the same, where jobs are among those claimed that do not begin at once
    tokens_ahead: float

    def left(self, claimed: int) -> float:
        """Return the rate's tokens after a claim of so many jobs."""
        return (self.tokens if claimed <= self.starting else self.tokens_ahead) - claimed


def allowance(rules: QueueRules, room: Room, running: int, tokens: float, passed: float) -> Allowance:
    """Return what may be claimed when so many jobs run and `passed` seconds have gone since there were so many tokens.

    With a concurrency, all that is claimed begins at once. A rate lets jobs be claimed ahead of their start as long as
    its tokens suffice without what it gains while these wait: so no more jobs start in any time than it allows.
    """
    at_once = min(room)
    if rules.concurrency is not None:
        at_once = max(0, min(at_once, rules.concurrency - running))
    if rules.rate is None:
        return Allowance(at_once, at_once, tokens, tokens)
    tokens = min(rules.burst(), tokens + max(0.0, passed) * rules.rate)
    # A token that is there but for rounding is there.
    at_once = min(at_once, int(tokens + 1e-9))
    ahead = min(tokens, rules.burst() - rules.rate * AHEAD_SECONDS)
    if rules.concurrency is None and int(ahead) > at_once:
        return Allowance(min(room.most, int(ahead)), at_once, tokens, ahead)
    return Allowance(at_once, at_once, tokens, tokens)
