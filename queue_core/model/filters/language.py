"""The language that people write filters in: how it is read, and written again."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import NamedTuple, cast

from queue_core.errors import FilterError, InvalidArgument, InvalidJob
from queue_core.model.filters.terms import Filter, Operator, Term, read_span
from queue_core.model.rules import parse_priority
from queue_core.model.states import parse_status
from queue_core.model.validation import parse_duration


class _Field(NamedTuple):
    operators: str
    # returns the value as a term carries it, or raises ValueError
    read: Callable[[str], str] = str


def _is_status(value: str) -> bool:
    with suppress(ValueError):
        parse_status(value)
        return True
    return False


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


def _state(value: str) -> str:
    if value.lower() in SIGNATURE_STATES:
        return value.lower()
    known = ", ".join(SIGNATURE_STATES)
    raise ValueError(f"'{value}' is neither a state of a job nor of an error signature, which are {known}")


def _text(value: str) -> str:
    if len(value) > LONGEST_TEXT:
        raise ValueError(f"a text that is looked for has at most {LONGEST_TEXT} characters, this one {len(value):,}")
    if "\0" in value:
        raise ValueError("no text of a job has a NUL, so none can be found")
    return value


def _read_age(value: str) -> str:
    return repr(parse_duration(value))


def _died(value: str) -> str:
    return read_span(value, datetime.now(UTC))


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
    "died": _Field("=", _died),
    "retries": _Field("=<>", _count),
    "worker": _Field("=~"),
    "host": _Field("=~"),
    "release": _Field("=~"),
    "owner": _Field("=~"),
    "state": _Field("=", _state),
    "text": _Field("~", _text),
}
_PAYLOAD = _Field("=~<>")
_SHORT = {"err": "error", "sig": "signature", "prio": "priority", "tags": "tag", "retry": "retries"}
FIELDS: tuple[str, ...] = (*_FIELDS, "payload.", "trash")
"""What a term can begin with, for completion and help."""

_TERM = re.compile(
    r"""(?P<not>[!-]?)
        (?:(?P<field>[A-Za-z_]+(?:\.[^\s:=~<>"]*)?)(?P<sign>[:=~<>]+))?
        (?P<value>"(?:[^"\\]|\\.)*"(?=\s|$)|[^\s"]\S*|)""",
    re.VERBOSE | re.DOTALL,
)
_SIGNS, _NEGATIONS = ":=~<>", "!-"
"""What parts a field from its value, and what turns a term round. A word that is searched for begins with none of the
signs, and behind a negation with none of both, unless it is in quotes."""
_REFERENCE = re.compile(r"(?P<turned>[!-]*)@(?P<name>.*)", re.DOTALL)
"""A word without quotes that names a saved filter."""
_SPACES = re.compile(r"\s*")
_MAX_LENGTH = 4_000
LONGEST_TEXT = 200
"""Characters that can be looked for in texts of jobs."""
SIGNATURE_STATES = ("new", "regressed", "known", "resolved", "muted")
"""What `state` takes beside the states of jobs."""
_MAX_TERMS = 50


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
    if len(text) > _MAX_LENGTH:
        raise FilterError(f"a filter has at most {_MAX_LENGTH:,} characters, this one {len(text):,}", text, _MAX_LENGTH)
    terms: list[Term] = []
    trash = False
    for match in _written_terms(text):
        term = _term(match, text)
        if term.field == "trash":
            trash = (term.value == "yes") is not term.negated
        else:
            terms.append(term)
    if len(terms) > _MAX_TERMS:
        raise FilterError(f"a filter has at most {_MAX_TERMS} terms, this one {len(terms)}", text, 0)
    return Filter(tuple(terms), trash)


def with_saved(text: str, saved: Mapping[str, str]) -> str:
    """Return a filter with saved ones in the place of their names, as in `@night type:mail`.

    Raises:
        FilterError: it cannot be read, nor a saved filter that it names; KeyError: none is saved under a name.
    """
    parts, end = list[str](), 0
    for match in _written_terms(text):
        named = _named(match)
        if named is None or named["turned"]:
            continue
        stored = saved[named["name"]]
        try:
            parse(stored)
        except FilterError as error:
            reason = f"the filter that is saved as '{named['name']}' cannot be used: {error.reason}"
            raise FilterError(reason, text, match.start()) from None
        parts += [text[end : match.start()], stored]
        end = match.end()
    return "".join([*parts, text[end:]])


def _written_terms(text: str) -> Iterator[re.Match[str]]:
    """Yield what is written between spaces, or within quotes, as a term each."""
    at = _end(_SPACES, text, 0)
    while at < len(text):
        end = _end(_TERM, text, at)
        if end == at or (end < len(text) and not text[end].isspace()):
            raise FilterError("a quote is not closed, or something stands right behind it", text, at)
        yield cast("re.Match[str]", _TERM.match(text, at))
        at = _end(_SPACES, text, end)


def _named(match: re.Match[str]) -> re.Match[str] | None:
    """Return the name of a saved filter in a written term, if it is one."""
    return _REFERENCE.fullmatch(match[0]) if match["field"] is None else None


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def _term(match: re.Match[str], text: str) -> Term:
    if match["field"] is None:
        return _word(match, text)
    negated, value = bool(match["not"]), _unquoted(match["value"])
    name, field = _field(match, text)
    operator = _operator(name, match["sign"])
    if not value:
        raise FilterError(f"'{match['field']}' has no value", text, match.end())
    if name == "state" and value.lower() not in SIGNATURE_STATES and _is_status(value):
        name, field = "status", _FIELDS["status"]
    if name == "text" and match["not"]:
        raise FilterError("what does not have a text cannot be searched for; leave the '!' out", text, match.start())
    if operator not in field.operators:
        allowed = " ".join(f"{match['field']}:{sign if sign != '=' else ''}…" for sign in field.operators)
        refused = match["sign"] if operator == "=" else operator
        raise FilterError(f"'{match['field']}' does not take '{refused}'; write {allowed}", text, match.start("sign"))
    try:
        return Term(name, cast("Operator", operator), field.read(value), negated)
    except ValueError as error:
        raise FilterError(str(error), text, match.start("value")) from None


def _word(match: re.Match[str], text: str) -> Term:
    negated, value = bool(match["not"]), _unquoted(match["value"])
    if not value:
        raise FilterError("a word is missing", text, match.start())
    if named := _named(match):
        raise FilterError(_no_reference(named), text, match.start())
    first, reason = match["value"][0], ""
    if first in _SIGNS:
        reason = f"no field before '{first}'"
    elif negated and first in _NEGATIONS:
        # As a word it would be in no job, so that all of them match.
        reason = f"'{first}' behind '{match['not']}'"
    if reason:
        raise FilterError(f"{reason}; put quotes around words to search for them", text, match.start("value"))
    return Term("word", "~", value, negated)


def _no_reference(named: re.Match[str]) -> str:
    """Return why the name of a saved filter cannot be here: as a word, it would match other jobs than are meant."""
    written = named[0][:80]
    if named["turned"]:
        return f"'{written}': a saved filter cannot be turned round, only its terms can; a word with @ needs quotes"
    return (
        f"'{written}' names a saved filter, which only --filter of the command line takes, and no filter that is"
        " saved; put quotes around it to search for the word"
    )


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
        return "~" if name in ("error", "text") else "="
    if sign[0] in ":=" and len(sign) > 1:
        return sign[1:]
    return "~" if name == "text" and sign == "=" else sign


def _unquoted(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1], flags=re.DOTALL) if value[:1] == '"' else value


def render(where: Filter) -> str:
    """Return a filter in the language; `parse` reads the same filter back."""
    words = [_rendered(term) for term in where.terms]
    return " ".join([*words, "trash:yes"] if where.trash else words)


def _rendered(term: Term) -> str:
    sign = "!" if term.negated else ""
    value = term.value
    if term.field == "word" or not re.fullmatch(r"[\w./@+-][\w./@:+-]*", value):
        value = '"' + re.sub(r'(["\\])', r"\\\1", value) + '"'
    if term.field == "word":
        return sign + value
    return f"{sign}{term.field}{'=' if term.operator == '=' else ':' + term.operator}{value}"
