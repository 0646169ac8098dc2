"""What the operator does at once, each with a note among the operations: who did it, when, why."""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Literal, NamedTuple

from jobconsole.core.connection import Connection
from jobconsole.core.rows import NAME
from queue_core.operating import this_author
from queue_core.operations import NewOperation
from queue_core.text import safe

Order = Literal["quiet", "resume", "stop"]
ScheduleVerb = Literal["pause", "resume", "trigger"]
Steer = Literal["pause", "resume", "cancel"]

LOOKED_AT = 100
"""Operations among which is looked for what others have done since."""

ORDERED: dict[Order, str] = {
    "quiet": "claims no more jobs",
    "resume": "claims jobs again",
    "stop": "finishes its jobs and ends",
}
STEERED: dict[Steer, str] = {"pause": "is paused", "resume": "goes on", "cancel": "is cancelled"}


class Switched(NamedTuple):
    """What came of pausing something or letting it go on."""

    words: str
    # False: it was so already
    changed: bool
    # the number of its note
    note: int


class AtOnce:
    """Each method returns a sentence, and raises what its change raises: then nothing was changed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        # of this console, in the order in which they were begun
        self._notes: deque[int] = deque(maxlen=LOOKED_AT)

    async def pause(self, queue: str, pause: bool, why: str = "") -> Switched:
        """Pause a queue, or let it go on."""
        control = self._connection.control
        state = "paused" if pause else "running again"

        async def act() -> str:
            changed = await (control.pause(queue) if pause else control.resume(queue))
            return "" if changed else f"it was {state} already"

        return await self._switched("pause" if pause else "resume", "queue", queue, state, act, why)

    async def trigger(self, schedule: str) -> str:
        """Enqueue the job of a schedule now."""

        async def act() -> str:
            return f"enqueued job {(await self._connection.schedules.trigger(schedule)).id}"

        return f"{schedule} was triggered: {(await self._noted('trigger', f'schedule {schedule}', act))}"

    async def pause_schedule(self, name: str, pause: bool, why: str = "") -> Switched:
        """Pause a schedule, or let it tick again."""
        schedules = self._connection.schedules
        state = "paused" if pause else "ticking again"

        async def act() -> str:
            changed = await (schedules.pause(name) if pause else schedules.resume(name))
            return "" if changed else f"it was {state} already"

        return await self._switched("pause" if pause else "resume", "schedule", name, state, act, why)

    async def overtaken(self, kind: str, name: str, note: int) -> str:
        """Say who has paused or resumed something after a note of this console; "" when nobody has."""
        for one in await self._connection.operations.find(LOOKED_AT):
            if one.number <= note:
                break
            about = one.asked.label == f"{kind} {name}" and one.asked.verb in {"pause", "resume"}
            # One with a note of its own changed nothing, or failed.
            if about and one.state == "done" and not one.note and one.number not in self._notes:
                past = "paused" if one.asked.verb == "pause" else "resumed"
                return f"{safe(one.asked.author.user, NAME)} has {past} {safe(name, NAME)} since (#{one.number})"
        return ""

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

    async def _switched(
        self, verb: str, kind: str, name: str, state: str, act: Callable[[], Awaitable[str]], why: str
    ) -> Switched:
        numbers: list[int] = []
        if await self._noted(verb, f"{kind} {name}", act, why, numbers):
            return Switched(f"{name} was {state} already", False, numbers[0])
        return Switched(f"{name} is {state}", True, numbers[0])

    async def _noted(
        self, verb: str, label: str, act: Callable[[], Awaitable[str]], why: str = "", numbers: list[int] | None = None
    ) -> str:
        def begun(number: int) -> None:
            self._notes.append(number)
            if numbers is not None:
                numbers.append(number)

        asked = NewOperation(verb, label, this_author(), why)
        return await self._connection.operations.noted(asked, act, begun=begun)
