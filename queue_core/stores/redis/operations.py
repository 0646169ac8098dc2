"""Operations in Redis: a hash each, their members in a list, what they have changed in a text of marks."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from queue_core.errors import OperationNotFound, StoreUnavailable
from queue_core.model.operation import (
    ABANDONED,
    ENDED,
    MOVES,
    NEVER_STARTED,
    UNCHANGED,
    Changed,
    ChangeOptions,
    MemberJob,
    MemberVerb,
    Operation,
    OperationRequest,
    OperationState,
    Outcomes,
    StepResult,
    WorkerOrder,
)
from queue_core.model.rules import Rules
from queue_core.model.settings import RedisSettings
from queue_core.model.states import FINAL, Status
from queue_core.redis.scripts import Call
from queue_core.stores.redis import change
from queue_core.stores.redis.change import STATE_FIELDS, ChangeOutcome, JobState, QueueBatch, StepKey, VerbScripts
from queue_core.stores.redis.hints import DueHints
from queue_core.stores.redis.records import (
    UNKNOWN,
    FrozenMember,
    fields_of,
    mapped,
    member_of,
    member_text,
    note_text,
    operation_of,
    whole,
)
from queue_core.stores.redis.session import CHUNK, RedisLink, chunks, microseconds

MARKS_STEP = 10_000
"""Marks read in one go."""


class Members:
    """Reads the members of operations."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def range(self, number: int, first: int, last: int) -> list[FrozenMember]:
        """Return members between two places, from 0, both included."""
        key, found = self._link.keys.operation(number, "members"), []
        for start in range(first, last + 1, MARKS_STEP):
            commands = self._link.batch()
            commands.lrange(key, start, min(last, start + MARKS_STEP - 1))
            found += (await self._link.send(commands))[0]
        return [member_of(text) for text in found]

    async def list_changed(self, number: int, after: int, limit: int) -> list[MemberJob]:
        """Return members that were changed, in their order, behind a place."""
        places: list[int] = []
        first, size = max(after, 0), await self._size(number)
        while first < size and len(places) < limit:
            places += await self._marked(number, first, first + MARKS_STEP - 1)
            first += MARKS_STEP
        return await self._at(number, places[: max(limit, 0)])

    async def list_last_changed(self, number: int, last: int) -> list[MemberJob]:
        """Return the last members that were changed, in their order."""
        places: list[int] = []
        end = await self._size(number)
        while end > 0 and len(places) < last:
            places = await self._marked(number, max(0, end - MARKS_STEP), end - 1) + places
            end -= MARKS_STEP
        return await self._at(number, places[-last:] if last > 0 else [])

    async def note(self, number: int, ids: Sequence[str], changed: bool = True) -> None:
        """Note with jobs that an operation has changed them, or that it has not."""
        for part in chunks(ids):
            commands = self._link.batch()
            for key in self._link.keys.operations_of(part):
                if changed:
                    commands.zadd(key, {str(number): number})
                else:
                    commands.zrem(key, number)
            await self._link.send(commands)

    async def _size(self, number: int) -> int:
        commands = self._link.batch()
        commands.strlen(self._link.keys.operation(number, "changed"))
        return int((await self._link.send(commands))[0])

    async def _marked(self, number: int, first: int, last: int) -> list[int]:
        """Return the places of marks between two places."""
        commands = self._link.batch()
        commands.getrange(self._link.keys.operation(number, "changed"), first, last)
        (marks,) = await self._link.send(commands)
        return [place for place, mark in enumerate(marks, first) if mark == "1"]

    async def _at(self, number: int, places: Sequence[int]) -> list[MemberJob]:
        """Return the members at places in ascending order."""
        found: list[MemberJob] = []
        for part in chunks(places, CHUNK):
            key, commands = self._link.keys.operation(number, "members"), self._link.batch()
            spans = _spans(part)
            for first, last in spans:
                commands.lrange(key, first, last)
            for (first, _), texts in zip(spans, await self._link.send(commands), strict=True):
                members = enumerate(map(member_of, texts), first + 1)
                found += [MemberJob(place, member.id, member.queue) for place, member in members]
        return found


def _spans(places: Sequence[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each run of places without gaps."""
    spans: list[tuple[int, int]] = []
    for place in places:
        if spans and spans[-1][1] == place - 1:
            spans[-1] = (spans[-1][0], place)
        else:
            spans.append((place, place))
    return spans


def state_keys(link: RedisLink, number: int) -> list[str]:
    """Return the keys of an operation that may end: its hash, those that have not ended, those that have."""
    return [link.keys.operation(number), link.keys.operations_in("unfinished"), link.keys.operations_in("ended")]


def move_call(
    link: RedisLink, number: int, state: OperationState, note: str,
    unchanged: int | None = None, members: int | None = None,
) -> Call:  # fmt: skip
    """Return the script that moves an operation.

    It does only when nothing has changed it for so many us, and when it has so many members, if these are given.
    """
    keys = [*state_keys(link, number), link.keys.operations_in("preparing")]
    keys += [link.keys.operation(number, name) for name in ("ids", "changed")]
    from_states = [before for before, after in MOVES.items() if state in after]
    if unchanged is not None:
        from_states = ["preparing"]
    conditions = ["" if one is None else one for one in (unchanged, members)]
    end = "1" if state in ENDED else ""
    return Call("operation_move", keys, [number, state, end, note_text(note), *conditions, *from_states])


ABANDONED_US = round(ABANDONED * 1e6)


async def abandon_operations(link: RedisLink, now: int) -> None:
    """Cancel operations that are still preparing long after their last change."""
    preparing = await older_operations(link, "preparing", now - ABANDONED_US)
    await link.run_many([move_call(link, number, "cancelled", NEVER_STARTED, ABANDONED_US) for number in preparing])


async def older_operations(link: RedisLink, name: str, until: int) -> list[int]:
    commands = link.batch()
    commands.zrangebyscore(link.keys.operations_in(name), "-inf", f"({until}", start=0, num=CHUNK)
    (numbers,) = await link.send(commands)
    return [int(number) for number in numbers]


# Steps of operations: the scripts that change jobs and the one that counts them, in one transaction.
#
# Whatever becomes of it, the numbers are exact: the scripts mark what they have changed under the operation, and pass
# over what is marked; the count moves `done` from where it was seen, so that of several executors one counts.

TRIES = 5
"""Times that a step is tried whose jobs were elsewhere by then, or whose scripts a server did not know."""


ELSEWHERE = 250
"""Members of a step at most whose jobs go to another queue or priority: each takes as long as two others."""


class _Read(NamedTuple):
    """An operation as it was read."""

    view: Operation
    # us until its next step is due
    wait: int


class OperationSteps:
    """See queue_core.ports.operations.OperationStore.step."""

    def __init__(self, link: RedisLink, rules: Rules) -> None:
        self._link = link
        self._members = Members(link)
        self._verbs = VerbScripts(link, rules)
        self._hints = DueHints(link)

    async def step(self, number: int, most: int) -> StepResult:
        """Change the next members that are as they were frozen, and count all of them."""
        outcome = ChangeOutcome()
        for _ in range(TRIES):
            view, wait = await self._read(number)
            options = view.request.options
            size = most if options.queue is None and options.priority is None else min(most, ELSEWHERE)
            count = min(max(size, 0), view.barrier - view.done)
            if view.state != "running" or count <= 0:
                return StepResult(view, outcome.result())
            if wait > 0:
                return StepResult(view, outcome.result(), wait / 1e6)
            members = await self._members.range(number, view.done, view.done + count - 1)
            step = StepKey(number, view.done, secrets.token_hex(8))
            parts = await self._parts(view, members, step)
            calls = [*(part.call for part in parts), self._count(step, members, len(parts))]
            *answers, counted = await self._link.run_many(calls, together=True)
            for part, answer in zip(parts, answers, strict=True):
                outcome.take(part, answer)
            if counted[0] >= 0:
                if change.noted_as_waiting(view.request.verb, options):
                    await self._hints.waiting({part.target for part in parts})
                row = mapped(number, counted[1:])
                wait = whole(row.get("next_at")) - whole(row["updated_at"]) if counted[0] else 0
                changed = outcome.result([member.id for member in members])
                return StepResult(operation_of(number, row), changed, max(0, wait) / 1e6)
        raise StoreUnavailable("redis", "it forgets its scripts all the time")

    async def _read(self, number: int) -> _Read:
        commands = self._link.batch()
        commands.hgetall(self._link.keys.operation(number))
        commands.time()
        row, time = await self._link.send(commands)
        view = operation_of(number, mapped(number, [part for pair in row.items() for part in pair]))
        return _Read(view, whole(row.get("next_at")) - microseconds(time))

    async def _parts(self, view: Operation, members: Sequence[FrozenMember], step: StepKey) -> list[QueueBatch]:
        """Return the scripts for those members that may be as they were frozen."""
        guesses = {one.id: one.queue for one in members if one.token != UNKNOWN}
        found = await self._link.find_near(guesses, STATE_FIELDS)
        jobs: list[JobState] = []
        for place, member in enumerate(members, view.done):
            if member.id in found and member.token != UNKNOWN:
                job = change.state_of(member.id, *found[member.id], place)
                # Tokens only grow: one that has another one does not come back to this one.
                if job.token == member.token:
                    jobs.append(job)
        return list(self._verbs.parts(view.request.verb, jobs, view.request.options, step))  # type: ignore[arg-type]

    def _count(self, step: StepKey, members: Sequence[FrozenMember], parts: int) -> Call:
        number = step.number
        keys = [*state_keys(self._link, number), self._link.keys.operation(number, "changed")]
        keys += self._link.keys.operations_of(member.id for member in members)
        return Call("operation_count", keys, [number, step.done, f"{step.name} {parts}" if parts else ""])


class RedisOperations:
    """See queue_core.ports.operations.OperationStore for what each method does."""

    def __init__(self, settings: RedisSettings, rules: Rules | None = None) -> None:
        self._link = RedisLink(settings)
        self._members = Members(self._link)
        self._rules = rules or {}
        self._stepping = OperationSteps(self._link, self._rules)

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        await self._link.close()

    async def change(self, verb: MemberVerb, ids: Sequence[str], options: ChangeOptions = UNCHANGED) -> Changed:
        return await change.change(self._link, self._rules, verb, ids, options)

    async def pause(self, queue: str) -> bool:
        return await change.switch(self._link, queue, True)

    async def resume(self, queue: str) -> bool:
        return await change.switch(self._link, queue, False)

    async def command(self, worker: str, order: WorkerOrder) -> bool:
        return await change.command(self._link, worker, order)

    async def create(self, request: OperationRequest) -> Operation:
        of = self._link.keys.operations_in
        commands = self._link.batch()
        commands.incr(self._link.keys.operation_number)
        (number,) = await self._link.send(commands)
        keys = [self._link.keys.operation(number), of("unfinished"), self._link.keys.operations, of("preparing")]
        keys += [of(f"of:{signature}") for signature in dict.fromkeys(request.signatures)]
        row = await self._link.run("operation_create", keys, [number, *fields_of(request)])
        return operation_of(number, mapped(number, row))

    async def add(self, number: int, ids: Sequence[str]) -> Operation:
        keys = [self._link.keys.operation(number, name) for name in ("", "members", "ids")]
        keys.append(self._link.keys.operations_in("preparing"))
        view = await self.get(number)
        for part in chunks(list(dict.fromkeys(ids))):
            found = await self._link.find(part, ["status", "token"])
            args: list[Any] = [number]
            for job_id in part:
                queue, (_, token) = found.get(job_id, ("", ("", UNKNOWN)))
                args += (job_id, member_text(FrozenMember(token or "0", queue, job_id)))
            row = await self._link.run("operation_add", keys, args)
            view = operation_of(number, mapped(number, row))
        return view

    async def step(self, number: int, most: int) -> StepResult:
        return await self._stepping.step(number, most)

    async def fail_member(self, number: int, note: str) -> Operation:
        row = await self._link.run("operation_fail_member", state_keys(self._link, number), [number, note_text(note)])
        return operation_of(number, mapped(number, row))

    async def move(self, number: int, state: OperationState, note: str = "") -> bool:
        if state == "done" and (await self.get(number)).state == "preparing":
            return await self._note(number, note)
        (answer,) = await self._link.run_many([move_call(self._link, number, state, note)])
        if answer < 0:
            raise OperationNotFound(number)
        return bool(answer)

    async def _note(self, number: int, note: str) -> bool:
        """Let an operation be done that was done at once: all its members count as changed."""
        while (view := await self.get(number)).state == "preparing":
            ids = [member.id for member in await self._members.range(number, 0, view.total - 1)]
            await self._members.note(number, ids)
            call = move_call(self._link, number, "done", note, members=len(ids))
            (answer,) = await self._link.run_many([call])
            if answer > 0:
                return True
            await self._members.note(number, ids, changed=False)
        return False

    async def pass_canary(self, number: int) -> bool:
        answer = await self._link.run("operation_pass_canary", [self._link.keys.operation(number)], [])
        if answer < 0:
            raise OperationNotFound(number)
        return bool(answer)

    async def abandon(self) -> None:
        commands = self._link.batch()
        commands.time()
        (time,) = await self._link.send(commands)
        await abandon_operations(self._link, microseconds(time))

    async def outcomes(self, number: int, last: int) -> Outcomes:
        options = (await self.get(number)).request.options
        changed = await self._members.list_last_changed(number, last)
        found = await self._link.find_near({one.id: options.queue or one.queue for one in changed}, ["status"])
        states = Counter(Status(status) for _, (status,) in found.values())
        unfinished = sum(count for status, count in states.items() if status not in FINAL)
        return Outcomes(len(changed), states[Status.COMPLETED], states[Status.DEAD], unfinished)

    async def get(self, number: int) -> Operation:
        (found,) = await self._read([number])
        if found is None:
            raise OperationNotFound(number)
        return found

    async def list_operations(
        self, limit: int, before: int | None = None, unfinished: bool = False, signature: str | None = None
    ) -> list[Operation]:
        key = self._link.keys.operations
        if unfinished:
            # There are few of them.
            key = self._link.keys.operations_in("unfinished")
        elif signature is not None:
            key = self._link.keys.operations_in(f"of:{signature}")
        found: list[Operation] = []
        while len(found) < limit:
            numbers = await self._older(key, before, min(limit, CHUNK))
            read = [one for one in await self._read(numbers) if one is not None and not (unfinished and one.ended)]
            found += [one for one in read if signature is None or signature in one.request.signatures]
            if len(numbers) < min(limit, CHUNK):
                break
            before = numbers[-1]
        return found[: max(limit, 0)]

    async def list_for_job(self, job_id: str, limit: int) -> list[Operation]:
        (key,) = self._link.keys.operations_of([job_id])
        numbers = await self._older(key, None, limit) if limit > 0 else []
        return [one for one in await self._read(numbers) if one is not None]

    async def list_members(self, number: int, after: int, limit: int) -> list[MemberJob]:
        await self.get(number)
        return await self._members.list_changed(number, after, limit)

    async def _older(self, key: str, before: int | None, limit: int) -> list[int]:
        """Return the highest numbers of a set, below another one."""
        commands = self._link.batch()
        highest = "+inf" if before is None else f"({before}"
        commands.zrevrangebyscore(key, highest, "-inf", start=0, num=limit)
        return [int(number) for number in (await self._link.send(commands))[0]]

    async def _read(self, numbers: Sequence[int]) -> list[Operation | None]:
        commands = self._link.batch()
        for number in numbers:
            commands.hgetall(self._link.keys.operation(number))
        rows = await self._link.send(commands) if numbers else []
        return [operation_of(number, row) if row else None for number, row in zip(numbers, rows, strict=True)]
