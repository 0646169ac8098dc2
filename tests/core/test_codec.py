"""Payloads as JSON text."""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_core.errors import InvalidJob
from queue_core.model.codec import decode_payload, encode_payload, encode_result
from tests.hostile import Guarded


@pytest.mark.parametrize("text", ['{"a":1}', ' \n{"a": 1}', '{"a": 1}\r\n', '{"a":[1,2,{"b":null}]}'])
def test_a_payload_is_read_with_any_white_space(text: str) -> None:
    assert decode_payload(text) == json.loads(text)


@pytest.mark.parametrize(
    "text", ["", " ", "{", '{"a":1}x', '{"a":1}{}', '\ufeff{"a":1}', "[1]", "null", '"a"', "[" * 100_000]
)
def test_what_is_not_one_json_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_payload(text)


class Colour(enum.StrEnum):
    RED = "red"


def _nested(levels: int, end: Any) -> dict[str, Any]:
    value = end
    for _ in range(levels):
        value = {"a": value}
    return {"a": value}


def _endless() -> dict[str, Any]:
    payload: dict[str, Any] = {}
    payload["a"] = [payload, payload]
    return payload


# lone surrogates, too
texts = st.text(st.characters(exclude_categories=(), exclude_characters="\0"))
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner) | st.dictionaries(texts, inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(st.dictionaries(texts, anything))
def test_a_payload_comes_back_as_json_would_bring_it(payload: dict[str, Any]) -> None:
    try:
        text = json.dumps(payload, ensure_ascii=False, allow_nan=False)
        text.encode()
    except ValueError:
        return
    assert decode_payload(encode_payload(payload, 1 << 30)) == json.loads(text)


@pytest.mark.parametrize(
    "make",
    [
        lambda: {"a": datetime.now(UTC)},
        lambda: {"a": Decimal(1)},
        lambda: {"a": b"x"},
        lambda: {"a": {1, 2}},
        lambda: {"a": [{"b": float("nan")}]},
        lambda: {"a": float("inf")},
        lambda: {"a": (-float("inf"),)},
        lambda: {"a": "\0"},
        lambda: {"a": ["\ud800"]},
        lambda: {"a": 10**5000},
        lambda: {1: "a"},
        lambda: _nested(101, 1),
        lambda: _nested(5000, 1),
        _endless,
    ],
)
def test_what_is_not_json_is_refused_at_any_depth(make: Callable[[], Any]) -> None:
    for payload in (make(), {"b": [make()]}):
        with pytest.raises(InvalidJob):
            encode_payload(payload, 1 << 30)


@pytest.mark.parametrize(
    ("payload", "place", "why"),
    [
        ({"a": 1, "when": datetime(2030, 1, 1)}, "when", "Object of type datetime has no JSON form"),
        ({"a": [{"x": 1}, {"price": Decimal(1)}], "b": {1}}, "a.1.price", "Object of type Decimal has no JSON form"),
        ({"a": {"b": (0, float("nan"))}}, "a.b.1", "NaN and infinity have no JSON form"),
    ],
)
def test_the_parameter_that_has_no_json_form_is_named(payload: dict[str, Any], place: str, why: str) -> None:
    with pytest.raises(InvalidJob, match=f"^the payload is not JSON: parameter '{re.escape(place)}': {why}$"):
        encode_payload(payload, 1 << 20)


def test_a_number_of_too_many_digits_is_named_without_advice_for_programs() -> None:
    with pytest.raises(InvalidJob, match=r"^the payload holds a number of more than 4,300 digits$"):
        encode_payload({"a": [10**5000]}, 1 << 20)


@pytest.mark.parametrize("key", [1, 1.5, True, None, (1,)])
def test_inner_keys_that_are_no_texts_are_refused_for_a_value_could_be_lost(key: object) -> None:
    for payload in ({"x": {key: "a", "1": "b"}}, {"x": [{"y": ({key: 1},)}]}, {"x": Colour.RED, "y": {key: 1}}):
        with pytest.raises(InvalidJob):
            encode_payload(payload, 1 << 20)
    assert encode_result({"x": {1: "a"}}, 1000) == '{"x":{"1":"a"}}'


def test_what_a_payload_may_hold_besides_plain_values() -> None:
    payload = {"a": Colour.RED, "b": {Colour.RED: True}, "c": (1, 2), "d": _nested(97, {})}
    assert json.loads(encode_payload(payload, 1 << 20)) == json.loads(json.dumps(payload))


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"made": "a.png"}, '{"made":"a.png"}'),
        ([1, 2.5, None, {"a": "é"}], '[1,2.5,null,{"a":"é"}]'),
        ((), "[]"),
        (None, "null"),
        (Colour.RED, '"red"'),
        ({"a": {1}}, "\"{'a': {1}}\""),
        ({2: "a", "1": "b"}, '{"2":"a","1":"b"}'),
        ([{1: "a", "1": "b"}], "\"[{1: 'a', '1': 'b'}]\""),
        ({"x": {None: 1, "null": 2}}, "\"{'x': {None: 1, 'null': 2}}\""),
    ],
)
def test_a_result_is_kept_as_json_or_as_its_text(result: object, text: str) -> None:
    assert encode_result(result, 1000) == text


class Nameless(metaclass=Guarded):
    """A value whose class does not answer what it is called."""

    def __repr__(self) -> str:
        raise KeyboardInterrupt


class Refusing(dict[str, int]):
    """A dict whose code raises."""

    def items(self) -> Any:
        raise RuntimeError("no items")

    def __repr__(self) -> str:
        raise SystemExit(3)


class Changing(dict[str, Any]):
    """A dict that changes while it is read, as one does that other threads fill."""

    def items(self) -> Any:
        for one in super().items():
            self[f"{len(self)}"] = 1
            yield one

    def __repr__(self) -> str:
        return "\ud800 changes \0"


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (Refusing(a=1), '"<Refusing, which cannot be shown: SystemExit>"'),
        (Changing(a=1), '"\\\\ud800 changes ␀"'),
        (Nameless(), '"<Nameless, which cannot be shown: KeyboardInterrupt>"'),
        ([Changing(a=1)], '"[\\\\ud800 changes ␀]"'),
    ],
)
def test_a_result_whose_own_code_fails_is_kept_as_its_text(result: object, text: str) -> None:
    """The job did its work."""
    assert encode_result(result, 1000) == text


@pytest.mark.parametrize("levels", [90, 101, 400, 900])
def test_a_nul_deep_inside_is_refused_as_such_or_for_the_depth(levels: int) -> None:
    value = _nested(levels, "\0")
    with pytest.raises(InvalidJob, match="NUL character" if levels < 100 else "deep"):
        encode_payload({"x": value}, 1 << 20)
    assert encode_result(value, 4000)
