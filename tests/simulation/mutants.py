"""Parts of the product taken out, to show that the simulation finds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

from queue_core.model.job import Outcome
from queue_core.stores.memory import store as store_module
from queue_core.stores.memory.state import MemoryOrderingLocks, MemoryState
from queue_core.worker.attempt import RunningAttempt
from queue_core.worker.settler import Settler


def without_fence() -> AbstractContextManager[Any]:
    """Let an outcome end whatever attempt its job has by now."""
    settle = store_module.settle

    def settled(state: MemoryState, outcome: Outcome) -> Any:
        row = state.jobs.get(outcome.id)
        if row is not None and row.lease is not None:
            outcome = outcome._replace(token=row.lease.token)
        return settle(state, outcome)

    return patch.object(store_module, "settle", settled)


def without_end_of_leases() -> AbstractContextManager[Any]:
    """Let nobody take back what a worker holds that is gone."""

    async def reclaim(_store: Any, _limit: int, _bound: int = 0) -> list[Any]:
        return []

    return patch.object(store_module.MemoryStore, "reclaim", reclaim)


def without_second_settle() -> AbstractContextManager[Any]:
    """Let outcomes go whose settle failed."""

    def forget(_settler: Any, _batch: Sequence[Outcome]) -> None:
        pass

    return patch.object(Settler, "_put_back", forget)


def without_ordering() -> AbstractContextManager[Any]:
    """Let all jobs of an ordering key through at once."""
    admit: Any = MemoryOrderingLocks.admit
    return patch.object(MemoryOrderingLocks, "admit", lambda locks, row, _most: admit(locks, row, 1 << 30))


def without_own_clock() -> AbstractContextManager[Any]:
    """Let handlers begin however long ago their jobs were claimed."""
    return patch.object(RunningAttempt, "outlived", lambda _attempt, _now: False)


MUTANTS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "fence": without_fence,
    "end-of-leases": without_end_of_leases,
    "second-settle": without_second_settle,
    "ordering": without_ordering,
    "own-clock": without_own_clock,
}
"""What can be taken out, by name."""


@contextmanager
def mutated(name: str | None) -> Iterator[None]:
    """Take a part out, if one is named."""
    with nullcontext() if name is None else MUTANTS[name]():
        yield
