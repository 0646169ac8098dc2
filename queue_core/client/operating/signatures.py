"""Error signatures for operators: `JobQueue.signatures`.

Each change is recorded as an operation, with who made it and why, and can be undone until the same is changed again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple, get_args

from queue_core.client.operating.guarded import DryRunnable
from queue_core.client.operations import Operations, this_author
from queue_core.client.tasks import Duration
from queue_core.errors import InvalidArgument, QueueCoreError, SignatureNotFound
from queue_core.model.filters import Filter, Term
from queue_core.model.operation import Author, OperationRequest
from queue_core.model.report import Release, SignatureInfo
from queue_core.model.text import storable
from queue_core.model.triage.checks import check_link, check_mended, check_note, check_owner
from queue_core.model.triage.rules import NO_BOOK, NO_TRIAGE, RuleBook, TriageSettings, runbook_in
from queue_core.model.triage.signatures import (
    NEXT,
    NOW,
    UNTOUCHED,
    ReleaseOrder,
    SignatureCounts,
    SignatureDeaths,
    SignatureFacts,
    SignatureRule,
    SignatureState,
    SignatureVerb,
    TypeRuns,
    changed,
    judge,
    undone,
)
from queue_core.model.validation import MAX_DELAY_SECONDS, check_seconds
from queue_core.ports.inspector import Inspector
from queue_core.ports.operations import OperationStore


def duration(seconds: float) -> str:
    """Return 4h, 90m or 30s."""
    for unit, letter in ((86400, "d"), (3600, "h"), (60, "m")):
        if seconds >= unit and seconds % unit == 0:
            return f"{seconds / unit:g}{letter}"
    return f"{seconds:g}s"


NEW_WINDOW = 900.0
"""Seconds for which a signature is new, or back, unless a caller has another window."""
RUNBOOKS_SECONDS = 10.0
"""Between two reads of the runbooks that workers announce."""
MAX_TYPES = 200
"""Types whose runs are read at once."""
MAX_BEGINNING = 100
"""Signatures with the same beginning that are looked at."""
CHANGE_TRIES = 10
"""Tries of a change that others overtake."""
MAX_GROWTH = 1_000_000
"""Times as many dead jobs, at most, until which a mute may last."""
VERBS = frozenset(get_args(SignatureVerb))
"""The verbs on signatures, which `undo` takes back."""


class StatesRead(NamedTuple):
    """The states of some groups of dead jobs, by signature, and what they were made from."""

    states: Mapping[str, SignatureState]
    # in their order, the oldest first
    releases: tuple[Release, ...]
    runs: tuple[TypeRuns, ...]


async def read_states(
    inspector: Inspector,
    groups: Sequence[SignatureInfo],
    window: float = NEW_WINDOW,
    book: RuleBook = NO_BOOK,
) -> StatesRead:
    """Return the states of groups of dead jobs, as `states_of` does, and what they were made from.

    Of the types of the groups, then of all that are announced, the runs of the first `MAX_TYPES` are read.
    """
    names = [group.signature for group in groups]
    types = list(dict.fromkeys([*(name for group in groups for name, _ in group.types), *book.types]))[:MAX_TYPES]
    (now, facts), deaths, runs, found = await asyncio.gather(
        inspector.signature_facts(names),
        inspector.signature_deaths(names),
        inspector.type_runs(types),
        inspector.releases(),
    )
    order = ReleaseOrder({one.number: (one.name, one.place, one.first_seen.timestamp()) for one in found})
    died: dict[str, list[SignatureDeaths]] = {}
    for one in deaths:
        died.setdefault(one.signature, []).append(one)
    judged = {
        name: judge(_seen(group), facts.get(name, UNTOUCHED), died.get(name, ()), runs, order, now, window)
        for name, group in zip(names, groups, strict=True)
    }
    states = {name: replace(judged[name], rule=book.of(group)) for name, group in zip(names, groups, strict=True)}
    return StatesRead(states, tuple(found), tuple(runs))


async def states_of(
    inspector: Inspector, groups: Sequence[SignatureInfo], window: float = NEW_WINDOW, book: RuleBook = NO_BOOK
) -> Mapping[str, SignatureState]:
    """Return the states of groups of dead jobs, by signature; new and regressed ones are so for `window` seconds."""
    return (await read_states(inspector, groups, window, book)).states if groups else {}


class Signatures(DryRunnable):
    """Read and set the states of error signatures, their owners, notes and links.

    Every method raises `StoreUnavailable` when the store is unreachable.
    """

    def __init__(
        self, inspector: Inspector, store: OperationStore, operations: Operations, rules: TriageSettings = NO_TRIAGE
    ) -> None:
        self._inspector = inspector
        self._store = store
        self._operations = operations
        self._rules = rules
        # the rules with the runbooks of tasks, and when those were read, by this process's steady clock
        self._book: tuple[float, RuleBook] | None = None

    # -- reads

    async def states(self, groups: Sequence[SignatureInfo], window: float = NEW_WINDOW) -> Mapping[str, SignatureState]:
        """Return the states of groups of dead jobs, by signature; new and regressed ones are so for the window."""
        return await states_of(self._inspector, groups, window, await self.rules())

    async def rules(self) -> RuleBook:
        """Return the rules of the configuration with the runbooks of tasks, which are read every `RUNBOOKS_SECONDS`."""
        now = time.monotonic()
        if self._book is None or now - self._book[0] >= RUNBOOKS_SECONDS:
            types = await self._inspector.types()
            runbooks = {name: runbook for name, info in types.items() if (runbook := runbook_in(info.schema))}
            self._book = (now, RuleBook(self._rules, runbooks, tuple(types)))
        return self._book[1]

    async def rule(self, group: SignatureInfo) -> SignatureRule:
        """Return the owner, runbook and link that the configuration and the task give a group of dead jobs."""
        return (await self.rules()).of(group)

    async def get(self, signature: str, window: float = NEW_WINDOW) -> tuple[SignatureInfo, SignatureState]:
        """Return a group of dead jobs, by its signature or a beginning of it that no other has, and its state.

        Raises:
            SignatureNotFound: no dead job has this signature.
        """
        if not isinstance(signature, str) or not signature:
            raise InvalidArgument(f"a signature is a text, not {signature!r}")
        where = Filter((Term("signature", "=", signature),))
        groups = await self._inspector.signatures(where, window, 8, 3)
        found = [one for one in groups if one.signature == signature] or groups
        if len(found) != 1 or not found[0].signature.startswith(signature):
            raise SignatureNotFound(signature)
        return found[0], (await self.states(found, window))[found[0].signature]

    async def died_of(self, beginning: str) -> Mapping[str, str]:
        """Return the signatures that begin so of which jobs have died, dead still or not, with their titles.

        Of more than `MAX_BEGINNING`, only some.
        """
        if storable(beginning) != beginning:
            return {}
        beginning = beginning.lower()
        titles = {beginning: beginning} | await self._inspector.titles(beginning, MAX_BEGINNING)
        died = {one.signature for one in await self._inspector.signature_deaths(list(titles))}
        return {name: title for name, title in titles.items() if name in died}

    async def known(self, signature: str, window: float = NEW_WINDOW) -> tuple[SignatureInfo, SignatureState]:
        """Return a signature as `get` does; also one none of whose jobs is dead any more, which counts 0 jobs.

        Raises:
            SignatureNotFound: no job has died of it, as far as is known, or several signatures begin so.
        """
        try:
            return await self.get(signature, window)
        except SignatureNotFound:
            found = await self.died_of(signature)
            if len(found) != 1:
                raise
        ((name, title),) = found.items()
        deaths = await self._inspector.signature_deaths([name])
        first, last = min(one.first_at for one in deaths), max(one.last_at for one in deaths)
        gone = SignatureInfo(
            name, title, 0, 0, (), datetime.fromtimestamp(first, UTC), datetime.fromtimestamp(last, UTC), (), (), ""
        )
        return gone, (await self.states([gone], window))[name]

    # -- changes

    async def mute(
        self,
        signature: str,
        *,
        for_: Duration | None = None,
        until: datetime | None = None,
        until_growth: float | None = None,
        off: bool = False,
        why: str = "",
        author: Author | None = None,
    ) -> int:
        """Mute a signature for a time, until a time, or until its dead jobs have grown so many times; or end that.

        Return the number of the operation. Its jobs stay counted and can be retried.

        Raises:
            InvalidArgument: no such time, one that has passed, more than a hundred years; a growth of 1 and less, or
                over a million.
            SignatureNotFound: no dead job has this signature.
        """
        if off:
            return await self._set(signature, "mute", "off", why, author, _unset, "muted")
        if [for_, until, until_growth].count(None) != 2:
            raise InvalidArgument("a mute is for a time, until a time, or until a growth: give one of them")
        if until_growth is not None and not 1 < until_growth <= MAX_GROWTH:
            text = f"a mute ends when there are more than 1 and at most {MAX_GROWTH:,} times as many dead jobs"
            raise InvalidArgument(f"{text}, not {until_growth:g}")
        seconds = None if for_ is None else check_seconds(for_, "the time of a mute")
        if seconds is not None and seconds > MAX_DELAY_SECONDS:
            raise InvalidArgument(f"the time of a mute: {for_!r} is more than a hundred years")

        def muted(group: SignatureInfo, now: float) -> Mapping[str, Any]:
            ends = until.timestamp() if until is not None else None if seconds is None else now + seconds
            if until is not None and until.timestamp() <= now:
                raise InvalidArgument(f"a mute until {until:%Y-%m-%d %H:%M}: that time has passed")
            return {"state": "muted", "until": ends, "factor": until_growth, "at_count": group.count, "release": ""}

        growth = None if until_growth is None else f"until there are {until_growth:g} times as many"
        words = growth or (f"for {duration(seconds)}" if seconds is not None else f"until {until:%Y-%m-%d %H:%M}")
        return await self._set(signature, "mute", words, why, author, muted)

    async def resolve(
        self, signature: str, *, in_: str = NOW, off: bool = False, why: str = "", author: Author | None = None
    ) -> int:
        """Mark a signature as resolved in a release, in the "next" one, or "now"; or take that back.

        Return the number of the operation. A death on that release or an earlier one does not bring it back.

        Raises:
            InvalidArgument: no name of a release.
            SignatureNotFound: no dead job has this signature.
        """
        if off:
            return await self._set(signature, "resolve", "off", why, author, _unset, "resolved")
        release = check_mended(in_)
        given = {"state": "resolved", "release": release, "until": None, "factor": None}
        words = {NEXT: "in the next release", NOW: "now"}.get(release, f"in {release}")
        return await self._set(signature, "resolve", words, why, author, lambda group, now: given)

    async def own(
        self,
        signature: str,
        owner: str | None = None,
        *,
        off: bool = False,
        why: str = "",
        author: Author | None = None,
    ) -> int:
        """Give a signature to its author ("me", too), or to another owner; or let it have none.

        Return the number of the operation.

        Raises:
            InvalidArgument: no name.
            SignatureNotFound: no dead job has this signature.
        """
        mine = owner is None or (isinstance(owner, str) and owner.strip().casefold() == "me")
        name = "" if off else check_owner((author or this_author()).user if mine else owner)
        if name.casefold() == "none":
            raise InvalidArgument("'none' in filters means no owner; it cannot be the name of one")
        if not off and not name:
            raise InvalidArgument("an owner has a name")
        return await self._set(signature, "own", name or "off", why, author, lambda group, now: {"owner": name})

    async def note(
        self,
        signature: str,
        text: str | None = None,
        *,
        link: str | None = None,
        off: bool = False,
        why: str = "",
        author: Author | None = None,
    ) -> int:
        """Write a note on a signature, a link, or both; or remove both. Return the operation's number.

        Raises:
            InvalidArgument: no text, too long, or more than a line.
            SignatureNotFound: no dead job has this signature.
        """
        given: dict[str, Any] = {"note": "", "note_by": "", "link": ""} if off else {}
        if text is not None and not off:
            given |= {"note": check_note(text), "note_by": (author or this_author()).user}
        if link is not None and not off:
            given["link"] = check_link(link)
        if not given or not (off or any(given.get(name) for name in ("note", "link"))):
            raise InvalidArgument("a note has a text")
        words = given.get("note") or given.get("link") or "off"
        return await self._set(signature, "note", words, why, author, lambda group, now: given)

    async def undo(self, number: int, *, author: Author | None = None) -> int | None:
        """Undo a change of a signature; None: it is no such operation, or the same was changed since.

        Raises:
            OperationNotFound: there is no such operation.
        """
        self._check("op undo")
        request = (await self._operations.get(number)).request
        if request.verb not in VERBS or not request.signatures:
            return None
        (signature,) = request.signatures
        _, facts = await self._inspector.signature_facts([signature])
        if undone(facts.get(signature, UNTOUCHED), number, 0) is None:
            return None
        back = replace(request, author=author or this_author(), why=f"undoes #{number}")
        return await self._record(signature, back, lambda facts, now, by: undone(facts, number, by))

    async def _set(
        self,
        signature: str,
        verb: SignatureVerb,
        words: str,
        why: str,
        author: Author | None,
        given: Callable[[SignatureInfo, float], Mapping[str, Any]],
        ends: str = "",
    ) -> int:
        """Record and make a change. An owner or a note makes what is new or back known.

        `ends`: the only state that it changes, for another one may be set.
        """
        self._check(f"dlq {verb}")
        group, state = await self.known(signature)
        who = author or this_author()
        request = OperationRequest(verb, f"{words}: {group.title}", who, why, signatures=(group.signature,))

        def after(facts: SignatureFacts, now: float, by: int) -> SignatureFacts:
            fields = {} if ends and facts.state != ends else dict(given(group, now))
            if not ends and "state" not in fields and state.word not in ("muted", "resolved"):
                fields["state"] = ""
            if "state" in fields:
                fields |= {"at": now, "by": who.user}
            return changed(facts, by, **fields)

        return await self._record(group.signature, request, after)

    async def _record(
        self,
        signature: str,
        request: OperationRequest,
        after: Callable[[SignatureFacts, float, int], SignatureFacts | None],
    ) -> int:
        numbers: list[int] = []

        async def foreseen(number: int) -> tuple[SignatureFacts, SignatureFacts | None]:
            now, found = await self._inspector.signature_facts([signature])
            facts = found.get(signature, UNTOUCHED)
            return facts, after(facts, now, number)

        async def act() -> None:
            for _ in range(CHANGE_TRIES):
                facts, wanted = await foreseen(numbers[0])
                if wanted is None:
                    break
                if await self._store.set_facts(signature, facts, wanted):
                    return
            raise QueueCoreError(f"signature {signature} was changed by others meanwhile")

        await foreseen(0)  # what cannot be is refused, and leaves no record
        if self._dry:
            return 0
        await self._operations.record(request, act, on_record=numbers.append)
        return numbers[0]


def _unset(group: SignatureInfo, now: float) -> Mapping[str, Any]:
    return {"state": ""}


def _seen(group: SignatureInfo) -> SignatureCounts:
    types = tuple(name for name, _ in group.types)
    return SignatureCounts(group.signature, group.first_seen.timestamp(), group.count, types)
