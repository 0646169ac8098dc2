"""The filter record that every list, count and bulk verb takes, and the language that people write it in.

    type:send_email queue:mail err:~smtp age:<1h sig:9f31 payload.user.id=7 !tag:bulk status:dead "connection reset"

A term is `field:value`, `field:~part`, `field:<value` or `field:>value` (`=` works like `:`); `!` or `-` before it
turns it round. Quotes hold a value together, a backslash in them takes the next character as it is. A word without a
field is searched in the error, the payload's text, the type and the tags, and as the beginning of an id. All terms
must hold.

What the fields mean, for every store:
  - `status` takes the states and the words pending, processing, failed and dlq; `trash:yes` looks into the trash.
  - `error` (`err`) looks into the one-line error; written with `:` it means "contains", with `=` "is exactly".
  - `signature` (`sig`) and `id` match from their beginning.
  - `age` is the time since the job's last change (of a dead job: since its death; in the trash: since it came there).
  - `worker` is the worker that holds the job or held it last.
  - `payload.<path>` follows keys and array indexes. Only strings, numbers, booleans and null match, by their text as in
    JSON without quotes; numbers on both sides are compared as numbers, and `<` and `>` compare nothing else.
  - `~` ignores case. What a job does not have matches nothing, so that turned round it matches.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from typing import Any, Literal, NamedTuple, cast

from queue_core.errors import FilterError, InvalidArgument, InvalidJob
from queue_core.model.job import Job
from queue_core.model.rules import parse_priority
from queue_core.model.states import Status, parse_status
from queue_core.model.validation import parse_duration

Operator = Literal["=", "~", "<", ">"]


@dataclass(frozen=True, slots=True)
class Term:
    """One condition of a filter."""

    # status, type, queue, error, signature, tag, id, priority, age, retries, worker, text, or payload.<path>
    field: str
    # "=" equal (ids and signatures: begins with), "~" contains without regard to case, "<" and ">" compare
    operator: Operator
    # as `parse` leaves it: a state's name, a whole number, an age in seconds, an id without dashes, else the text
    value: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """All terms must hold. No terms: every job (the trash is only shown when asked for)."""

    terms: tuple[Term, ...] = ()
    # jobs in the trash: False leaves them out, True shows only them
    trash: bool = False

    def having(self, *terms: Term) -> Filter:
        """Return this filter with more terms."""
        return Filter((*self.terms, *terms), self.trash)

    def statuses(self) -> frozenset[Status]:
        """Return the states that can match, from the status terms (all when there are none)."""
        found = frozenset(Status)
        for term in self.terms:
            if term.field == "status":
                one = frozenset({Status(term.value)})
                found = found - one if term.negated else found & one
        return found


class _Field(NamedTuple):
    operators: str
    # returns the value as a term carries it, or raises ValueError
    read: Callable[[str], str] = str


def _read_status(value: str) -> str:
    return parse_status(value).value


def _priority(value: str) -> str:
    try:
        return str(parse_priority(value))
    except InvalidJob as error:
        raise ValueError(str(error)) from None


def _count(value: str) -> str:
    if not re.fullmatch(r"[0-9]{1,9}", value):
        raise ValueError(f"'{value}' is no whole number")
    return str(int(value))


def _read_age(value: str) -> str:
    return repr(parse_duration(value))


def _id(value: str) -> str:
    digits = value.replace("-", "").lower()
    if not re.fullmatch(r"[0-9a-f]{1,32}", digits):
        raise ValueError(f"'{value}' is no beginning of an id: up to 32 hexadecimal digits")
    return digits


def _signature(value: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{1,12}", value.lower()):
        raise ValueError(f"'{value}' is no beginning of a signature: up to 12 hexadecimal digits")
    return value.lower()


_FIELDS: dict[str, _Field] = {
    "status": _Field("=", _read_status),
    "type": _Field("=~"),
    "queue": _Field("=~"),
    "error": _Field("=~"),
    "signature": _Field("=", _signature),
    "tag": _Field("=~"),
    "id": _Field("=", _id),
    "priority": _Field("=<>", _priority),
    "age": _Field("<>", _read_age),
    "retries": _Field("=<>", _count),
    "worker": _Field("=~"),
    "text": _Field("~"),
}
_PAYLOAD = _Field("=~<>")
_SHORT = {"err": "error", "sig": "signature", "prio": "priority", "state": "status", "tags": "tag", "retry": "retries"}
FIELDS: tuple[str, ...] = (*_FIELDS, "payload.", "trash")
"""What a term can begin with, for completion and help."""

_TERM = re.compile(
    r"""(?P<not>[!-]?)
        (?:(?P<field>[A-Za-z_]+(?:\.[^\s:=~<>"]*)?)(?P<sign>[:=~<>]+))?
        (?P<value>"(?:[^"\\]|\\.)*"(?=\s|$)|[^\s"]\S*|)""",
    re.VERBOSE | re.DOTALL,
)
_SIGNS = ":=~<>"
"""What parts a field from its value; a word that is searched for begins with none of them, unless it is in quotes."""
_SPACES = re.compile(r"\s*")
_LONGEST = 4_000
_MOST_TERMS = 50


def filter_of(where: object) -> Filter:
    """Return a filter as it is, or the one that a text means.

    Raises:
        FilterError: the text cannot be read; InvalidArgument: it is no text.
    """
    if isinstance(where, Filter):
        return where
    if not isinstance(where, str):
        raise InvalidArgument(f"a filter is a text such as 'status:dead', not {where!r}")
    return parse(where)


def parse(text: str) -> Filter:
    """Return the filter that a person wrote.

    Raises:
        FilterError: an unknown field, an operator or a value that the field does not take, a quote that is not closed.
    """
    if len(text) > _LONGEST:
        raise FilterError(f"a filter has at most {_LONGEST:,} characters, this one {len(text):,}", text, _LONGEST)
    terms: list[Term] = []
    trash = False
    at = _end(_SPACES, text, 0)
    while at < len(text):
        end = _end(_TERM, text, at)
        if end == at or (end < len(text) and not text[end].isspace()):
            raise FilterError("a quote is not closed, or something stands right behind it", text, at)
        term = _term(cast("re.Match[str]", _TERM.match(text, at)), text)
        if term.field == "trash":
            trash = (term.value == "yes") is not term.negated
        else:
            terms.append(term)
        at = _end(_SPACES, text, end)
    if len(terms) > _MOST_TERMS:
        raise FilterError(f"a filter has at most {_MOST_TERMS} terms, this one {len(terms)}", text, 0)
    return Filter(tuple(terms), trash)


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _term(match: re.Match[str], text: str) -> Term:
    negated, value = bool(match["not"]), _unquoted(match["value"])
    if match["field"] is None:
        if not value:
            raise FilterError("a word is missing", text, match.start())
        if match["value"][0] in _SIGNS:
            reason = f"no field before '{match['value'][0]}'; put quotes around words to search for them"
            raise FilterError(reason, text, match.start("value"))
        return Term("text", "~", value, negated)
    name, field = _field(match, text)
    operator = _operator(name, match["sign"])
    if not value:
        raise FilterError(f"'{match['field']}' has no value", text, match.end())
    if operator not in field.operators:
        allowed = " ".join(f"{match['field']}:{sign if sign != '=' else ''}…" for sign in field.operators)
        raise FilterError(f"'{match['field']}' does not take '{operator}'; write {allowed}", text, match.start("sign"))
    try:
        return Term(name, cast("Operator", operator), field.read(value), negated)
    except ValueError as error:
        raise FilterError(str(error), text, match.start("value")) from None


def _field(match: re.Match[str], text: str) -> tuple[str, _Field]:
    written = match["field"]
    head, dot, path = written.partition(".")
    name = _SHORT.get(head.lower(), head.lower())
    if name == "payload" and path and all(path.split(".")):
        return f"payload.{path}", _PAYLOAD
    if name in _FIELDS and not dot:
        return name, _FIELDS[name]
    if name == "trash" and not dot:
        return name, _Field("=", _yes_or_no)
    close = get_close_matches(head.lower(), [*_FIELDS, *_SHORT, "payload", "trash"], 1)
    nearest = "payload.<path>" if name == "payload" else close[0] if close else None
    hint = f"; did you mean '{nearest}'?" if nearest else "; put quotes around words to search for them"
    raise FilterError(f"no field '{written}'{hint}", text, match.start("field"), nearest)


def _yes_or_no(value: str) -> str:
    if value.lower() not in {"yes", "no"}:
        raise ValueError(f"'{value}' is neither yes nor no")
    return value.lower()


def _operator(name: str, sign: str) -> str:
    """Return the operator in the signs after a field; the first of several may only be the separator."""
    if sign == ":":
        return "~" if name == "error" else "="
    return sign[1:] if sign[0] in ":=" and len(sign) > 1 else sign


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL) if value[:1] == '"' else value


def render(where: Filter) -> str:
    """Return a filter in the language; `parse` reads the same filter back."""
    words = [_rendered(term) for term in where.terms]
    return " ".join([*words, "trash:yes"] if where.trash else words)


def _rendered(term: Term) -> str:
    sign = "!" if term.negated else ""
    value = term.value
    if term.field == "text" or not re.fullmatch(r"[\w./@+-][\w./@:+-]*", value):
        value = '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
    if term.field == "text":
        return sign + value
    return f"{sign}{term.field}{'=' if term.operator == '=' else ':' + term.operator}{value}"


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {"=": operator.eq, "<": operator.lt, ">": operator.gt}
_NOTHING = object()
_NUMBER = re.compile(r"-?[0-9]{1,300}(?:\.[0-9]{1,300})?(?:[eE][+-]?[0-9]{1,3})?")


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


def _anywhere(job: Job, term: Term, _now: datetime) -> bool:
    texts = (job.error or "", job.payload_text, job.type, *job.tags)
    return any(contains(text, term.value) for text in texts) or _begins("id")(job, term, _now)


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
    "text": _anywhere,
}


def payload_holds(payload: dict[str, Any] | None, path: str, term: Term) -> bool:
    """Return whether a term holds for the value at a path of a payload, before it is turned round."""
    value = _at(payload, path.split("."))
    if isinstance(value, int | float) and not isinstance(value, bool) and _NUMBER.fullmatch(term.value):
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
