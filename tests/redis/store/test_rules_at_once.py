"""Rules hold over any number of processes: exactly, and at any moment."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context
from typing import Any

import pytest

from queue_core.ports.store import ClaimRequest
from tests.conformance.making import LEASE, QUEUE, TYPE, new_job
from tests.redis.store import crowd
from tests.redis.store.crowd import Link, Run

PROCESSES = 4
MIXED = {"completed": 6, "retrying": 2, "released": 2, "lost": 1}


@pytest.fixture
def pool() -> Iterator[ProcessPoolExecutor]:
    """Processes of their own, which share nothing but the server."""
    context = get_context("spawn")
    with ProcessPoolExecutor(PROCESSES, context, crowd.introduce, (context.Barrier(PROCESSES),)) as pool:
        yield pool


@pytest.fixture
def link(redis_url: str, redis_prefix: str) -> Link:
    """The store without rules."""
    return Link(redis_url, redis_prefix, {})


def done(futures: list[Future[Any]]) -> list[Any]:
    return [future.result(120) for future in futures]


def ready(link: Link) -> int:
    return len(crowd.opened(link, lambda store: store.list_ready(QUEUE, -1, 10_000)))


def test_a_limit_is_met_exactly(pool: ProcessPoolExecutor, link: Link) -> None:
    limited = link._replace(rules={"limit": 300})
    accepted = done([pool.submit(crowd.fill, limited, seed, 7) for seed in range(PROCESSES)])
    assert sum(accepted) == ready(link) == 300
    assert sum(1 for number in accepted if number) > 1, "one of them did it all"


def test_a_limit_is_never_exceeded_while_others_work(pool: ProcessPoolExecutor, link: Link) -> None:
    bands = link._replace(rules={"limit": 40, "band_limits": {"high": 15, "low": 10}})
    pushing = [pool.submit(crowd.push, bands, priority, 150) for priority in (10, 5, 0)]
    most = pool.submit(crowd.drain, bands, 450).result(120)
    pushed = done(pushing)
    assert 10 <= most <= 40
    assert [number for number, _ in pushed] == [150] * 3
    assert ready(link) == 0


def test_a_band_is_met_exactly(pool: ProcessPoolExecutor, link: Link) -> None:
    limits = {"high": 30, "normal": 20, "low": 10}
    bands = link._replace(rules={"band_limits": limits})
    done([pool.submit(crowd.push, bands, priority, most) for priority, most in ((20, 30), (7, 20), (-5, 10))])
    refused = done([pool.submit(crowd.fill, bands, seed, 1) for seed in range(PROCESSES)])
    assert (refused, ready(link)) == ([0] * PROCESSES, 60)


def test_producers_agree_on_who_holds_a_key(pool: ProcessPoolExecutor, link: Link) -> None:
    found = done([pool.submit(crowd.enqueue_unique, link, seed, 200) for seed in range(PROCESSES)])
    holders = {name: {answer[name][0] for answer in found} for name in found[0]}
    assert all(len(ids) == 1 for ids in holders.values())
    created = [sum(created for _, created in answer.values()) for answer in found]
    assert sum(created) == ready(link) == 200


def indices(ids: list[str], runs: list[Run]) -> list[int]:
    """Return which of the jobs were given out, claim after claim: tokens grow from claim to claim."""
    place = {job_id: number for number, job_id in enumerate(ids)}
    return [place[run.id] for run in sorted(runs) if run.id in place]


def test_each_key_in_order_one_at_a_time(pool: ProcessPoolExecutor, link: Link) -> None:
    """With retries, releases and lost workers: a job's last claim comes before the first one of the next."""
    enqueueing = {key: pool.submit(crowd.enqueue_ordered, link, key, 40) for key in ("one", "two", "three")}
    working = [pool.submit(crowd.work_off, link, f"w{number}", 120, MIXED) for number in range(3)]
    runs = [run for some in done(working) for run in some]
    for future in enqueueing.values():
        ids = future.result(120)
        order = indices(ids, runs)
        assert set(order) == set(range(40))
        assert all(one <= other for one, other in pairwise(order))
        ended = [run.id for run in runs if run.kind == "completed" and run.accepted and run.id in set(ids)]
        assert len(ended) == len(set(ended)) > 30
    assert {run.kind for run in runs} == set(MIXED)


def overlap(runs: list[Run]) -> int:
    """Return how many ran at a time."""
    changes = sorted([(run.start, 1) for run in runs] + [(run.end, -1) for run in runs])
    running = most = 0
    for _, change in changes:
        running += change
        most = max(most, running)
    return most


def test_no_more_run_than_the_concurrency(pool: ProcessPoolExecutor, link: Link) -> None:
    crowd.opened(link, lambda store: store.insert([new_job() for _ in range(300)]))
    limited = link._replace(rules={"concurrency": 4})
    kinds = {"completed": 3, "released": 1}
    working = [pool.submit(crowd.work_off, limited, f"w{number}", 300, kinds) for number in range(PROCESSES)]
    runs = [run for some in done(working) for run in some]
    assert sum(run.kind == "completed" for run in runs) == 300
    assert 2 <= overlap(runs) <= 4


def test_so_many_of_a_key_as_its_rules_say(pool: ProcessPoolExecutor, link: Link) -> None:
    two = link._replace(rules={"key_concurrency": 2})
    enqueued = pool.submit(crowd.enqueue_ordered, two, "one", 120).result(120)
    working = [pool.submit(crowd.work_off, two, f"w{number}", 120, {"completed": 1}) for number in range(PROCESSES)]
    runs = [run for some in done(working) for run in some]
    assert sorted(run.id for run in runs) == sorted(enqueued)
    assert overlap(runs) == 2


def test_a_rate_counts_over_all_processes(pool: ProcessPoolExecutor, link: Link) -> None:
    crowd.opened(link, lambda store: store.insert([new_job() for _ in range(2_000)]))
    rated = link._replace(rules={"rate": "100/s"})
    answers = [pool.submit(crowd.take_as_fast_as_it_goes, rated, f"w{number}", 1.5) for number in range(PROCESSES)]
    taken, starts, ends = zip(*done(answers), strict=True)
    passed = max(ends) - min(starts)
    assert 100 + 100 * 1.0 <= sum(taken) <= 100 + 100 * passed + 1
    # And what was not used is saved up for a second, no longer.
    more = crowd.opened(rated, lambda store: store.claim(ClaimRequest(QUEUE, "w", (TYPE,), 1000, LEASE)))
    assert len(more) <= 100
