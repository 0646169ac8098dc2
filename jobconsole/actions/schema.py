"""Whether a payload fits the JSON Schema that workers announced for its type, before a job is made or edited."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from datetime import date, datetime, time, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from queue_core.model.text import safe

if TYPE_CHECKING:
    from jsonschema import ValidationError


MAX_PROBLEMS = 20
"""Sentences about one payload."""
LISTED_PARAMETERS = 20
"""Names of parameters in one sentence."""
LONGEST_MESSAGE = 200
"""Characters of a validator's message, which quotes the value."""

_FORMATS = {"date-time": datetime, "date": date, "time": time, "duration": timedelta, "uuid": UUID}


class SchemaUnusable(ValueError):
    """The announced schema is no JSON Schema that can be checked here."""


def validate_payload(schema: Mapping[str, Any], payload: object) -> list[str]:
    """Return what is wrong with a payload, a sentence each, the first parameters first; none when it fits.

    The rules are those of queue_core.client.payloads: 1.0 is no integer, and a time is what a worker reads as one.

    Raises:
        SchemaUnusable: no payload can be checked by the schema.
    """
    from jsonschema.exceptions import SchemaError
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    kind = _validator()
    try:
        kind.check_schema(schema)
        # Without a registry of its own, a reference to another machine would be fetched from there.
        validator = kind(schema, registry=Registry(), format_checker=_formats())
        errors = sorted(validator.iter_errors(payload), key=lambda error: [str(part) for part in error.absolute_path])
    except SchemaError as error:
        raise SchemaUnusable(_short(error.message)) from None
    except (Unresolvable, RecursionError) as error:
        raise SchemaUnusable(_short(str(error) or type(error).__name__)) from None
    found = dict.fromkeys(sentence for error in errors for sentence in _sentences(error))
    return list(found)[:MAX_PROBLEMS]


@cache
def _validator() -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend

    def is_integer(_checker: object, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool)

    types = Draft202012Validator.TYPE_CHECKER.redefine("integer", is_integer)
    return extend(Draft202012Validator, type_checker=types)  # type: ignore[no-untyped-call]


@cache
def _formats() -> Any:
    from jsonschema import FormatChecker
    from pydantic import TypeAdapter

    checker = FormatChecker(formats=())

    def reads(adapter: TypeAdapter[Any], value: object) -> bool:
        if isinstance(value, str):
            adapter.validate_json(json.dumps(value), strict=True)
        return True

    for name, form in _FORMATS.items():
        adapter: TypeAdapter[Any] = TypeAdapter(form)
        checker.checks(name, raises=ValueError)(lambda value, adapter=adapter: reads(adapter, value))
    return checker


_NOTHING = ("the type takes no parameters", "the object it is in is always empty")
"""Of a type, and of an object in a payload."""


def _sentences(error: ValidationError) -> Iterable[str]:
    where = _where(error.absolute_path)
    schema = error.schema
    value, rule = cast(Any, error.instance), cast(Any, error.validator_value)
    properties = schema.get("properties", {}) if isinstance(schema, Mapping) else {}
    if error.validator == "required" and isinstance(value, Mapping):
        return [f"{_where([*error.absolute_path, name])} is missing" for name in rule if name not in value]
    if error.validator == "additionalProperties" and rule is False:
        unknown = [name for name in value if name not in properties]
        known = f"there are {_listed(properties)}" if properties else _NOTHING[bool(error.absolute_path)]
        return [f"{_where([*error.absolute_path, name])} is not known; {known}" for name in unknown]
    if error.validator == "type":
        return [f"{where} must be {_types([error])}, not {_kind(value)}"]
    if error.validator in {"anyOf", "oneOf"} and error.context:
        return _of_branches(error, where)
    return [f"{where}: {_short(error.message)}"]


def _of_branches(error: ValidationError, where: str) -> Iterable[str]:
    """Return which types a value may have; if it has one of them, what is wrong with it by that branch."""
    branches: dict[object, list[ValidationError]] = {}
    for one in error.context or ():
        branches.setdefault(one.relative_schema_path[0], []).append(one)
    other = [one for of in branches.values() for one in of if one.validator == "type" and not one.relative_path]
    fitting = [of for of in branches.values() if not any(one in other for one in of)]
    if not fitting:
        return [f"{where} must be {_types(other)}, not {_kind(error.instance)}"]
    if len(fitting) == 1:
        return [sentence for one in fitting[0] for sentence in _sentences(one)]
    return [f"{where}: {_short(error.message)}"]


def _types(errors: Iterable[ValidationError]) -> str:
    names: list[str] = []
    for error in errors:
        rule = cast(Any, error.validator_value)
        names += [rule] if isinstance(rule, str) else rule
    return " or ".join(dict.fromkeys(names))


def _where(path: Iterable[str | int]) -> str:
    parts = [str(part) for part in path]
    return f"parameter '{safe('.'.join(parts), LONGEST_MESSAGE)}'" if parts else "the payload"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"'{safe(name, 60)}'" for name in list(names)[:LISTED_PARAMETERS])


def _kind(value: object) -> str:
    if isinstance(value, bool):
        return "boolean"
    if value is None:
        return "null"
    for kind, name in ((str, "string"), (int, "integer"), (float, "number"), (list, "array")):
        if isinstance(value, kind):
            return name
    return "object"


def _short(text: str) -> str:
    return safe(" ".join(text.split()), LONGEST_MESSAGE)
