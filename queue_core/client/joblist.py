"""Building jobs: options are checked, payloads become JSON text, and each job has its id. Nothing is written here."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from queue_core.client.tasks import EnqueueOptions
from queue_core.errors import InvalidJob
from queue_core.model.codec import encode_payload
from queue_core.model.job import NO_HEADERS, NewJob, new_id, random_source, weight_of
from queue_core.model.rules import Priority, parse_priority, rules_of
from queue_core.model.settings import JobsSettings
from queue_core.model.validation import (
    check_delay,
    check_headers,
    check_key,
    check_max_retries,
    check_name,
    check_queue_name,
    check_run_at,
    check_tags,
)
from queue_core.runtime import ENCODED_AT_ONCE, MAX_STATEMENT_LENGTH, Pacing

PAYLOADS_PER_CHECK = 16
"""Payloads that are encoded before their sizes are checked."""
PART_JOBS = 350
"""Jobs of a long list that are built while the store writes those before them: it begins after a third of 1,000."""
MAX_PART_SECONDS = 0.1
"""Seconds in which a part is built: the store waits for it in an open transaction, which its server ends after 1 s."""

_new = tuple.__new__
_Checked = tuple[str, tuple[Any, ...], dict[str, str]]
"""A queue, priority to tags as a job has them, and headers."""
Dump = Callable[[Sequence[Mapping[str, Any]]], Sequence[Mapping[str, Any]]]


class PartsEnded(Exception):
    """A list cannot be written in parts: a payload is refused, or they are too large, or take too long to build."""


class JobFactory:
    """Builds jobs from payloads and options; those that were checked last are remembered."""

    def __init__(self, settings: JobsSettings) -> None:
        self._settings = settings
        self.pacing = Pacing()
        # the type and options that were checked last, and what came of it
        self._checked: tuple[str | None, EnqueueOptions | None, _Checked] = (None, None, ("", (), NO_HEADERS))

    def build(self, type_: str, payloads: Sequence[Mapping[str, Any]], options: EnqueueOptions) -> list[NewJob]:
        """Return a job for each payload, which is in its JSON form.

        Raises:
            InvalidJob: an item cannot become a job; the message names it.
        """
        known_type, known_options, checked = self._checked
        if options is not known_options or type_ != known_type:
            checked = self._check(type_, options)
            # What can be changed from outside, or may be over by the next call, is checked each time.
            # And what belongs to the caller is not kept beyond its call: an open transaction would stay open with it.
            if (
                options.tags is None
                and options.headers is None
                and options.run_at is None
                and options.connection is None
            ):
                self._checked = type_, options, checked
        queue, given, headers = checked
        limit = self._settings.limits.payload
        given = (*given, self._ordering_key(queue, options), *_unique_key(type_, options), headers)
        if len(payloads) == 1:
            return [NewJob(new_id(), queue, type_, encode_payload(payloads[0], limit), *given)]
        texts = [encode_payload(payload, limit) for payload in payloads]
        # As `NewJob(…)` makes them, in half of the time.
        return [
            _new(NewJob, (i, queue, type_, text, *given)) for i, text in zip(new_ids(len(texts)), texts, strict=True)
        ]

    def _check(self, type_: str, options: EnqueueOptions) -> _Checked:
        queue = check_queue_name("default" if options.queue is None else options.queue)
        check_name(type_, "the type's name")
        priority = int(Priority.NORMAL) if options.priority is None else parse_priority(options.priority)
        if options.delay is not None and options.run_at is not None:
            raise InvalidJob("give either delay or run_at, not both")
        delay = 0.0 if options.delay is None else check_delay(options.delay)
        run_at = None if options.run_at is None else check_run_at(options.run_at)
        retries = options.max_retries
        retries = self._settings.defaults.max_retries if retries is None else check_max_retries(retries)
        tags = check_tags(options.tags or ())
        headers = NO_HEADERS if options.headers is None else check_headers(options.headers)
        return queue, (priority, delay, run_at, retries, tags), headers

    def _ordering_key(self, queue: str, options: EnqueueOptions) -> str | None:
        given = None if options.ordering_key is None else check_key(options.ordering_key, "ordering_key")
        return rules_of(self._settings.rules, queue).key_of(given)


class JobList:
    """The jobs of one call, which differ in id and payload alone, built as a whole or part by part."""

    def __init__(
        self,
        factory: JobFactory,
        type_: str,
        payloads: Sequence[Mapping[str, Any]],
        options: EnqueueOptions,
        dump: Dump,
    ) -> None:
        """`dump` brings payloads into their JSON form."""
        self._factory = factory
        self._type = type_
        self._payloads = tuple(payloads)
        self._options = options
        self._dump = dump
        # that are built
        self._jobs: list[NewJob] = []

    def __len__(self) -> int:
        return len(self._payloads)

    @property
    def is_long(self) -> bool:
        """Whether it has several parts."""
        return len(self._payloads) >= 2 * PART_JOBS

    async def whole(self) -> list[NewJob]:
        """Build all jobs; the event loop goes on between large payloads.

        Raises:
            InvalidJob: an item cannot become a job; the message names it.
        """
        step, pacing = PAYLOADS_PER_CHECK, self._factory.pacing
        if self._jobs and len(self._jobs) == len(self._payloads):
            # What is written may not be refused any more, though its options have changed since.
            return self._jobs
        while True:
            if pacing.due:
                await pacing.turn()
            size = weight_of(self._build(step))
            pacing.note(size)
            if len(self._jobs) >= len(self._payloads):
                return self._jobs
            step = max(1, step * ENCODED_AT_ONCE // size) if size >= ENCODED_AT_ONCE else 4 * step

    def begin(self) -> tuple[Sequence[NewJob], int]:
        """Build the first jobs; return them, and how many bytes all have if the others are as large.

        Raises:
            InvalidJob: an item cannot become a job; the message names it.
        """
        first = self._jobs or self._build(PAYLOADS_PER_CHECK)
        return first, weight_of(first) * len(self) // len(first)

    def parts(self) -> Iterator[Sequence[NewJob]]:
        """Yield the jobs in parts, each of which is built when it is asked for the first time.

        Raises:
            PartsEnded: there is another part, which cannot be had like this.
        """
        done = weight = 0
        while done < len(self):
            if len(self._jobs) < min(done + PART_JOBS, len(self)):
                self._build_part(done + PART_JOBS - len(self._jobs))
            part = self._jobs[done : done + PART_JOBS]
            done, weight = done + len(part), weight + weight_of(part)
            if weight > MAX_STATEMENT_LENGTH:
                raise PartsEnded
            yield part

    def _build_part(self, count: int) -> None:
        began = time.monotonic()
        try:
            self._build(count)
        except Exception as error:
            raise PartsEnded from error
        if time.monotonic() - began > MAX_PART_SECONDS:
            raise PartsEnded

    def _build(self, count: int) -> list[NewJob]:
        payloads = self._payloads[len(self._jobs) : len(self._jobs) + count]
        built = self._factory.build(self._type, self._dump(payloads), self._options)
        self._jobs += built
        return built


def new_ids(count: int) -> list[str]:
    """Return so many ids, as `new_id` does, in half of the time; in order, so that they fill the pages of indexes.

    In any order of the random part, pages split in their middle: that took a tenth of what PostgreSQL writes ahead.
    """
    begin = f"{time.time_ns() // 1_000_000:012x}"
    begin, end = f"{begin[:8]}-{begin[8:]}-7", f"{random_source.getrandbits(76 * count):0{19 * count}x}"
    # Three digits, one of the variant, of which two bits are given, fifteen.
    ids = [
        f"{begin}{end[at : at + 3]}-{_VARIANT[end[at + 3]]}{end[at + 4 : at + 7]}-{end[at + 7 : at + 19]}"
        for at in range(0, 19 * count, 19)
    ]
    ids.sort()
    return ids


_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def _unique_key(type_: str, options: EnqueueOptions) -> tuple[str | None, float | None]:
    if options.unique is None:
        if options.unique_for is not None:
            raise InvalidJob("unique_for says how long, and needs unique=, which says what")
        return None, None
    key = f"{type_}:{check_key(options.unique, 'unique')}"
    if options.unique_for is None:
        return key, None
    seconds = check_delay(options.unique_for, "unique_for")
    if not seconds:
        raise InvalidJob("unique_for: 0 is no time; leave it out for as long as the first job is unfinished")
    return key, seconds
