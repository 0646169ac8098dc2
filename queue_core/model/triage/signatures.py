"""The state of an error signature: what operators have stored of it, and what its deaths make of that.

The store keeps what was set, with its last changes. What time and deaths decide, a reader decides: so a
signature that was resolved and comes back is seen without a leader, and settles read nothing of all this.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from itertools import groupby
from typing import Any, Literal, NamedTuple

from queue_core.model.triage.release import UNKNOWN_RELEASE, has_greater_version

SignatureWord = Literal["new", "regressed", "known", "resolved", "muted"]
"""new: its first death is within the window. known: nothing else. muted: until a time, or until it has grown so often.
resolved: its cause is mended in a release. regressed: it died on a later one all the same."""

WORDS: tuple[SignatureWord, ...] = ("new", "regressed", "known", "resolved", "muted")
"""In the order of lists."""
SignatureVerb = Literal["mute", "resolve", "own", "note"]
"""The verbs of operations on a signature."""

NEXT, NOW = "next", "now"
"""Resolved in any release that is first seen later, and as of the moment."""
KEPT_CHANGES = 10
"""The last changes of a signature that are kept, to undo them."""


@dataclass(frozen=True, slots=True)
class SignatureFacts:
    """What operators have set of a signature. Times are seconds since the epoch by the store's clock."""

    state: Literal["", "muted", "resolved"] = ""
    # when the state was set, or the signature was taken note of, and by whom
    at: float = 0.0
    by: str = ""
    # of a mute: the time it ends, or how often the number of dead jobs then has to be there
    until: float | None = None
    factor: float | None = None
    at_count: int = 0
    # of what is resolved: the release that mends it, or NEXT or NOW
    release: str = ""
    owner: str = ""
    note: str = ""
    note_by: str = ""
    link: str = ""
    # the last changes, the newest last: number of the operation, and the fields before and after
    changes: tuple[tuple[int, dict[str, Any], dict[str, Any]], ...] = ()

    @property
    def changed_by(self) -> int:
        """The number of the operation that changed it last; 0: none has."""
        return self.changes[-1][0] if self.changes else 0

    @property
    def values(self) -> dict[str, Any]:
        """The fields but for the changes."""
        return {name: value for name, value in asdict(self).items() if name != "changes"}


UNTOUCHED = SignatureFacts()
_NAMES = frozenset(one.name for one in fields(SignatureFacts)) - {"changes"}


def facts_text(facts: SignatureFacts) -> str:
    """Return the facts as a store keeps them."""
    changed = {name: value for name, value in facts.values.items() if value != getattr(UNTOUCHED, name)}
    return json.dumps({**changed, "changes": facts.changes}, sort_keys=True)


def facts_of(text: str | None) -> SignatureFacts:
    """Return stored facts; those of a later version that are not known here are left out."""
    try:
        found = json.loads(text or "{}")
        changes = tuple((int(n), dict(before), dict(after)) for n, before, after in found.pop("changes", ()))
        return SignatureFacts(**{name: found[name] for name in found if name in _NAMES}, changes=changes)
    except (ValueError, TypeError, AttributeError):
        return UNTOUCHED


def changed(facts: SignatureFacts, number: int, **given: Any) -> SignatureFacts:
    """Return facts with other fields, as an operation with this number sets them."""
    before = {name: getattr(facts, name) for name in given if getattr(facts, name) != given[name]}
    after = {name: given[name] for name in before}
    changes = (*facts.changes, (number, before, after))[-KEPT_CHANGES:]
    return replace(facts, **given, changes=changes)


def undone(facts: SignatureFacts, number: int, by: int) -> SignatureFacts | None:
    """Return the facts as they were before an operation, undone by another; None: they were changed since."""
    for found, before, after in facts.changes:
        if found == number:
            if any(getattr(facts, name) != value for name, value in after.items()):
                return None
            return changed(facts, by, **before)
    return None


class StoredFacts(NamedTuple):
    """What a store has of signatures, by signature, and its clock."""

    # seconds since the epoch
    now: float
    facts: Mapping[str, SignatureFacts]


class SignatureDeaths(NamedTuple):
    """The deaths of a signature on one release, since the store knows releases; of retried jobs, too."""

    signature: str
    # its number; 0: unknown
    release: int
    died: int
    # seconds since the epoch
    first_at: float
    last_at: float
    # the latest begin of an attempt that died; 0: unknown
    last_started: float
    # the first death that brings the signature back, since it was last resolved; 0: there is none, or it is not kept
    back_at: float = 0.0


class Resolved(NamedTuple):
    """From when on a store keeps the first death of a signature on each release, beside all its deaths."""

    # when it was resolved, in seconds since the epoch
    at: float
    # only attempts that began since count; on an unknown release they always are the only ones
    by_begin: bool

    @property
    def us(self) -> int:
        """When it was resolved, in microseconds since the epoch."""
        return round(self.at * 1_000_000)

    def counts(self, release: int, died_at: float, started_at: float) -> bool:
        """Return whether a death on a release, by its number, may bring the signature back; a begin of 0 is unknown."""
        began = not self.by_begin and release != UNKNOWN_RELEASE
        return died_at > self.at and (began or started_at > self.at)


def resolved_of(facts: SignatureFacts) -> Resolved | None:
    """Return when a signature was resolved; None: it is not."""
    return Resolved(facts.at, facts.release == NOW) if facts.state == "resolved" else None


class TypeRuns(NamedTuple):
    """What became of the jobs of a type on one release."""

    type: str
    release: int
    completed: int
    dead: int
    # seconds since the epoch at which the last one completed; 0: none has
    last_at: float


def newest_runs(runs: Iterable[TypeRuns], newest: int) -> list[TypeRuns]:
    """Return those on the newest releases of each type, by number; by type and release."""
    found = (list(some) for _, some in groupby(sorted(runs), lambda one: one.type))
    return [one for some in found for one in some[-newest:]]


@dataclass(frozen=True, slots=True)
class ReleaseOrder:
    """The releases of a store by number, for what compares them."""

    # number -> name, place, seconds since the epoch at which it was first seen
    known: Mapping[int, tuple[str, int, float]] = field(default_factory=dict)

    def name(self, number: int) -> str | None:
        """Return the name of a release; None: it is unknown."""
        return self.known[number][0] if number in self.known else None

    def place(self, number: int) -> int | None:
        """Return the place of a release; None: it is unknown."""
        return self.known[number][1] if number in self.known else None

    def number(self, name: str) -> int:
        """Return the number of a release; 0: it is unknown."""
        return next((number for number, (other, *_) in self.known.items() if other == name), UNKNOWN_RELEASE)


def came_back(facts: SignatureFacts, deaths: Sequence[SignatureDeaths], order: ReleaseOrder) -> float | None:
    """Return when a resolved signature came back, in seconds since the epoch; None: it did not.

    A death on a release up to the one that mends it is no return, however late, also while that one is not deployed;
    one on an unknown release is, when its attempt began after the signature was resolved.
    """
    return min((_back_at(facts, one) for one in _later_ones(facts, deaths, order)), default=None)


def _back_at(facts: SignatureFacts, one: SignatureDeaths) -> float:
    if one.back_at > facts.at:
        return one.back_at
    # A program from before they were kept has counted the deaths, or resolved the signature.
    return one.first_at if one.first_at > facts.at else one.last_at


def _later_ones(facts: SignatureFacts, deaths: Sequence[SignatureDeaths], order: ReleaseOrder) -> list[SignatureDeaths]:
    """Return the deaths on releases on which some bring the signature back."""
    return [one for one in deaths if one.last_at > facts.at and _later(facts, one, order)]


def _later(facts: SignatureFacts, one: SignatureDeaths, order: ReleaseOrder) -> bool:
    if facts.release == NOW or one.release not in order.known:
        return one.last_started > facts.at
    name, place, first_seen = order.known[one.release]
    mended = order.place(order.number(facts.release))
    if facts.release != NEXT and mended is not None:
        return place > mended
    # The next release, or one that no worker has announced yet: the order of versions counts, else that of time.
    greater = has_greater_version(name, facts.release)
    return first_seen > facts.at if greater is None else greater


class Ruled(NamedTuple):
    """A value with what it comes from."""

    value: str
    # such as "type sync_crm", "queue crm", "signature 9f31", and "task sync_crm" for a task's own runbook
    by: str


@dataclass(frozen=True, slots=True)
class SignatureRule:
    """What the rules give one signature; None where they give nothing."""

    owner: Ruled | None = None
    runbook: Ruled | None = None
    link: Ruled | None = None

    def __bool__(self) -> bool:
        return self != NO_RULE


NO_RULE = SignatureRule()


@dataclass(frozen=True, slots=True)
class SignatureState:
    """A signature as it is shown: its state, whose it is, and since which release it appears."""

    signature: str
    word: SignatureWord = "known"
    facts: SignatureFacts = UNTOUCHED
    # when it came back, in seconds since the epoch; None: it did not
    regressed_at: float | None = None
    # the first release on which it died, and whether none before did although its type ran there; None: unknown
    since: str | None = None
    suspect: bool = False
    # the release on which it came back
    regressed_on: str | None = None
    # deaths on `since` and later ones, on all known releases, and on unknown ones
    died_since: int = 0
    died: int = 0
    died_unknown: int = 0
    # the release before `since` on which its type ran last, and how many of its jobs ended there
    before: str | None = None
    before_runs: int = 0
    # what the configuration and the task give it
    rule: SignatureRule = NO_RULE

    @property
    def owner(self) -> str:
        """Whose it is: the person's who took it, else that of a rule; "" for none."""
        return self.facts.owner or (self.rule.owner.value if self.rule.owner else "")

    @property
    def link(self) -> str:
        """The link that a person has set, else that of a rule; "" for none."""
        return self.facts.link or (self.rule.link.value if self.rule.link else "")

    @property
    def runbook(self) -> str:
        """Where to read what to do: of a rule, else of the task; "" for nowhere."""
        return self.rule.runbook.value if self.rule.runbook else ""

    @property
    def needs_attention(self) -> bool:
        """Whether it is new or came back."""
        return self.word in ("new", "regressed")

    @property
    def place(self) -> int:
        """Its place among others in lists: what is new or back, the others, resolved and muted ones."""
        return 0 if self.needs_attention else {"resolved": 2, "muted": 3}.get(self.word, 1)


class SignatureCounts(NamedTuple):
    """What a judgement needs to know of a signature beside what was set."""

    signature: str
    # seconds since the epoch
    first_seen: float
    # dead jobs
    dead: int
    types: tuple[str, ...]


def judge(
    seen: SignatureCounts,
    facts: SignatureFacts,
    deaths: Sequence[SignatureDeaths],
    runs: Sequence[TypeRuns],
    order: ReleaseOrder,
    now: float,
    window: float,
) -> SignatureState:
    """Return the state of a signature; new and regressed ones are so for the window, in seconds."""
    state = _since(SignatureState(seen.signature, facts=facts), seen, deaths, runs, order)
    if facts.state == "resolved":
        back = came_back(facts, deaths, order)
        if back is None:
            return replace(state, word="resolved")
        first = min(_later_ones(facts, deaths, order), key=lambda one: _back_at(facts, one))
        word: SignatureWord = "regressed" if now - back < window else "known"
        return replace(state, word=word, regressed_at=back, regressed_on=order.name(first.release))
    if facts.state == "muted" and not mute_over(facts, seen.dead, now):
        return replace(state, word="muted")
    # The first of its jobs to die may have been retried since.
    began = min((seen.first_seen, *(one.first_at for one in deaths if one.died)))
    return replace(state, word="new" if now - began < window and facts.at < began else "known")


def mute_over(facts: SignatureFacts, count: int, now: float) -> bool:
    """Return whether a mute has ended: by its time, or because the signature grew."""
    return (facts.until is not None and now >= facts.until) or grown_out(facts, count)


def grown_out(facts: SignatureFacts, count: int) -> bool:
    """Return whether a mute has ended by growth."""
    return facts.factor is not None and count >= growth_end(facts)


def growth_end(facts: SignatureFacts) -> float:
    """Return at how many dead jobs a mute ends that has a factor."""
    return max(1, facts.at_count) * (facts.factor or 1.0)


def _since(
    state: SignatureState,
    seen: SignatureCounts,
    deaths: Sequence[SignatureDeaths],
    runs: Sequence[TypeRuns],
    order: ReleaseOrder,
) -> SignatureState:
    known = [(place, one) for one in deaths if one.died and (place := order.place(one.release)) is not None]
    unknown = sum(one.died for one in deaths if order.place(one.release) is None)
    if not known:
        return replace(state, died_unknown=unknown)
    first, one = min(known, key=lambda pair: pair[0])
    earlier = [
        (place, run)
        for run in runs
        if run.type in seen.types and (place := order.place(run.release)) is not None and place < first
    ]
    before, ran = (None, 0)
    if earlier:
        last, at = max(earlier, key=lambda pair: pair[0])
        before = order.name(at.release)
        ran = sum(run.completed + run.dead for place, run in earlier if place == last)
    died = sum(one.died for _, one in known)
    return replace(
        state,
        since=order.name(one.release),
        suspect=bool(ran) and not unknown,
        died_since=died,
        died=died + unknown,
        died_unknown=unknown,
        before=before,
        before_runs=ran,
    )
