"""Payloads as JSON text."""

from __future__ import annotations

import json

import pytest

from queue_core.model.codec import decode_payload


@pytest.mark.parametrize("text", ['{"a":1}', ' \n{"a": 1}', '{"a": 1}\r\n', '{"a":[1,2,{"b":null}]}'])
def test_a_payload_is_read_with_any_white_space(text: str) -> None:
    assert decode_payload(text) == json.loads(text)


@pytest.mark.parametrize(
    "text", ["", " ", "{", '{"a":1}x', '{"a":1}{}', '\ufeff{"a":1}', "[1]", "null", '"a"', "[" * 100_000]
)
def test_what_is_not_one_json_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        decode_payload(text)
