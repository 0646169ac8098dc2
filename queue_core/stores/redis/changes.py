"""What operators change: the jobs are found first, then changed by the script where their state still allows it."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Literal

from queue_core.errors import QueueNotFound
from queue_core.inspection import Changed
from queue_core.job import Ready
from queue_core.redis.scripts import Call
from queue_core.rules import Rules, rules_of
from queue_core.stores.redis.link import Link, chunks
from queue_core.stores.redis.ruling import GATES, told
from queue_core.stores.redis.upkeep import remove

_RETRY = (
    "pending", "scheduled", "unfinished", "completed", "dlq", "trash", "causes", "seq", "types", "tallies", "minutes",
    "depths", *GATES, "unique", "unique_ends", "arrival",
)  # fmt: skip
_CANCEL = (
    "pending", "offered", "scheduled", "retrying", "unfinished", "cancelled", "cancelling", "types", "tallies",
    "minutes", "depths", *GATES,
)  # fmt: skip
_DELETE = ("dlq", "trash", *GATES, "pending")
_RESTORE = ("dlq", "trash")


class Changes:
    """See queue_core.inspection.Inspector for what each method does."""

    def __init__(self, link: Link, rules: Rules) -> None:
        self._link = link
        self._rules = rules

    async def retry(self, ids: Sequence[str], spread: float = 0.0) -> Changed:
        """Move dead and completed jobs to queued, or to scheduled at random moments within `spread` seconds."""
        changed: list[str] = []
        ready: list[Ready] = []
        for queue, part in await self._parts(ids):
            delays = [round(random.uniform(0, spread) * 1e6) if spread > 0 else 0 for _ in part]
            rules = rules_of(self._rules, queue)
            args = [rules.aging_us, rules.open_keys, *(one for pair in zip(part, delays, strict=True) for one in pair)]
            for job_id, answer in zip(part, await self._run("retry", _RETRY, queue, part, args), strict=True):
                if answer:
                    changed.append(job_id)
                if answer[:1] == "r":
                    ready.append(Ready(job_id, queue, int(answer[1:])))
        return Changed(tuple(changed), tuple(ready))

    async def cancel(self, ids: Sequence[str]) -> Changed:
        """Move waiting jobs to cancelled; ask the workers of running ones to stop them."""
        return await self._change("cancel", _CANCEL, ids)

    async def delete(self, ids: Sequence[str]) -> Changed:
        """Move dead jobs to the trash."""
        return await self._change("delete", _DELETE, ids)

    async def restore(self, ids: Sequence[str]) -> Changed:
        """Move jobs from the trash back into the DLQ."""
        changed: list[str] = []
        for queue, part in await self._parts(ids):
            answers = await self._run("restore", _RESTORE, queue, part, part)
            changed += [job_id for job_id, answer in zip(part, answers, strict=True) if answer]
        return Changed(tuple(changed))

    async def purge(self, ids: Sequence[str]) -> Changed:
        """Remove jobs in the trash for good."""
        gone: list[str] = []
        for queue, part in await self._parts(ids):
            gone += await remove(self._link, self._rules, queue, "trash", part, ("purged", None))
        return Changed(tuple(gone))

    async def pause(self, queue: str, paused: bool) -> bool:
        """Let no worker claim from this queue, or let them again; False when this changed nothing."""
        commands = self._link.batch()
        commands.sismember(self._link.keys.queues, queue)
        if not (await self._link.send(commands))[0]:
            raise QueueNotFound(queue)
        commands = self._link.batch()
        if paused:
            commands.setnx(self._link.keys.of(queue, "paused"), 1)
        else:
            commands.delete(self._link.keys.of(queue, "paused"))
            # Workers have dropped what was offered to them meanwhile; without its marker all of it is offered again.
            commands.delete(self._link.keys.of(queue, "gen"))
        return bool((await self._link.send(commands))[0])

    async def command(self, worker: str, command: Literal["quiet", "resume", "stop"]) -> bool:
        """Give a worker an order that its next heartbeat brings."""
        return bool(await self._link.run("order", [self._link.keys.workers], [worker, command]))

    async def _change(self, verb: str, names: Iterable[str], ids: Sequence[str]) -> Changed:
        changed: list[str] = []
        ready: dict[str, Ready] = {}
        for queue, part in await self._parts(ids):
            args: list[str | int] = [rules_of(self._rules, queue).open_keys, *part]
            for job_id, answer in zip(part, await self._run(verb, names, queue, part, args), strict=True):
                done, opened = told(queue, answer)
                if done:
                    changed.append(job_id)
                    # One before it in this list may have let it through.
                    ready.pop(job_id, None)
                ready |= {one.id: one for one in opened}
        return Changed(tuple(changed), tuple(ready.values()))

    async def _parts(self, ids: Sequence[str]) -> list[tuple[str, Sequence[str]]]:
        """Return the ids that are known by queue, in their order, in parts for one script each."""
        groups: dict[str, list[str]] = {}
        found = await self._link.find(ids, ["status"])
        for job_id in dict.fromkeys(ids):
            if job_id in found:
                groups.setdefault(found[job_id][0], []).append(job_id)
        return [(queue, part) for queue, group in groups.items() for part in chunks(group)]

    async def _run(
        self, verb: str, names: Iterable[str], queue: str, ids: Sequence[str], args: Sequence[str | int]
    ) -> list[str]:
        keys = self._link.of(queue, names) + self._link.keys.jobs(queue, ids)
        (answers,) = await self._link.run_many([Call(verb, keys, args)])
        return list(answers)
