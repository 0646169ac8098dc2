"""Filters that operators keep by name: `JobQueue.filters`.

Each change is recorded as an operation, with who made it and why, and can be undone until the same is changed again.
"""

from __future__ import annotations

from queue_core.client.operating.guarded import DryRunnable
from queue_core.client.operations import Operations, this_author
from queue_core.errors import FilterError, InvalidArgument, QueueCoreError
from queue_core.model.filters import filter_of
from queue_core.model.filters.saved import LONGEST_SAVED, MAX_SAVED, SavedFilter, check_saved_name
from queue_core.model.operation import Author, Operation, OperationRequest
from queue_core.ports.inspector import Inspector
from queue_core.ports.operations import OperationStore

_LABEL = "filter "
CHANGE_TRIES = 10
"""Tries of a change that others overtake."""


def saved_name_of(operation: Operation) -> str | None:
    """Return the name of the saved filter that an operation has changed; None: it has changed none."""
    request = operation.request
    if request.verb not in ("save", "remove") or not request.label.startswith(_LABEL):
        return None
    return request.label.removeprefix(_LABEL)


class SavedFilters(DryRunnable):
    """Read, save and remove the filters of a store.

    Every method raises `StoreUnavailable` when the store is unreachable.
    """

    def __init__(self, inspector: Inspector, store: OperationStore, operations: Operations) -> None:
        self._inspector = inspector
        self._store = store
        self._operations = operations

    async def list(self) -> list[SavedFilter]:
        """Return the saved filters by name."""
        return [saved for saved in await self._inspector.saved_filters() if saved.text]

    async def save(self, name: str, where: str, *, why: str = "", author: Author | None = None) -> int:
        """Save a filter under a name, in place of the one that has it; return the number of the operation.

        `where` stays as it was written: `age:`, `died:` and `owner:me` are read when it is used.

        Raises:
            FilterError: it is no filter.
            InvalidArgument: it is empty or too long, the name cannot be, or there are too many; nothing was done.
        """
        self._check("filter save")
        text = check_saved_filter(name, where)
        known = await self.list()
        if len(known) >= MAX_SAVED and check_saved_name(name) not in {saved.name for saved in known}:
            raise InvalidArgument(f"{MAX_SAVED} filters are saved, and there can be no more: remove one first")
        return await self._change(OperationRequest("save", _label(name), author or this_author(), why), text)

    async def remove(self, name: str, *, why: str = "", author: Author | None = None) -> int:
        """Remove a saved filter; return the number of the operation.

        Raises:
            InvalidArgument: none has this name.
        """
        self._check("filter remove")
        if check_saved_name(name) not in {saved.name for saved in await self.list()}:
            raise InvalidArgument(f"no filter is saved as '{name}'")
        return await self._change(OperationRequest("remove", _label(name), author or this_author(), why), "")

    async def undo(self, number: int, *, author: Author | None = None) -> int | None:
        """Undo a change of a saved filter; None: it is no such operation, or the filter was changed since.

        Raises:
            OperationNotFound: there is no such operation.
        """
        self._check("op undo")
        operation = await self._operations.get(number)
        name = saved_name_of(operation)
        text = None if name is None else (await self._read(name)).before(number)
        if text is None:
            return None
        request = OperationRequest(
            "save" if text else "remove", operation.request.label, author or this_author(), f"undoes #{number}"
        )
        return await self._change(request, text, number)

    async def _read(self, name: str) -> SavedFilter:
        found = [saved for saved in await self._inspector.saved_filters() if saved.name == name]
        return found[0] if found else SavedFilter(name)

    async def _change(self, request: OperationRequest, text: str, undoes: int = 0) -> int:
        """Record a change and make it; one that undoes another only while that is the last one."""
        if self._dry:
            return 0
        name, numbers = request.label.removeprefix(_LABEL), list[int]()

        async def act() -> str:
            at = (await self._operations.get(numbers[0])).created_at.timestamp()
            for _ in range(CHANGE_TRIES):
                saved = await self._read(name)
                if undoes and saved.before(undoes) is None:
                    break
                after = saved.changed(text, numbers[0], request.author.user, at)
                if await self._store.set_filter(name, saved.changed_by, after):
                    await self._forget_removed()
                    return text
            raise QueueCoreError(f"the filter '{name}' was changed by others meanwhile")

        await self._operations.record(request, act, on_record=numbers.append)
        return numbers[0]

    async def _forget_removed(self) -> None:
        """Keep no more removed filters than others; the oldest ones can be brought back no more."""
        removed = [saved for saved in await self._inspector.saved_filters() if not saved.text]
        for saved in sorted(removed, key=lambda one: one.at)[: max(0, len(removed) - MAX_SAVED)]:
            await self._store.set_filter(saved.name, saved.changed_by, None)


def check_saved_filter(name: object, where: object) -> str:
    """Return the text of a filter that can be saved under this name.

    Raises:
        FilterError: it is no filter.
        InvalidArgument: it is empty or too long, or the name cannot be.
    """
    check_saved_name(name)
    return _check_text(where)


def _label(name: str) -> str:
    return _LABEL + check_saved_name(name)


def _check_text(where: object) -> str:
    """Return the text of a filter that can be saved."""
    text = where.strip() if isinstance(where, str) else ""
    if not text:
        raise InvalidArgument(f"a saved filter is a text such as 'queue:mail', not {where!r}")
    if len(text) > LONGEST_SAVED:
        raise InvalidArgument(f"a saved filter has {len(text):,} characters; the limit is {LONGEST_SAVED:,}")
    if not text.isprintable():
        raise FilterError("a saved filter is one line, without control characters", text, 0)
    filter_of(text)
    return text
