"""Payloads and results as JSON text: strict on the way in, bounded, and readable by anything."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any

from pydantic_core import PydanticSerializationError, from_json, to_json

from queue_core.errors import InvalidJob, TooLarge
from queue_core.model.text import cut, safe, type_name

MAX_NESTING = 100
"""Levels of nesting that a payload may have; what other programs read without trouble."""

# What contains itself ends in a RecursionError, like everything that is nested too deeply.
_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))


def _quickest() -> Callable[[object], str]:
    """Return what encodes a value; where Python has it in C, without setting that up again for each value."""
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return _encoder.encode
    chunks = make(None, _encoder.default, json.encoder.encode_basestring, None, ":", ",", False, False, False)
    return lambda value: "".join(chunks(value, 0))


_json = _quickest()

_TEXT = frozenset({str})
_SCALARS = frozenset({str, bool, type(None)})
_CONTAINERS = frozenset({dict, list, tuple})
_MAX_INTEGER = 10**4000
"""Python refuses to read numbers of more than 4,300 digits."""


def _is_plain(value: Any, levels: int) -> bool:
    """Return whether a dict, list or tuple holds nothing but what JSON has, in at most so many levels below it."""
    if type(value) is not dict:
        items = value
    elif not _TEXT.issuperset(map(type, value)):
        return False
    else:
        items = value.values()
    for item in items:
        kind = type(item)
        if kind is float:
            if item - item != 0.0:  # NaN and infinity
                return False
        elif kind is int:
            if not -_MAX_INTEGER < item < _MAX_INTEGER:
                return False
        elif kind not in _SCALARS and not (kind in _CONTAINERS and levels and _is_plain(item, levels - 1)):
            return False
    return True


def _encode_plain(value: Any) -> str | None:
    """Return the JSON text of a dict, list or tuple, as json writes it but for floats' form; None: let json judge.

    pydantic's encoder takes a fifth of json's time, but has forms for more classes than JSON has.
    """
    if not _is_plain(value, MAX_NESTING - 2):
        return None
    try:
        text = to_json(value).decode()
    except (PydanticSerializationError, ValueError):  # a lone surrogate
        return None
    return None if "\\u0000" in text else text


def long_number() -> str:
    """Name, for people, the numbers that Python's JSON neither reads nor writes."""
    return f"a number of more than {sys.get_int_max_str_digits():,} digits"


class Written(dict[str, Any]):
    """A payload with the JSON text that it was read from, which is stored as it is: 1.10 does not become 1.1."""

    def __init__(self, text: str, payload: dict[str, Any]) -> None:
        super().__init__(payload)
        self.text = text


def encode_payload(payload: object, limit: int) -> str:
    """Return a payload as JSON text.

    Raises:
        InvalidJob: not a dict of JSON values with text keys, NaN or infinity, a number of too many digits, a NUL
            character, a lone surrogate, or nested too deeply.
        TooLarge: more than `limit` bytes.
    """
    if not isinstance(payload, dict):
        raise InvalidJob(f"a payload is a dict of parameter names, not {type(payload).__name__}")
    text = None if type(payload) is Written else _encode_plain(payload)
    if text is None:
        for key in payload:
            if not isinstance(key, str):
                raise InvalidJob(f"a payload's keys are parameter names, not {key!r}")
        text = _encode(payload, "the payload", payload.text if type(payload) is Written else None)
        _check_keys(payload)
    if len(text) > limit or (not text.isascii() and len(text.encode()) > limit):
        raise TooLarge("the payload", len(text.encode()), limit)
    return text


def _check_keys(payload: object) -> None:
    """Refuse keys of inner objects that json would turn into texts: of 1 and "1" in one object, a value would be lost.

    Raises:
        InvalidJob: a key is no text.
    """
    inner = [payload]
    while inner:
        one = inner.pop()
        if isinstance(one, dict):
            for key in one:
                if not isinstance(key, str):
                    raise InvalidJob(f"the payload holds an object with the key {key!r}, which is no text")
            inner += one.values()
        elif isinstance(one, list | tuple):
            inner += one


def _encode(value: object, what: str, written: str | None = None) -> str:
    try:
        text = _json(value) if written is None else written
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        raise InvalidJob(f"{what} holds a lone surrogate, which is no Unicode text") from None
    except (TypeError, ValueError, RecursionError) as error:
        if "integer string conversion" in str(error):
            raise InvalidJob(f"{what} holds {long_number()}") from None
        raise InvalidJob(f"{what} is not JSON: {_reason(error, value)}") from None
    if text.count("[") + text.count("{") > MAX_NESTING and _depth(value) > MAX_NESTING:
        raise InvalidJob(f"{what} is nested deeper than {MAX_NESTING} levels")
    if "\\u0000" in text and _has_nul(value):
        raise InvalidJob(f"{what} holds a NUL character, which PostgreSQL cannot store")
    return text


def _reason(error: Exception, value: object) -> str:
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    text = str(error)
    if "Out of range float" in text:
        return f"{_place(value)}NaN and infinity have no JSON form"
    if "serializable" in text:
        return f"{_place(value)}{text.removesuffix(' is not JSON serializable')} has no JSON form"
    return text


def _place(payload: object) -> str:
    """Name the first value that has no form in JSON, by the keys and indexes that lead to it."""
    waiting: list[tuple[tuple[str, ...], object]] = [((), payload)]
    while waiting:
        path, value = waiting.pop()
        items: Iterable[tuple[object, object]]
        if isinstance(value, dict):
            items = value.items()
        elif isinstance(value, list | tuple):
            items = enumerate(value)
        elif (isinstance(value, float) and isfinite(value)) or isinstance(value, str | int | None):
            continue
        else:
            return f"parameter '{safe('.'.join(path), 200)}': " if path else ""
        waiting += [((*path, str(key)), item) for key, item in reversed(list(items))]
    return ""


def _has_nul(value: object) -> bool:
    """Distinguish a real NUL from the six characters of its escape, which are harmless."""
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any(_has_nul(key) or _has_nul(item) for key, item in value.items())
    return isinstance(value, list | tuple) and any(_has_nul(item) for item in value)


def _depth(value: object) -> int:
    depth, level = 0, [value]
    while level:
        depth += 1
        level = [
            item
            for one in level
            if isinstance(one, dict | list | tuple)
            for item in (one.values() if isinstance(one, dict) else one)
        ]
    return depth


def decode_payload(text: str) -> dict[str, Any]:
    """Return a stored payload.

    Raises:
        ValueError: the text is not a JSON object; another program wrote it.
    """
    try:
        payload = _loads(text)
    except RecursionError:
        raise ValueError("the text is nested too deeply") from None
    if not isinstance(payload, dict):
        raise ValueError(f"a payload is a JSON object, not {type(payload).__name__}")  # noqa: TRY004  it is the text's fault
    return payload


def _loads(text: str) -> Any:
    """Do as json.loads in less than half of the time; what pydantic's decoder refuses is json's to judge."""
    try:
        return from_json(text)
    except ValueError:
        return json.loads(text)


def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON, given as its keys and values; a reader of the text gets one value of each key.

    Raises:
        InvalidJob: a key is there twice.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        ((again, _),) = Counter(key for key, _ in pairs).most_common(1)
        raise InvalidJob(f"the key '{safe(again, 60)}' is there twice in one object, and only one value would be kept")
    return found


def encode_result(result: object, limit: int) -> str:
    """Return a result as JSON text, cut with a mark when it is larger than `limit` bytes.

    What has no JSON form is kept as its text, so that a job that did its work never fails for its return value: neither
    for what the value's own code raises, nor because other threads change it meanwhile.
    """
    if result is None:
        return "null"
    try:
        plain = _encode_plain(result) if type(result) in _CONTAINERS else None
        text = _encode_odd(result) if plain is None else plain
    except BaseException:  # noqa: BLE001  whatever its own code raises
        text = _encoder.encode(cut(_repr_of(result), limit))
    if len(text) > limit or len(text.encode()) > limit:
        # Twice the quarter: cutting by bytes and escaping again must stay below the limit.
        text = _encoder.encode(cut(text, limit // 2))
    return text


def _encode_odd(result: object) -> str:
    text = _encode(result, "the result")
    json.loads(text, object_pairs_hook=distinct)  # 1 and "1" are the same key
    return text


def _repr_of(result: object) -> str:
    try:
        return str.__str__(repr(result))
    except BaseException as error:  # noqa: BLE001  its own code, which runs after the work was done
        return f"<{type_name(type(result))}, which cannot be shown: {type_name(type(error))}>"


def decode_result(text: str | None) -> Any:
    """Return a stored result; text that is not JSON comes back as it is."""
    if text is None:
        return None
    try:
        return json.loads(text)
    except ValueError:
        return text
