"""Whether a job matches a filter, as every store decides it."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from queue_core.model.filters.terms import Filter, Term, members_of, span_of
from queue_core.model.job import Job
from queue_core.model.states import Status, parse_status

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"=": operator.eq, "<": operator.lt, ">": operator.gt}
_NOTHING = object()
NUMBER = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?")


def matches(job: Job, where: Filter, now: datetime) -> bool:
    """Return whether all terms hold for the job at this moment."""
    if where.trash is not (job.trashed_at is not None):
        return False
    return all(holds(job, term, now) for term in where.terms)


def holds(job: Job, term: Term, now: datetime) -> bool:
    """Return whether one term holds for the job at this moment.

    Raises:
        ValueError: no such field, or a value that the field does not take; `queue_core.model.filters.parse` makes
        neither.
    """
    head, _, path = term.field.partition(".")
    if head == "payload" and path:
        found = payload_holds(job.payload, path, term)
    elif term.field in _MATCHERS:
        found = _MATCHERS[term.field](job, term, now)
    else:
        raise ValueError(f"a filter has no field '{term.field}'")
    return found is not term.negated


def _matches_status(job: Job, term: Term, _now: datetime) -> bool:
    return job.status is parse_status(term.value)


def _text_of(name: str) -> Callable[[Job, Term, datetime], bool]:
    def holds_for(job: Job, term: Term, _now: datetime) -> bool:
        return _text(getattr(job, name), term)

    return holds_for


def _text(found: str | None, term: Term) -> bool:
    if found is None:
        return False
    return found == term.value if term.operator == "=" else contains(found, term.value)


def contains(found: str, part: str) -> bool:
    """Return whether a text has a part, without regard to case."""
    return part.lower() in found.lower()


def _tag(job: Job, term: Term, _now: datetime) -> bool:
    return any(_text(tag, term) for tag in job.tags)


def _begins(name: str) -> Callable[[Job, Term, datetime], bool]:
    def holds_for(job: Job, term: Term, _now: datetime) -> bool:
        found: str | None = getattr(job, name)
        return found is not None and found.replace("-", "").startswith(term.value.replace("-", "").lower())

    return holds_for


def _number_of(name: str) -> Callable[[Job, Term, datetime], bool]:
    def holds_for(job: Job, term: Term, _now: datetime) -> bool:
        return _COMPARE[term.operator](getattr(job, name), int(term.value))

    return holds_for


def _matches_age(job: Job, term: Term, now: datetime) -> bool:
    return _COMPARE[term.operator]((now - job.updated_at).total_seconds(), float(term.value))


def _matches_died(job: Job, term: Term, _now: datetime) -> bool:
    return job.status is Status.DEAD and span_of(term.value).has(job.completed_at)


def host_of(worker: str) -> str:
    """Return the host in a worker's name, which is host:number of the process:some digits."""
    return worker.rsplit(":", 2)[0]


def _matches_host(job: Job, term: Term, _now: datetime) -> bool:
    return _text(None if job.worker is None else host_of(job.worker), term)


def _anywhere(job: Job, term: Term, _now: datetime) -> bool:
    texts = (job.error or "", job.payload_text, job.type, *job.tags)
    return any(contains(text, term.value) for text in texts) or _begins("id")(job, term, _now)


def _in_texts(job: Job, term: Term, _now: datetime) -> bool:
    return has_text((job.error, job.payload_text, job.traceback), term.value)


def has_text(texts: Iterable[str | None], part: str) -> bool:
    """Return whether one of the texts of a job has a part, without regard to case."""
    return any(text is not None and contains(text, part) for text in texts)


def _one_of(name: str) -> Callable[[Job, Term, datetime], bool]:
    def holds_for(job: Job, term: Term, _now: datetime) -> bool:
        return getattr(job, name) in members_of(term)

    return holds_for


_MATCHERS: dict[str, Callable[[Job, Term, datetime], bool]] = {
    "status": _matches_status,
    "type": _text_of("type"),
    "queue": _text_of("queue"),
    "error": _text_of("error"),
    "worker": _text_of("worker"),
    "tag": _tag,
    "id": _begins("id"),
    "signature": _begins("signature"),
    "priority": _number_of("priority"),
    "retries": _number_of("retry_count"),
    "age": _matches_age,
    "died": _matches_died,
    "host": _matches_host,
    "release": _text_of("release"),
    "word": _anywhere,
    "text": _in_texts,
    "signatures": _one_of("signature"),
    "ids": _one_of("id"),
}


def payload_holds(payload: dict[str, Any] | None, path: str, term: Term) -> bool:
    """Return whether a term holds for the value at a path of a payload, before it is turned round."""
    value = _at(payload, path.split("."))
    if isinstance(value, int | float) and not isinstance(value, bool) and NUMBER.fullmatch(term.value):
        return term.operator != "~" and _COMPARE[term.operator](value, float(term.value))
    if value is _NOTHING or term.operator in "<>":
        return False
    return _text(value if isinstance(value, str) else json.dumps(value), term)


def _at(value: Any, path: list[str]) -> Any:
    """Return the value at a path of keys and indexes; `_NOTHING` also for objects and arrays."""
    for key in path:
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isascii() and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            return _NOTHING
    return _NOTHING if isinstance(value, dict | list) else value
