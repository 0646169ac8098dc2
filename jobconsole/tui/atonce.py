"""What the operator does at once, each with a note among the operations: who did it, when, why."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

from jobconsole.core.connection import Connection
from queue_core.operating import this_author
from queue_core.operations import NewOperation

Order = Literal["quiet", "resume", "stop"]
ScheduleVerb = Literal["pause", "resume", "trigger"]
Steer = Literal["pause", "resume", "cancel"]

ORDERED: dict[Order, str] = {
    "quiet": "claims no more jobs",
    "resume": "claims jobs again",
    "stop": "finishes its jobs and ends",
}
STEERED: dict[Steer, str] = {"pause": "is paused", "resume": "goes on", "cancel": "is cancelled"}


class AtOnce:
    """Each method returns a sentence, and raises what its change raises: then nothing was changed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def pause(self, queue: str, pause: bool, why: str = "") -> str:
        """Pause a queue, or let it go on."""
        control = self._connection.control
        state = "paused" if pause else "running again"

        async def act() -> str:
            changed = await (control.pause(queue) if pause else control.resume(queue))
            return "" if changed else f"it was {state} already"

        already = await self._noted("pause" if pause else "resume", f"queue {queue}", act, why)
        return f"{queue} was {state} already" if already else f"{queue} is {state}"

    async def schedule(self, name: str, verb: ScheduleVerb, why: str = "") -> str:
        """Pause, resume or trigger a schedule."""
        schedules, label = self._connection.schedules, f"schedule {name}"
        if verb == "trigger":

            async def trigger() -> str:
                return f"enqueued job {(await schedules.trigger(name)).id}"

            return f"{name} was triggered: {(await self._noted(verb, label, trigger, why))}"
        state = "paused" if verb == "pause" else "ticking again"

        async def act() -> str:
            changed = await (schedules.pause(name) if verb == "pause" else schedules.resume(name))
            return "" if changed else f"it was {state} already"

        already = await self._noted(verb, label, act, why)
        return f"{name} was {state} already" if already else f"{name} is {state}"

    async def order(self, worker: str, label: str, order: Order) -> str:
        """Give a worker an order, which its next heartbeat brings."""

        async def act() -> str:
            return "" if await self._connection.control.command(worker, order) else "it was gone"

        gone = await self._noted(order, f"worker {label}", act)
        return f"{label} is gone" if gone else f"{label} {ORDERED[order]} from its next heartbeat on"

    async def steer(self, number: int, verb: Steer, why: str = "") -> str:
        """Pause, resume or cancel an operation, anybody's."""
        change = getattr(self._connection.operations, verb)

        async def act() -> str:
            return "" if await change(number) else "it was in no state for that any more"

        late = await self._noted(verb, f"operation #{number}", act, why)
        return f"#{number}: {late}" if late else f"#{number} {STEERED[verb]}"

    async def _noted(self, verb: str, label: str, act: Callable[[], Awaitable[str]], why: str = "") -> str:
        asked = NewOperation(verb, label, this_author(), why)
        return await self._connection.operations.noted(asked, act)
