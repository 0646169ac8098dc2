"""The options of an enqueue are a record, keyword arguments for type checkers, and documented: all three alike."""

import re
from dataclasses import fields
from typing import get_type_hints

from queue_core import JobQueue
from queue_core.client.tasks import EnqueueArguments, EnqueueOptions


def test_the_keyword_arguments_are_those_of_the_record() -> None:
    assert get_type_hints(EnqueueArguments) == get_type_hints(EnqueueOptions)
    assert [field.name for field in fields(EnqueueOptions) if field.default is not None] == []


def test_each_is_documented() -> None:
    documented = set(re.findall(r"\b(\w+): ", JobQueue.enqueue.__doc__ or ""))
    assert set(get_type_hints(EnqueueOptions)) <= documented
