"""Operations in Redis: a hash each, their members in a list, what they have changed in a text of marks."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from queue_core.errors import OperationNotFound
from queue_core.model.filters.saved import SavedFilter
from queue_core.model.operation import (
    UNCHANGED,
    Changed,
    ChangeOptions,
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
from queue_core.model.text import storable
from queue_core.model.triage.signatures import SignatureFacts
from queue_core.ports.operations import MemberJob
from queue_core.stores.redis import change
from queue_core.stores.redis.operations.members import (
    Members,
    OperationRemoval,
    abandon_operations,
    move_call,
    state_keys,
)
from queue_core.stores.redis.operations.steps import make_steps
from queue_core.stores.redis.records import (
    UNKNOWN,
    FrozenMember,
    fields_of,
    mapped,
    member_text,
    note_text,
    operation_of,
    whole,
)
from queue_core.stores.redis.session import JOBS_PER_SCRIPT, RedisLink, Restored, chunks, microseconds
from queue_core.stores.redis.statistics.signatures import set_facts, set_filter


class RedisOperations:
    """See queue_core.ports.operations.OperationStore for what each method does."""

    def __init__(self, settings: RedisSettings, rules: Rules | None = None, restored: Restored | None = None) -> None:
        self._link = RedisLink(settings)
        self._link.restored = restored
        self._members = Members(self._link)
        self._rules = rules or {}
        self._stepping = make_steps(self._link, self._rules)

    async def close(self) -> None:
        """Disconnect; doing it twice is safe."""
        await self._link.close()

    async def change(self, verb: MemberVerb, ids: Sequence[str], options: ChangeOptions = UNCHANGED) -> Changed:
        return await change.change(self._link, self._rules, verb, ids, options)

    async def pause(self, queue: str) -> bool:
        return await change.switch(self._link, queue, True)

    async def resume(self, queue: str) -> bool:
        return await change.switch(self._link, queue, False)

    async def set_closed(self, queue: str, closed: bool) -> bool:
        return await change.set_closed(self._link, queue, closed)

    async def command(self, worker: str, order: WorkerOrder) -> bool:
        return await change.command(self._link, worker, order)

    async def set_facts(self, signature: str, before: SignatureFacts, after: SignatureFacts) -> bool:
        return await set_facts(self._link, signature, before, after)

    async def set_filter(self, name: str, before: int, after: SavedFilter | None) -> bool:
        return await set_filter(self._link, name, before, after)

    async def create(self, request: OperationRequest) -> Operation:
        of = self._link.keys.operations_in
        commands = self._link.batch()
        commands.incr(self._link.keys.operation_number)
        (number,) = await self._link.send(commands)
        keys = [self._link.keys.operation(number), of("unfinished"), self._link.keys.operations, of("preparing")]
        keys += [of(f"of:{signature}") for signature in dict.fromkeys(request.signatures)]
        keys += [of("uncounted")] if request.verb == "retry" else []
        row = await self._link.run("operation_create", keys, [number, *fields_of(request)])
        return operation_of(number, mapped(number, row))

    async def add(self, number: int, ids: Sequence[str], chosen: float | None = None) -> Operation:
        keys = [self._link.keys.operation(number, name) for name in ("", "members", "ids")]
        keys.append(self._link.keys.operations_in("preparing"))
        view, before = await self.get(number), None if chosen is None else round(chosen * 1e6)
        for part in chunks(list(dict.fromkeys(map(storable, ids)))):
            found = await self._link.find(part, ["status", "token", "updated_at"])
            args: list[Any] = [number]
            for job_id in part:
                queue, (status, token, changed_at) = found.get(job_id, ("", ("", UNKNOWN, None)))
                if before is not None and not (status in FINAL and whole(changed_at) <= before):
                    token = UNKNOWN
                args += (job_id, member_text(FrozenMember(token or "0", queue, job_id)))
            row = await self._link.run("operation_add", keys, args)
            view = operation_of(number, mapped(number, row))
        return view

    async def step(self, number: int, most: int) -> StepResult:
        return await self._stepping.step(number, most)

    async def fail_member(self, number: int, note: str) -> Operation:
        row = await self._link.run("operation_fail_member", state_keys(self._link, number), [number, note_text(note)])
        return operation_of(number, mapped(number, row))

    async def note_drain(self, number: int, left: int) -> Operation:
        keys = [*state_keys(self._link, number), self._link.keys.operations_in("preparing")]
        row = await self._link.run("operation_note_drain", keys, [number, left])
        return operation_of(number, mapped(number, row))

    async def move(self, number: int, state: OperationState, note: str = "") -> bool:
        if state == "done" and (await self.get(number)).state == "preparing":
            return await self._note(number, note)
        release = (await self.get(number)).request.rollout.when_release if state == "running" else None
        (answer,) = await self._link.run_many([move_call(self._link, number, state, note, release=release)])
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

    async def pass_barrier(self, number: int, barrier: int) -> bool:
        answer = await self._link.run("operation_pass_barrier", [self._link.keys.operation(number)], [barrier])
        if answer < 0:
            raise OperationNotFound(number)
        return bool(answer)

    async def forget(self, number: int) -> None:
        (found,) = await self._read([number])
        if found is not None and found.state == "preparing":
            await OperationRemoval(self._link, None).forget(number)

    async def abandon(self) -> None:
        commands = self._link.batch()
        commands.time()
        (time,) = await self._link.send(commands)
        await abandon_operations(self._link, microseconds(time))

    async def outcomes(self, number: int, last: int, behind: int = 0, until: int | None = None) -> Outcomes:
        options = (await self.get(number)).request.options
        changed = await self._members.list_last_changed(number, last, behind, until)
        guesses = {one.id: options.queue or one.queue for one in changed}
        found = (await self._link.find_near(guesses, ["status", "retry_count"])).values()
        states = Counter(Status(status) for _, (status, _) in found)
        failed = Counter(Status(status) for _, (status, retries) in found if whole(retries))
        return Outcomes(
            len(changed),
            states[Status.COMPLETED],
            states[Status.DEAD],
            sum(count for status, count in states.items() if status not in FINAL),
            sum(count for status, count in failed.items() if status not in FINAL),
            failed[Status.COMPLETED],
        )

    async def note_outcomes(self, number: int, outcomes: Outcomes | None, final: bool) -> None:
        keys = [self._link.keys.operation(number), self._link.keys.operations_in("uncounted")]
        counts = "" if outcomes is None else json.dumps(outcomes)
        await self._link.run("operation_note_outcomes", keys, [number, counts, "1" if final else ""])

    async def list_uncounted(self, limit: int) -> list[Operation]:
        numbers = await self._older(self._link.keys.operations_in("uncounted"), None, max(limit, 0))
        return [one for one in await self._read(numbers) if one is not None and one.state != "preparing"]

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
            numbers = await self._older(key, before, min(limit, JOBS_PER_SCRIPT))
            read = [one for one in await self._read(numbers) if one is not None and not (unfinished and one.ended)]
            found += [one for one in read if signature is None or signature in one.request.signatures]
            if len(numbers) < min(limit, JOBS_PER_SCRIPT):
                break
            before = numbers[-1]
        return found[: max(limit, 0)]

    async def list_for_job(self, job_id: str, limit: int) -> list[Operation]:
        (key,) = self._link.keys.operations_of([storable(job_id)])
        numbers = await self._older(key, None, limit) if limit > 0 else []
        return [one for one in await self._read(numbers) if one is not None]

    async def list_members(self, number: int, after: int, limit: int) -> list[MemberJob]:
        await self.get(number)
        return await self._members.list_changed(number, after, limit)

    async def pending(self, number: int, limit: int) -> list[str]:
        done = (await self.get(number)).done
        return [member.id for member in await self._members.range(number, done, done + limit - 1)]

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
