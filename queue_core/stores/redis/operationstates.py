"""The moves of an operation from state to state."""

from __future__ import annotations

from queue_core.operations import ENDED, MOVES, OperationState
from queue_core.redis.scripts import Call
from queue_core.stores.redis.link import Link
from queue_core.stores.redis.operationrows import note_text


def state_keys(link: Link, number: int) -> list[str]:
    """Return the keys of an operation that may end: its hash, those that have not ended, those that have."""
    return [link.keys.operation(number), link.keys.operations_in("unfinished"), link.keys.operations_in("ended")]


def move_call(
    link: Link, number: int, state: OperationState, note: str, unchanged: int | None = None, members: int | None = None
) -> Call:
    """Return the script that moves an operation.

    It does only when nothing has changed it for so many us, and when it has so many members, if these are given.
    """
    keys = [*state_keys(link, number), link.keys.operations_in("preparing")]
    keys += [link.keys.operation(number, name) for name in ("ids", "marks")]
    from_states = [before for before, after in MOVES.items() if state in after]
    if unchanged is not None:
        from_states = ["preparing"]
    conditions = ["" if one is None else one for one in (unchanged, members)]
    end = "1" if state in ENDED else ""
    return Call("operation_move", keys, [number, state, end, note_text(note), *conditions, *from_states])
