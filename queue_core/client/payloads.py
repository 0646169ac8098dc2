"""What a task's parameters may hold: checked where a job is enqueued and again where it runs.

Parameters whose annotation is a plain JSON type (`int`, `str | None`, `list`, `dict[str, Any]`) cost one look at the
value's type and are never converted: "5" is no int, True is no int, 1 is a float. Every other annotation (`datetime`,
`UUID`, enums, paths, dataclasses, pydantic models, `list[int]`, …) is read by pydantic: stored as JSON, given to the
handler as the annotated type. Keys are texts in JSON: an enqueue is refused where a key would arrive as another one, or
two as one. Models decide by their own configuration what they convert. Parameters without an
annotation, or with one that pydantic has no form for, take any JSON value.
"""

from __future__ import annotations

import dataclasses
import inspect
import logging
import re
import types
import typing
from collections import deque
from collections.abc import Callable, Mapping, Set
from functools import cached_property, partial
from typing import Any

import typing_extensions
from pydantic import BaseModel, ConfigDict, PydanticUserError, TypeAdapter, ValidationError
from pydantic_core import PydanticSerializationError

from queue_core.errors import ConfigurationError, InvalidJob
from queue_core.model.codec import encode_payload
from queue_core.model.signature import message_of
from queue_core.model.text import type_name

logger = logging.getLogger("queue_core")


_PLAIN: dict[Any, frozenset[type]] = {
    str: frozenset({str}),
    int: frozenset({int}),
    float: frozenset({float, int}),
    bool: frozenset({bool}),
    None: frozenset({type(None)}),
    type(None): frozenset({type(None)}),
    list: frozenset({list}),
    dict: frozenset({dict}),
}
_ANY = (Any, object, inspect.Parameter.empty)
_KEY = "[key]"
"""The last part of where an error is that is in a key."""
_KEYED = ("'dict'", "set'", "'any'", "function")
"""Parts of a schema of pydantic's whose values may be, or hold, mappings or sets."""
_UNBOUNDED = 1 << 62
"""Bytes; the limit of payloads is checked where the job is made."""


def name_of(function: Callable[..., Any]) -> str:
    """Return the name that a function gives to its task.

    Raises:
        ConfigurationError: it has none.
    """
    name = getattr(function, "__name__", None)
    if not isinstance(name, str):
        what = f"functools.{type(function).__name__}" if isinstance(function, partial) else type(function).__name__
        raise ConfigurationError(f"a handler of the type '{what}' has no name of its own: give the task a name=")
    return name


def signature_of(function: Callable[..., Any], name: str) -> inspect.Signature:
    """Return the parameters of what a task is made of.

    Raises:
        ConfigurationError: they are not known, as those of `int` and `max` are not.
    """
    try:
        return inspect.signature(function)
    except ValueError:
        raise ConfigurationError(
            f"task '{name}': the parameters of {function!r} are not known; write a function that calls it"
        ) from None


def is_coroutine_function(function: Callable[..., Any], name: str) -> bool:
    """Return whether a call of it gives a coroutine; objects that can be called count, too.

    Raises:
        ConfigurationError: a call of it gives a generator, whose body no call runs.
    """
    while isinstance(function, partial):
        function = function.func
    kinds = (function, type(function).__call__)
    if any(inspect.isgeneratorfunction(one) or inspect.isasyncgenfunction(one) for one in kinds):
        raise ConfigurationError(
            f"task '{name}' is a generator function, whose body no job runs: write it without yield, or run it in a "
            "function that is the task"
        )
    return any(inspect.iscoroutinefunction(one) for one in kinds)


class PayloadTypes:
    """The parameters of one task."""

    def __init__(self, task: str, function: Callable[..., Any], signature: inspect.Signature) -> None:
        self._task = task
        self._signature = signature
        parameters = signature.parameters.values()
        texts = [parameter.annotation for parameter in parameters if isinstance(parameter.annotation, str)]
        self._globals: dict[str, Any] = getattr(function, "__globals__", {})
        self._locals = _locals_named_in(texts, function) if texts else {}
        self._open = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters)
        named = [parameter for parameter in parameters if parameter.kind is not inspect.Parameter.VAR_KEYWORD]
        self._known = frozenset(parameter.name for parameter in named)
        self._needed = frozenset(parameter.name for parameter in named if parameter.default is parameter.empty)

    # -- at enqueue

    def dumped(self, payload: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a payload as it is stored, with every value in its JSON form.

        Raises:
            InvalidJob: a parameter is missing, unknown or of another type; the sentence names it.
        """
        if not isinstance(payload, dict):
            return payload  # the codec defines what a payload is
        given = payload.keys()
        if given != self._known and not (self._needed <= given and (self._open or given <= self._known)):
            self._misfit(payload)
        kinds = self._kinds
        for name, value in payload.items():
            kind = kinds.get(name)
            if kind is not None and type(value) not in kind and not _is_kind(value, kind):
                raise self._wrong(name, kind, value)
        return payload if self._adapter is None else self._dumped_rich(payload)

    def _dumped_rich(self, payload: dict[str, Any]) -> dict[str, Any]:
        stored = dict(payload)
        for name, adapter in self._rich.items():
            if name not in stored:
                continue
            if name in self._secret:
                raise InvalidJob(
                    f"task '{self._task}': parameter '{name}' is a secret; it would be stored as asterisks"
                )
            try:
                stored[name] = adapter.dump_python(
                    stored[name], mode="json", by_alias=True, round_trip=True, warnings=False
                )
            except (PydanticSerializationError, ValueError, TypeError, AttributeError) as error:
                text = str(error).partition("\n")[0]
                raise InvalidJob(f"task '{self._task}': parameter '{name}' has no JSON form: {text}") from None
        arguments = self._validated(encode_payload(stored, _UNBOUNDED))
        for name in self._with_keys & arguments.keys() & payload.keys():
            if loss := _lost(payload[name], arguments[name]):
                raise InvalidJob(f"task '{self._task}': parameter '{name}': {loss}")
        return stored

    # -- at run

    def loaded(self, payload: dict[str, Any], text: str) -> dict[str, Any]:
        """Return the arguments that a stored payload means, given decoded and as the text it was.

        Raises:
            ValueError: a parameter is of another type.
        """
        kinds = self._kinds
        for name, value in payload.items():
            kind = kinds.get(name)
            if kind is not None and type(value) not in kind:
                raise self._wrong(name, kind, value)
        return payload if self._adapter is None else self._validated(text)

    def _validated(self, text: str) -> dict[str, Any]:
        assert self._adapter is not None
        try:
            arguments: dict[str, Any] = self._adapter.validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            path = [str(part) for part in first["loc"]]
            key = ""
            if _KEY in path:
                at = path.index(_KEY)
                path, key = path[: at - 1], f": the key {path[at - 1]!r:.80}, which is a text in JSON"
            where = f"parameter '{'.'.join(path)}'{key}" if path else "the payload"
            raise InvalidJob(f"task '{self._task}': {where}: {_one_line(first['msg'])}") from None
        except Exception as error:
            what = f"{type_name(type(error))}: {message_of(error)}"
            raise InvalidJob(f"task '{self._task}': a validator raised {what}") from error
        return arguments

    # -- what the annotations mean

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of a payload."""
        drawable = {name: bool(_schema_of(self._adapted[name])) for name in self._known}
        text = self._reader({name for name in self._known if drawable[name]}).json_schema() | {"title": self._task}
        for name, part in text["properties"].items():
            part.pop("title", None)
            default = self._signature.parameters[name].default
            if default is None or type(default) in (str, int, float, bool):
                part["default"] = default
        return {"required": [], **text, "additionalProperties": self._open}

    @cached_property
    def _annotations(self) -> dict[str, Any]:
        # At the first use, not at the definition: what an annotation names may come further down in the module.
        return {name: self._resolved(self._signature.parameters[name]) for name in self._known}

    def _resolved(self, parameter: inspect.Parameter) -> Any:
        annotation = parameter.annotation
        if not isinstance(annotation, str):
            return annotation
        try:
            return eval(annotation, self._globals, self._locals)
        except Exception as error:  # noqa: BLE001  any exception of an annotation: its type stays unknown
            logger.warning("task '%s': parameter '%s' is not checked: %s", self._task, parameter.name, error)
            return Any

    @cached_property
    def _kinds(self) -> dict[str, frozenset[type]]:
        found = {name: _kinds_of(annotation) for name, annotation in self._annotations.items()}
        return {name: kinds for name, kinds in found.items() if kinds}

    @cached_property
    def _rich(self) -> dict[str, TypeAdapter[Any]]:
        """The parameters that pydantic reads."""
        plain = {name for name, annotation in self._annotations.items() if _kinds_of(annotation) is not None}
        return {
            name: adapter for name, adapter in self._adapted.items() if adapter is not _anything and name not in plain
        }

    @cached_property
    def _with_keys(self) -> frozenset[str]:
        """The parameters that may hold mappings or sets."""
        return frozenset(
            name for name, adapter in self._rich.items() if any(part in str(adapter.core_schema) for part in _KEYED)
        )

    @cached_property
    def _secret(self) -> frozenset[str]:
        return frozenset(
            name for name, adapter in self._rich.items() if "'writeOnly': True" in str(_schema_of(adapter))
        )

    @cached_property
    def _adapted(self) -> dict[str, TypeAdapter[Any]]:
        return {name: _adapter_of(annotation) for name, annotation in self._annotations.items()}

    @cached_property
    def _adapter(self) -> TypeAdapter[Any] | None:
        """Reads a whole payload; None when all parameters are plain."""
        adapted = {name for name in self._known if self._adapted[name] is not _anything}
        return self._reader(adapted) if self._rich else None

    def _reader(self, adapted: set[str]) -> TypeAdapter[Any]:
        """Return what reads a whole payload, in which the other parameters may be anything."""
        fields: dict[str, Any] = {}
        for name in (name for name in self._signature.parameters if name in self._known):
            form = self._annotations[name] if name in adapted else Any
            fields[name] = form if name in self._needed else typing_extensions.NotRequired[form]
        typed_dict: Any = typing_extensions.TypedDict  # as a function: the fields are not known to a type checker
        shape = typed_dict("Payload", fields)
        shape.__pydantic_config__ = ConfigDict(strict=True, extra="allow" if self._open else "forbid")
        return TypeAdapter(shape)

    # -- sentences

    def _misfit(self, payload: dict[str, Any]) -> None:
        try:
            self._signature.bind(**payload)
        except TypeError as error:
            raise InvalidJob(f"task '{self._task}': {error}") from None

    def _wrong(self, name: str, kinds: frozenset[type], value: object) -> InvalidJob:
        wanted = "float" if kinds == _PLAIN[float] else " or ".join(sorted(_name_of(kind) for kind in kinds))
        return InvalidJob(f"task '{self._task}': parameter '{name}' must be {wanted}, not {_name_of(type(value))}")


_anything: TypeAdapter[Any] = TypeAdapter(Any)


def _locals_named_in(texts: list[str], function: Callable[..., Any]) -> dict[str, Any]:
    """Return what annotations may mean in the scope that defines the task, which may be a function with own classes."""
    names = set(re.findall(r"[^\W\d]\w*", " ".join(texts)))
    frame = inspect.currentframe()
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("queue_core."):
        frame = frame.f_back
    if frame is None or frame.f_globals is not getattr(function, "__globals__", None):
        return {}
    return {
        name: frame.f_locals[name] for name in names if name in frame.f_locals and frame.f_locals is not frame.f_globals
    }


def _kinds_of(annotation: Any) -> frozenset[type] | None:
    """Return the classes that a plain annotation allows, none for anything, or None for pydantic to decide."""
    if annotation in _ANY:
        return frozenset()
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        parts = [_kinds_of(part) for part in arguments]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        return frozenset() if not all(known) else frozenset().union(*known)
    if (origin is list and arguments == (Any,)) or (origin is dict and arguments == (str, Any)):
        return _PLAIN[origin]
    try:
        return _PLAIN.get(annotation)
    except TypeError:  # an annotation that has no hash
        return None


def _is_kind(value: object, kinds: frozenset[type]) -> bool:
    """Return whether a value's class derives from one of these, as an IntEnum does from int; True is no number."""
    if isinstance(value, tuple) and list in kinds:
        return True
    return not isinstance(value, bool) and isinstance(value, tuple(kinds))


def _adapter_of(annotation: Any) -> TypeAdapter[Any]:
    if _kinds_of(annotation) == frozenset():
        return _anything
    try:
        return TypeAdapter(annotation)
    except (PydanticUserError, NameError, TypeError):
        return _anything


def _schema_of(adapter: TypeAdapter[Any]) -> dict[str, Any]:
    try:
        return adapter.json_schema()
    except PydanticUserError:  # a type that has no JSON Schema
        return {}


def _lost(sent: Any, arrives: Any) -> str:
    """Return which key of a mapping, or value of a set, is lost on the way to the handler; "" when none is."""
    if isinstance(sent, Set) and isinstance(arrives, Set):
        return "two values of a set are the same in JSON" if len(arrives) < len(sent) else ""
    if isinstance(sent, Mapping) and isinstance(arrives, Mapping):
        if loss := _lost_key(sent, arrives):
            return loss
        pairs = [(value, arrives[key]) for key, value in sent.items() if key in arrives]
    elif isinstance(sent, _LISTS) and isinstance(arrives, _LISTS):
        pairs = list(zip(sent, arrives, strict=False))
    else:
        # A model may be sent as the object that it is in JSON.
        fields, found = _fields_of(arrives), sent if isinstance(sent, Mapping) else _fields_of(sent)
        pairs = [(value, fields[name]) for name, value in found.items() if name in fields]
    return next((loss for one, other in pairs if (loss := _lost(one, other))), "")


_LISTS = (list, tuple, deque)


def _lost_key(sent: Mapping[Any, Any], arrives: Mapping[Any, Any]) -> str:
    strange = [key for key in sent if not isinstance(key, str)]
    for key in strange:
        if key not in arrives and key == key:  # noqa: PLR0124  a NaN is none of the keys
            return f"the key {key!r:.80} would arrive as another one: JSON has texts as keys"
    # What a model of texts as keys leaves out is its own affair.
    if len(arrives) < len(sent) and (strange or not all(isinstance(key, str) for key in arrives)):
        return "two keys of an object are the same in JSON"
    return ""


def _fields_of(value: Any) -> dict[str, Any]:
    """Return the fields of a model or a dataclass that travel, by their names; of everything else none."""
    if isinstance(value, BaseModel):
        travel = {name for name, field in type(value).model_fields.items() if not field.exclude}
        return {name: one for name, one in vars(value).items() if name in travel} | (value.model_extra or {})
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [field.name for field in dataclasses.fields(value)]
        return {name: getattr(value, name) for name in names if hasattr(value, name)}
    return {}


def _name_of(kind: type) -> str:
    return "None" if kind is type(None) else kind.__name__


def _one_line(text: str) -> str:
    return " ".join(text.split())
