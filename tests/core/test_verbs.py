"""The facts of the verbs that change jobs: one table, for all stores and clients."""

from __future__ import annotations

from typing import get_args

import pytest

from queue_core import JobQueue
from queue_core.errors import InvalidArgument
from queue_core.model.operation import VERBS, ChangeOptions, MemberVerb


def test_every_verb_has_its_facts() -> None:
    assert tuple(VERBS) == get_args(MemberVerb)
    for facts in VERBS.values():
        assert facts.options <= set(ChangeOptions._fields)
        assert facts.undo is None or facts.undo in VERBS


@pytest.mark.parametrize(
    ("verb", "way"),
    [
        ("delete", ChangeOptions(delay=1.0)),
        ("restore", ChangeOptions(queue="else")),
        ("purge", ChangeOptions(priority=3)),
        ("cancel", ChangeOptions(spread=1.0)),
        ("move", ChangeOptions(delay=1.0, queue="else")),
        ("move", ChangeOptions()),
        ("fly", ChangeOptions()),
        (["retry"], ChangeOptions()),
    ],
)
async def test_what_a_verb_does_not_take_is_refused(verb: MemberVerb, way: ChangeOptions) -> None:
    async with JobQueue(memory=True) as jobs:
        with pytest.raises(InvalidArgument):
            await jobs.operations.change(verb, ["x"], way)


async def test_a_duration_may_be_written_out() -> None:
    async with JobQueue(memory=True) as jobs:
        handle = await jobs.enqueue("a", delay=60)
        await jobs.operations.change("move", [handle.id], ChangeOptions(queue="else"))
        assert (await jobs.get(handle.id)).queue == "else"
        (claim,) = [await jobs.claim_next("now")] if await jobs.enqueue("b", queue="now") else []
        assert claim is not None
        await claim.fail(ValueError("no"), retry=False)
        await jobs.operations.change("retry", [claim.id], ChangeOptions(delay="5m"))  # type: ignore[arg-type]
        assert await jobs.status_of(claim.id) == "scheduled"
