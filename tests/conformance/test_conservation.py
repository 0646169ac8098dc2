"""Whatever is done in whatever order, the store agrees with a model, and no job is lost or doubled."""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.database import DirectoryBasedExampleDatabase
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from queue_core.model.filters import Filter
from queue_core.model.job import Claim
from queue_core.model.operation import Author, ChangeOptions, OperationRequest
from tests.conformance.making import LEASE, held, new_job, outcome
from tests.conformance.model import Model, seen
from tests.conformance.modes import OPENERS, empty
from tests.conformance.world import World

T = TypeVar("T")
Expected = Callable[[list[str], str], set[str]]
"""What the model does with these ids and a queue, and the ids that it changes."""

QUEUES = st.sampled_from(["a", "b"])
KINDS = st.sampled_from(["completed", "retrying", "dead", "released", "cancelled"])
SOME = st.lists(st.integers(0, 10_000), min_size=1, max_size=4)
"""Which of the jobs or claims, modulo their number."""


SEED = int(os.environ.get("CONSERVATION_SEED", "1"))
"""Decides which sequences are tried."""
EXAMPLES_FOLDER = Path(__file__).parents[2] / ".hypothesis" / "conservation"
"""Failing sequences, which the next run tries first: the second run of a test that failed begins with them."""


def bounds(examples: int, mode: str) -> settings:
    """Return how many sequences are tried, and how long they are; the seed and what failed before say which."""
    return settings(
        max_examples=examples,
        stateful_step_count=60,
        deadline=None,
        database=DirectoryBasedExampleDatabase(EXAMPLES_FOLDER / mode),
        # The failing sequence is printed as it was found: making it shorter would take minutes on a server.
        phases=[Phase.reuse, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


# A store without a server is fast, so more is tried there.
EXAMPLES = {"memory": 100}
FEWER = 12


def chosen(among: list[T], numbers: list[int]) -> list[T]:
    """Return some of a list, counted from its end, each once."""
    places = dict.fromkeys(number % len(among) for number in numbers) if among else {}
    return [among[-1 - place] for place in places]


class Operations(RuleBasedStateMachine):
    """Does the same to the store and to the model, and compares after each step."""

    def __init__(self, opened: Callable[[], Awaitable[World]], done: Callable[[], None]) -> None:
        super().__init__()
        self._done = done
        # The calls of this sequence. A fault that does not come again has no other trace.
        self._calls: list[str] = []
        self._runner = asyncio.Runner()
        self._world: World = self._run(opened())
        self._model = Model()
        self._claims: list[Claim] = []

    def _run(self, work: Awaitable[T]) -> T:
        if inspect.iscoroutine(work):
            given = {name: value for name, value in inspect.getcoroutinelocals(work).items() if name != "self"}
            self._calls.append(f"{work.__qualname__} {given}")

        async def awaited() -> T:
            return await work

        return self._runner.run(awaited())

    def teardown(self) -> None:
        if (error := sys.exc_info()[1]) is not None:
            error.add_note(f"seed {SEED}, {len(self._calls)} calls:\n" + "\n".join(self._calls))
        totals = self._run(self._world.inspector.tallies())
        where = self._run(self._world.inspector.conservation())
        self._run(self._world.close())
        self._runner.close()
        self._done()
        assert where == self._model.conservation()
        assert where.completed + where.dead + where.cancelled + where.unfinished == self._model.totals["enqueued"]
        counted: Counter[str] = Counter()
        for total in totals:
            counted[total.outcome] += total.count
        assert +counted == +self._model.totals

    def _in(self, states: set[str]) -> list[str]:
        """Return the jobs in these states; in the trash is one of its own."""
        return [job.id for job in self._model.jobs.values() if ("trashed" if job.trashed else job.status) in states]

    @initialize()
    def begin(self) -> None:
        for queue in ("a", "b"):
            self.insert(queue, [0, 0, 1, -1], delayed=False)

    # -- producers

    @rule(
        queue=QUEUES,
        priorities=st.lists(st.integers(-2, 2), min_size=1, max_size=6),
        delayed=st.booleans(),
        key=st.sampled_from([None, None, "k", "l"]),
    )
    def insert(self, queue: str, priorities: list[int], delayed: bool, key: str | None = None) -> None:
        jobs = [
            new_job(queue=queue, priority=priority, delay=LEASE * delayed, ordering_key=key) for priority in priorities
        ]
        answers = self._run(self._world.store.insert(jobs))
        assert all(answer.created for answer in answers)
        for job in jobs:
            self._model.insert(job.id, queue, job.priority, delayed, key)

    @precondition(lambda self: self._in({"queued", "running"}))
    @rule(number=st.integers(0, 10_000))
    def insert_again(self, number: int) -> None:
        (job_id,) = chosen(self._in({"queued", "running"}), [number])
        (answer,) = self._run(self._world.store.insert([new_job(id=job_id)]))
        assert not answer.created

    # -- workers

    @rule(queue=QUEUES, limit=st.integers(1, 5))
    def claim(self, queue: str, limit: int) -> None:
        self._claimed(self._run(self._world.claim(limit, queue=queue)), self._model.claimable(queue)[:limit])

    @rule(queue=QUEUES, numbers=SOME)
    def claim_nominated(self, queue: str, numbers: list[int]) -> None:
        ids = [*chosen(self._in({"queued"}), numbers), *chosen(list(self._model.jobs), numbers)]
        expected = [job_id for job_id in self._model.claimable(queue) if job_id in ids]
        self._claimed(self._run(self._world.claim(10, queue=queue, ids=ids)), expected)

    @rule(queue=QUEUES, kinds=st.lists(KINDS, min_size=1, max_size=4))
    def work(self, queue: str, kinds: list[str]) -> None:
        """Claim and settle at once, so that a short sequence goes far."""
        self.claim(queue, len(kinds))
        self._settle([claim for claim in self._claims if self._holds(claim)][-len(kinds) :], kinds)

    @precondition(lambda self: self._in({"retrying"}))
    @rule()
    def wait_for_retries(self) -> None:
        self.pass_time()
        self.promote()

    def _claimed(self, claims: list[Claim], expected: list[str]) -> None:
        assert [claim.id for claim in claims] == expected
        for claim in sorted(claims, key=lambda claim: claim.token):
            self._model.claim(claim.id, claim.token)
        self._claims += claims

    @precondition(lambda self: self._in({"running"}))
    @rule(numbers=SOME, kinds=st.lists(KINDS, min_size=4, max_size=4))
    def settle(self, numbers: list[int], kinds: list[str]) -> None:
        self._settle(chosen([claim for claim in self._claims if self._holds(claim)], numbers), kinds)

    @precondition(lambda self: len(self._claims) > len(self._in({"running"})))
    @rule(numbers=SOME, kinds=st.lists(KINDS, min_size=4, max_size=4))
    def settle_late(self, numbers: list[int], kinds: list[str]) -> None:
        """Of attempts that are over, those first whose job runs again."""
        running = set(self._in({"running"}))
        late = [claim for claim in self._claims if not self._holds(claim)]
        self._settle(chosen(sorted(late, key=lambda claim: claim.id in running), numbers), kinds)

    def _settle(self, claims: list[Claim], kinds: list[str]) -> None:
        pairs = list(zip(claims, kinds, strict=False))
        expected = [self._holds(claim) for claim in claims]
        answers = self._run(self._world.store.settle([outcome(claim, kind) for claim, kind in pairs]))
        for (claim, kind), answer, holds in zip(pairs, answers, expected, strict=True):
            # What is told again may be accepted again.
            assert answer.accepted or not holds
            if holds:
                self._model.settle(claim.id, kind)

    def _holds(self, claim: Claim) -> bool:
        return self._model.holds(claim.id, claim.token)

    @precondition(lambda self: self._claims)
    @rule(numbers=SOME)
    def beat(self, numbers: list[int]) -> None:
        holding = [claim for claim in self._claims if self._holds(claim)]
        claims = {claim.id: claim for claim in chosen(self._claims, numbers[:1]) + chosen(holding, numbers)}.values()
        reply = self._run(self._world.beat(*(held(claim) for claim in claims)))
        renewed = {claim.id for claim in claims if self._holds(claim)}
        assert set(reply.lost) == {claim.id for claim in claims} - renewed
        assert set(reply.cancel) == {job.id for job in self._model.jobs.values() if job.cancel}
        for job_id in renewed:
            self._model.jobs[job_id].overdue = False

    # -- the leader

    @rule()
    def pass_time(self) -> None:
        self._run(self._world.advance(LEASE + 5))
        self._model.pass_time()

    @rule()
    def promote(self) -> None:
        assert {ready.id for ready in self._run(self._world.store.promote(1000))} == self._model.promote()

    @rule()
    def reclaim(self) -> None:
        assert {lost.id for lost in self._run(self._world.store.reclaim(1000, 3))} == self._model.reclaim()

    @rule()
    def upkeep(self) -> None:
        self._run(self._world.store.upkeep())

    # -- operators

    @precondition(lambda self: self._in({"dead", "completed"}))
    @rule(numbers=SOME)
    def retry(self, numbers: list[int]) -> None:
        self._change("retry", self._in({"dead", "completed"}), numbers, self._model.retry)

    @precondition(lambda self: self._in({"dead"}))
    @rule(numbers=SOME)
    def delete(self, numbers: list[int]) -> None:
        self._change("delete", self._in({"dead"}), numbers, lambda ids: self._model.trash(ids, True))

    @precondition(lambda self: self._in({"trashed"}))
    @rule(numbers=SOME)
    def restore(self, numbers: list[int]) -> None:
        self._change("restore", self._in({"trashed"}), numbers, lambda ids: self._model.trash(ids, False))

    @precondition(lambda self: self._in({"trashed"}))
    @rule(numbers=SOME)
    def purge(self, numbers: list[int]) -> None:
        self._change("purge", self._in({"trashed"}), numbers, self._model.purge)

    @precondition(lambda self: self._in({"running"}))
    @rule(numbers=SOME)
    def cancel_running(self, numbers: list[int]) -> None:
        self._change("cancel", self._in({"running"}), numbers, self._model.cancel)

    @rule(numbers=SOME)
    def cancel_any(self, numbers: list[int]) -> None:
        self._change("cancel", [], numbers, self._model.cancel)

    def _change(
        self, verb: str, among: list[str], numbers: list[int], expected: Callable[[list[str]], set[str]]
    ) -> None:
        """Of those that the verb acts on, and one of all."""
        ids = [*chosen(among, numbers), *chosen(list(self._model.jobs), numbers[:1])]
        changed: Any = self._run(self._world.change(verb, ids))
        assert set(changed.ids) == expected(ids)

    @precondition(lambda self: self._in({"scheduled", "queued", "retrying", "dead"}))
    @rule(queue=QUEUES, numbers=SOME, waiting=st.booleans())
    def move(self, queue: str, numbers: list[int], waiting: bool) -> None:
        among = self._in({"scheduled", "queued", "retrying"} if waiting else {"dead"})
        self._operate("move", queue, among, numbers, self._model.move)

    @precondition(lambda self: self._in({"dead", "completed"}))
    @rule(queue=QUEUES, numbers=SOME)
    def retry_elsewhere(self, queue: str, numbers: list[int]) -> None:
        self._operate("retry", queue, self._in({"dead", "completed"}), numbers, self._model.retry_in)

    def _operate(
        self,
        verb: str,
        queue: str,
        among: list[str],
        numbers: list[int],
        expected: Callable[[list[str], str], set[str]],
    ) -> None:
        """The same by an operation, in steps of two."""
        ids = [*chosen(among, numbers), *chosen(list(self._model.jobs), numbers[:1])]
        asked = OperationRequest(verb, "some", Author("ana", "bastion-1"), options=ChangeOptions(queue=queue))
        changed: set[str] = set()

        async def carry_out() -> None:
            operations = self._world.operations
            number = (await operations.create(asked)).number
            await operations.add(number, ids)
            await operations.move(number, "running")
            while not (step := await operations.step(number, 2)).operation.ended:
                changed.update(step.changed.ids)
            changed.update(step.changed.ids)

        self._run(carry_out())
        assert changed == expected(ids, queue)

    @precondition(lambda self: {job.queue for job in self._model.jobs.values()} >= {"a", "b"})
    @rule(queue=QUEUES, paused=st.booleans())
    def switch(self, queue: str, paused: bool) -> None:
        operations = self._world.operations
        verb = operations.pause if paused else operations.resume
        assert self._run(verb(queue)) == ((queue in self._model.paused) is not paused)
        (self._model.paused.add if paused else self._model.paused.discard)(queue)

    @invariant()
    def agrees(self) -> None:
        found = {}
        for trash in (False, True):
            page = self._run(self._world.inspector.jobs(Filter(trash=trash), 1000))
            found |= {job.id: seen(job) for job in page.jobs}
            for job in page.jobs:
                self._model.jobs[job.id].learn(job.token)
        assert found == {job.id: job.seen() for job in self._model.jobs.values()}


@pytest.mark.parametrize("mode", list(OPENERS))
def test_the_store_agrees_with_the_model(mode: str, request: pytest.FixtureRequest) -> None:
    fixture, opener = OPENERS[mode]
    address: str | None = request.getfixturevalue(fixture) if fixture else None

    def machine() -> Operations:
        return Operations(opener(address), lambda: None if address is None else empty(address))

    run_state_machine_as_test(seed(SEED)(machine), settings=bounds(EXAMPLES.get(mode, FEWER), mode))
