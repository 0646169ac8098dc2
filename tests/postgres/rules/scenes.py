"""One ordering key with jobs in every state, plans that change them, and two of these in each other's way."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from queue_core.model.job import Outcome, new_id
from queue_core.model.operation import ChangeOptions
from queue_core.model.rules import QueueRules, Rules
from queue_core.model.settings import SCHEMA
from queue_core.ports.store import ClaimRequest
from queue_core.stores.postgres.change import TargetJob, cancel, delete, members_of, move, retry
from queue_core.stores.postgres.claim import ClaimBehind
from queue_core.stores.postgres.dialect import load
from queue_core.stores.postgres.insert import insert_with_rules
from queue_core.stores.postgres.ordering import promote_with_keys
from queue_core.stores.postgres.session.plans import Plan
from queue_core.stores.postgres.settle import reclaim_with_keys, settle_late, settle_soon
from tests.conformance.making import QUEUE, TYPE, failure
from tests.postgres.traps.hands import Hand, claim_parameters, new_job

MOST = 3
OTHER = "other"
RULES: Rules = {QUEUE: QueueRules(key_concurrency=MOST), OTHER: QueueRules(key_concurrency=MOST)}
NUMBERS = {QUEUE: 1, OTHER: 2}
TOKEN = 100

Text = Callable[[str], bytes]
"""Gives the text of a query by its name."""

ours: Text = partial(load, schema=SCHEMA)
"""The queries as they are."""

JOBS = """
insert into jobs (id, queue_id, rank, seq, priority, status, run_at, type, payload, max_retries, losses, ordering_key,
                  admitted)
select id, 1, case when admitted and status = 'queued' then 122::bigint << 45 | seq end, seq, 5, status::job_status,
       now() - interval '1 minute', 'task', '{}', 3, losses, %(key)s, admitted
  from (select id, nextval('job_seq') as seq, status, losses, admitted
          from (values (%(lost)s::uuid, 'queued', 19, true), (%(running)s::uuid, 'queued', 0, true),
                       (%(first)s::uuid, 'queued', 0, false), (%(second)s::uuid, 'queued', 0, false),
                       (%(due)s::uuid, 'scheduled', 0, false)) as v (id, status, losses, admitted)) n
"""
LEASES = """
insert into leases (id, token, queue_id, worker, started_at, expires_at)
values (%(lost)s, 100, 1, 'w', now() - interval '2 minutes', now() - interval '1 minute'),
       (%(running)s, 100, 1, 'w', now(), now() + interval '1 hour')
"""
DEAD = """
insert into jobs_dead (id, queue_id, seq, priority, run_at, type, payload, retry_count, crashes, max_retries,
                       last_token, signature, kind, created_at, ordering_key, admitted)
select id, 1, nextval('job_seq'), 5, now(), 'task', '{}', 3, 0, 3, 99, 'x', 'error', now(), %(key)s, admitted
  from (values (%(dead)s::uuid, true), (%(free)s::uuid, false)) as v (id, admitted)
"""
STATE = """
select (select count(*) from jobs where queue_id = %(queue)s and ordering_key = %(key)s and admitted)
       + (select count(*) from jobs_dead where queue_id = %(queue)s and ordering_key = %(key)s and admitted),
       (select count(*) from jobs
         where queue_id = %(queue)s and ordering_key = %(key)s and not admitted and status = 'queued'),
       (select count(*) from ordering_locks where queue_id = %(queue)s and key = %(key)s)
"""


class Scene(NamedTuple):
    """Three jobs hold the key, one with a lost worker, one dead; two wait, one is due, one dead holds nothing."""

    key: str
    lost: str
    running: str
    first: str
    second: str
    due: str
    dead: str
    free: str

    def members(self) -> list[TargetJob]:
        """Return the jobs as they stand, but one that has run since."""
        waiting = [TargetJob(job_id, 0) for job_id in (self.first, self.due, self.running)]
        return [*waiting, TargetJob(self.dead, 99), TargetJob(self.free, 98)]

    def outcome(self, kind: Any, **given: Any) -> Outcome:
        return Outcome(self.running, TOKEN, QUEUE, TYPE, kind, ordering_key=self.key, **given)


class State(NamedTuple):
    """Who has the key and who waits for it."""

    holding: int
    waiting: int
    locks: int

    @property
    def well(self) -> bool:
        """Whether no more have it than may, and nobody waits although there is room."""
        return self.holding <= MOST and (self.holding == MOST or not self.waiting)


def scene(hand: Hand, waiting: bool = True) -> Scene:
    """Set one up, under a key of its own; without those that wait, whoever comes to wait is the only one."""
    found = Scene(*[new_id() for _ in range(8)])
    params = found._asdict()
    for statement in (JOBS, LEASES, DEAD, "insert into ordering_locks values (1, %(key)s)"):
        hand.do(statement, params)
    if not waiting:
        hand.do("delete from jobs where id in (%(first)s, %(second)s)", params)
    return found


def state(hand: Hand, key: str, queue: str = QUEUE) -> State:
    return State(*hand.do(STATE, {"key": key, "queue": NUMBERS[queue]})[0])


BEHIND = ClaimBehind(
    ClaimRequest(QUEUE, "w", (TYPE,), 1, 60.0, ()),
    claim_parameters(1, [], limit=1, starting=1),
    RULES[QUEUE],
    None,
    None,
)
"""The claim of what an end has released."""

Action = Callable[[Scene], Plan[Any]]

ACTIONS: dict[str, Action] = {
    "complete": lambda on: settle_soon([on.outcome("completed")], RULES),
    "hand over": lambda on: settle_soon([on.outcome("completed")], RULES, [BEHIND]),
    "complete at once": lambda on: settle_soon([on.outcome("completed")], RULES, (), NUMBERS),
    "hand over at once": lambda on: settle_soon([on.outcome("completed")], RULES, [BEHIND], NUMBERS),
    "bury": lambda on: settle_soon([on.outcome("dead", failure=failure())], RULES),
    "reschedule": lambda on: settle_soon([on.outcome("released", to_back=True)], RULES),
    "complete late": lambda on: settle_late([on.outcome("completed")], RULES),
    "reclaim": lambda on: reclaim_with_keys([(on.lost, QUEUE, on.key)], RULES),
    "insert": lambda on: insert_with_rules([new_job(ordering_key=on.key) for _ in range(2)], NUMBERS, RULES),
    "promote": lambda on: promote_with_keys([(on.due, QUEUE, None, on.key)], RULES),
    "cancel": lambda on: cancel(members_of([on.first, on.due, on.running, on.lost]), ChangeOptions(), RULES),
    "retry": lambda on: retry(members_of([on.dead, on.free]), ChangeOptions(), RULES),
    "retry elsewhere": lambda on: retry(members_of([on.dead, on.free]), ChangeOptions(queue=OTHER), RULES),
    "delete": lambda on: delete(members_of([on.dead]), ChangeOptions(), RULES),
    "move": lambda on: move(on.members(), ChangeOptions(queue=OTHER), RULES),
    "move in place": lambda on: move(on.members(), ChangeOptions(priority=9), RULES),
}


class Player:
    """Carries out a plan by hand, query by query."""

    def __init__(self, hand: Hand, plan: Plan[Any], text: Text = ours) -> None:
        self.hand = hand
        self.steps = 0
        self._plan = plan
        self._text = text
        self._query: tuple[str, Any] | None = next(plan)
        hand.do("begin")

    @property
    def next_query(self) -> str | None:
        """The name of the next query; None behind the last."""
        return None if self._query is None else self._query[0]

    def step(self) -> bool:
        """Run the next query; False when it was the last."""
        assert self._query is not None
        name, params = self._query
        rows = self.hand.do(self._text(name), params)
        self.steps += 1
        try:
            self._query = self._plan.send(rows)
        except StopIteration:
            self._query = None
        return self._query is not None

    def play(self) -> None:
        """Run what is left."""
        while self._query is not None:
            self.step()

    def commit(self) -> None:
        self.hand.do("commit")

    def finish(self) -> None:
        self.play()
        self.commit()


def meet(one: Player, other: Callable[[], Player], after: int, watcher: Hand, held_back: bool) -> bool:
    """Let one plan come so far, then the other until it waits or ends, then both end; False when one was over before.

    The other's commit comes at its own end, or is held back until after the first one's, unless that waits for it.
    """
    while one.steps < after:
        if not one.step():
            one.finish()
            return False
    late = other()
    playing = late.hand.work(late.play)
    waits = late.hand.waits_or_ends(playing, watcher)
    if not waits and not held_back:
        late.commit()
    finishing = one.hand.work(one.finish)
    if waits:
        finishing.result()
        playing.result()
    elif held_back:
        one.hand.waits_or_ends(finishing, watcher)
    if waits or held_back:
        late.commit()
    finishing.result()
    return True
