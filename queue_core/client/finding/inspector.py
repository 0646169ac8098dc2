"""An inspector that understands all filters: it turns what stores do not know into sets of signatures and of ids."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, cast

from queue_core.client.finding.search import MAX_FOUND, SearchProgress, TextSearch
from queue_core.client.operating.signatures import NEW_WINDOW, states_of
from queue_core.errors import FilterError
from queue_core.model.filters import Filter, Term, contains, render, set_of
from queue_core.model.job import Job
from queue_core.model.report import Order, Page, SignatureInfo
from queue_core.model.states import Status
from queue_core.model.triage.rules import RuleBook, TriageSettings
from queue_core.model.triage.signatures import SignatureState
from queue_core.model.validation import ALL_QUEUES
from queue_core.ports.inspector import Inspector

MAX_SIGNATURES = 10_000
"""Error signatures whose owners and states are looked at."""
_DEAD = Term("status", "=", Status.DEAD.value)
ABOUT_SIGNATURES = frozenset({"owner", "state"})
FRESH_SECONDS = 1.0
"""How long lists use the signatures that were found; changes look again."""
KEPT_SEARCHES = 16
"""Searches, and sets of signatures, that are kept."""


def finding(inspector: Inspector, me: Callable[[], str], rules: Callable[[], Awaitable[RuleBook]]) -> Inspector:
    """Return an inspector that understands all filters; `me`: whose signatures `owner:me` means."""
    if isinstance(inspector, FindingInspector):
        inspector = inspector.inspector
    return cast("Inspector", FindingInspector(inspector, me, rules))


async def search_texts(
    inspector: Inspector, where: Filter, seconds: float | None = 0.0, again: bool = False
) -> SearchProgress | None:
    """Look on for what a filter with `text` asks for, or begin to; None: it asks for no text.

    From then on lists and changes by this filter, and by narrower ones, mean what was found. By a filter that was never
    looked for, they look at everything first. `seconds`: how long, at one page at least; 0: only where nothing was
    looked at before; None: to the end. `again`: from the newest death on.

    Raises:
        FilterError: too many error signatures have an owner or a state that is asked for.
        StoreUnavailable: the store did not answer in time.
    """
    if not _texts(where):
        return None
    return await cast("FindingInspector", inspector).search_texts(where, seconds, again)


def progress_of(inspector: Inspector, where: Filter) -> SearchProgress | None:
    """Return how far the search is that a filter means; None: none has begun, or it asks for no text."""
    search = cast("FindingInspector", inspector).search_of(where) if _texts(where) else None
    return None if search is None else search.progress


def _texts(where: Filter) -> bool:
    return any(term.field == "text" for term in where.terms)


class FindingInspector:
    """See queue_core.ports.inspector.Inspector; what takes no filter is the store's."""

    def __init__(self, inspector: Inspector, me: Callable[[], str], rules: Callable[[], Awaitable[RuleBook]]) -> None:
        # the store's
        self.inspector = inspector
        self._me = me
        self._rules = rules
        # seconds for which a signature is new or back, as of the last list of them
        self._window = NEW_WINDOW
        self._sets: OrderedDict[tuple[Filter, float], tuple[float, Term]] = OrderedDict()
        self._searches: OrderedDict[Filter, TextSearch] = OrderedDict()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inspector, name)

    # -- what takes a filter

    async def jobs(self, where: Filter, limit: int, cursor: str | None = None, order: Order = "newest") -> Page:
        """Return a page of jobs."""
        return await self.inspector.jobs(await self._known(where), limit, cursor, order)

    async def count(self, where: Filter, at_most: int = 100_000) -> int:
        """Return how many jobs match."""
        return await self.inspector.count(await self._known(where), at_most)

    async def ids(self, where: Filter, limit: int) -> list[str]:
        """Return the ids of matching jobs."""
        return await self.inspector.ids(await self._known(where, fresh=True), limit)

    async def signatures(self, where: Filter, window: float, slices: int, limit: int) -> list[SignatureInfo]:
        """Return groups of dead jobs by error."""
        if any(term.field in ABOUT_SIGNATURES for term in where.terms):
            self._window = window
        return await self.inspector.signatures(await self._known(where), window, slices, limit)

    async def sample(
        self, where: Filter, limit: int, before: datetime | None = None, among: int | None = None
    ) -> Sequence[Job]:
        """Return the newest jobs that match."""
        return await self.inspector.sample(await self._known(where), limit, before, among)

    # -- searches

    async def search_texts(self, where: Filter, seconds: float | None, again: bool) -> SearchProgress:
        """Look on; see `search_texts`."""
        search = None if again else self._searches.get(where) or self.search_of(where)
        if search is None:
            search = await self._begin(where, again)
        return await (search.begin() if seconds == 0.0 else search.go_on(seconds))

    def search_of(self, where: Filter) -> TextSearch | None:
        """Return the search with the most terms, all of which a filter has; None: there is none."""
        texts = {term for term in where.terms if term.field == "text"}
        found = [
            (len(other.terms), search)
            for other, search in self._searches.items()
            if other.trash is where.trash
            and set(other.terms) <= set(where.terms)
            and {term for term in other.terms if term.field == "text"} == texts
        ]
        return max(found, key=lambda pair: pair[0])[1] if found else None

    async def _begin(self, where: Filter, again: bool) -> TextSearch:
        looked_up = await self._by_signatures(where, fresh=True)
        # One that began meanwhile is gone on with: in its place, lists would stay with a first page.
        if not again and (other := self.search_of(where)) is not None:
            return other
        search = TextSearch(self.inspector, looked_up)
        self._searches.pop(where, None)
        self._searches[where] = search
        while len(self._searches) > KEPT_SEARCHES:
            self._searches.popitem(last=False)
        return search

    # -- filters as stores know them

    async def _known(self, where: Filter, fresh: bool = False) -> Filter:
        """Return a filter that the store understands.

        Raises:
            FilterError: it means too many signatures or jobs.
        """
        where_of_text = where if _texts(where) else None
        where = await self._by_signatures(where, fresh)
        if where_of_text is None:
            return where
        search = self.search_of(where_of_text)
        if search is None:
            search = TextSearch(self.inspector, where)
            if (await search.go_on(None)).full:
                reason = f"more than {MAX_FOUND:,} jobs have this text; narrow the filter"
                raise FilterError(reason, render(where_of_text), 0)
        # Until its first page is read a search has found nothing, whatever there is.
        await search.begin()
        return where.without({"text"}).having(set_of("ids", search.ids), _DEAD)

    async def _by_signatures(self, where: Filter, fresh: bool = False) -> Filter:
        if not any(term.field in ABOUT_SIGNATURES for term in where.terms):
            return where
        asked = where.having_only({*ABOUT_SIGNATURES, "signature"})
        key, now = (asked, self._window), time.monotonic()
        known = self._sets.get(key)
        if fresh or known is None or now - known[0] >= FRESH_SECONDS:
            known = self._sets[key] = (now, await self._signatures(asked))
            self._sets.move_to_end(key)
            while len(self._sets) > KEPT_SEARCHES:
                self._sets.popitem(last=False)
        return where.without(ABOUT_SIGNATURES).having(known[1])

    async def _signatures(self, asked: Filter) -> Term:
        """Return the term of the signatures whose owner and state are asked for."""
        wanted, rules = asked.without(ABOUT_SIGNATURES), await self._rules()
        groups = await self.inspector.known_signatures(wanted, self._window, MAX_SIGNATURES + 1)
        if await self._needs_counts(asked, groups, rules.settings):
            groups = await self.inspector.signatures(wanted, self._window, 1, MAX_SIGNATURES + 1)
        if len(groups) > MAX_SIGNATURES:
            reason = f"more than {MAX_SIGNATURES:,} error signatures have dead jobs: name one, as in sig:9f31"
            raise FilterError(f"{reason}, beside owner: and state:", render(asked), 0)
        states = await states_of(self.inspector, groups, self._window, rules)
        terms = [term for term in asked.terms if term.field in ABOUT_SIGNATURES]
        met = [name for name, state in states.items() if all(self._meets(state, term) for term in terms)]
        return set_of("signatures", met)

    async def _needs_counts(self, asked: Filter, groups: Sequence[SignatureInfo], rules: TriageSettings) -> bool:
        """Return whether it depends on the dead jobs themselves who owns these groups, or in which state they are."""
        if not groups or any(group.count for group in groups):
            return False
        fields = {term.field for term in asked.terms}
        if "owner" in fields and (rules.types or rules.queues.keys() - {ALL_QUEUES}):
            return True
        if "state" not in fields:
            return False
        facts = (await self.inspector.signature_facts([group.signature for group in groups])).facts
        return any(one.state == "muted" and one.factor is not None for one in facts.values())

    def _meets(self, state: SignatureState, term: Term) -> bool:
        return self._has(state, term) is not term.negated

    def _has(self, state: SignatureState, term: Term) -> bool:
        if term.field == "state":
            return state.word == term.value
        if term.operator == "~":
            return contains(state.owner, term.value)
        wanted = term.value.casefold()
        if wanted == "none":
            return not state.owner
        return state.owner.casefold() == (self._me().casefold() if wanted == "me" else wanted)
