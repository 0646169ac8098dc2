"""What operators change at once: the jobs are found first, then changed where their state still allows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from queue_core.errors import QueueNotFound
from queue_core.inspection import Changed
from queue_core.operations import AS_IT_WAS, MemberVerb, Way
from queue_core.rules import Rules
from queue_core.stores.redis.hinting import Hints
from queue_core.stores.redis.link import Link
from queue_core.stores.redis.news import ORDER
from queue_core.stores.redis.verbs import LOOK, Outcome, Verbs, seen


class Changes:
    """See queue_core.inspection.Inspector for what each method does."""

    def __init__(self, link: Link, rules: Rules) -> None:
        self._link = link
        self._hints = Hints(link)
        self._verbs = Verbs(link, rules)

    async def retry(self, ids: Sequence[str], spread: float = 0.0) -> Changed:
        """Move dead and completed jobs to queued, or to scheduled at random moments within `spread` seconds."""
        return await self._change("retry", ids, Way(spread=spread))

    async def cancel(self, ids: Sequence[str]) -> Changed:
        """Move waiting jobs to cancelled; ask the workers of running ones to stop them."""
        return await self._change("cancel", ids)

    async def delete(self, ids: Sequence[str]) -> Changed:
        """Move dead jobs to the trash."""
        return await self._change("delete", ids)

    async def restore(self, ids: Sequence[str]) -> Changed:
        """Move jobs from the trash back into the DLQ."""
        return await self._change("restore", ids)

    async def purge(self, ids: Sequence[str]) -> Changed:
        """Remove jobs in the trash for good."""
        return await self._change("purge", ids)

    async def _change(self, verb: MemberVerb, ids: Sequence[str], way: Way = AS_IT_WAS) -> Changed:
        found = await self._link.find(ids, LOOK)
        jobs = [seen(job_id, *found[job_id]) for job_id in dict.fromkeys(ids) if job_id in found]
        outcome = Outcome()
        for part in self._verbs.parts(verb, jobs, way):
            outcome.take(part, (await self._link.run_many([part.call]))[0])
        if verb == "retry" and way.later:
            await self._hints.waiting({job.queue for job in jobs})
        return outcome.result()

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
        told = [self._link.keys.news, f"{ORDER} {worker}"]
        return bool(await self._link.run("order", [self._link.keys.workers], [worker, command, *told]))
