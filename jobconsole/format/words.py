"""The words of operator verbs, for screens and for the command line.

`WORDS` has the verbs that change jobs, under the keys of their facts; `IMMEDIATE` those that change one thing at once.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal
from uuid import UUID

from jobconsole.format.humanize import clock, exact, moment_of, plural
from queue_core.model.text import safe

if TYPE_CHECKING:
    from queue_core.client.finding.search import SearchProgress
    from queue_core.model.operation import Operation, Outcomes

Kind = Literal["queue", "schedule", "worker", "operation", "job"]
"""What a verb changes at once."""


@dataclass(frozen=True, slots=True)
class VerbWords:
    """The words of a verb that changes jobs."""

    # of its sheet
    title: str
    # of the button that confirms
    button: str
    # as in "retried 3 jobs"
    past: str
    # of its help on the command line
    summary: str
    # what happens then; "" where the sheet works it out from what is chosen
    consequence: str = ""
    # how the command line asks before it: not at all, for yes, or for the count, which has to be typed
    question: Literal["", "yes", "count"] = ""
    # in a job's timeline; "" where that is the past tense
    timeline: str = ""
    # what has the focus in its sheet: the button that confirms, the one that goes back, or the count
    focus: Literal["go", "no", "count"] = "go"
    # what filters of the command line are narrowed to, in the filter language
    narrowed: tuple[str, ...] = ("status:dead",)


WORDS: Mapping[str, VerbWords] = {
    "retry": VerbWords("Retry dead jobs", "Retry", "retried", "put dead jobs back to queued"),
    "delete": VerbWords(
        "Delete dead jobs to the trash",
        "Delete",
        "deleted",
        "move dead jobs to the trash; 'restore' brings them back",
        "They leave the dead-letter queue for the trash. u brings exactly these back.",
        question="yes",
        timeline="deleted, to the trash",
    ),
    "restore": VerbWords(
        "Bring jobs back from the trash",
        "Bring back",
        "restored",
        "move jobs from the trash back into the DLQ",
        "They are in the dead-letter queue again, as they died.",
        timeline="brought back from the trash",
        narrowed=("status:dead", "trash:yes"),
    ),
    "purge": VerbWords(
        "Remove jobs in the trash for good",
        "Purge",
        "purged",
        "remove jobs in the trash for good",
        "Their payloads, results and logs are removed. Nothing brings them back.",
        question="count",
        focus="count",
        narrowed=("status:dead", "trash:yes"),
    ),
    "cancel": VerbWords(
        "Cancel jobs",
        "Cancel",
        "cancelled",
        "cancel waiting jobs, and ask the workers of running ones to stop them",
        "Waiting jobs never run; workers are asked to stop running ones. This cannot be undone.",
        question="yes",
        focus="no",
        narrowed=("!status:completed", "!status:cancelled", "!status:dead"),
    ),
    "move": VerbWords(
        "Move jobs",
        "Move",
        "moved",
        "move waiting and dead jobs to another queue or priority",
        "They keep their state and their times; jobs that change before their turn are skipped.",
        narrowed=("!status:completed", "!status:cancelled", "!status:running"),
    ),
}


def title_of(verb: str, states: AbstractSet[str]) -> str:
    """Return the title of a verb's sheet; a retry names which of these states its jobs are in."""
    if verb != "retry" or "completed" not in states:
        return WORDS[verb].title
    return "Retry dead and completed jobs" if "dead" in states else "Run completed jobs again"


@dataclass(frozen=True, slots=True)
class ImmediateWords:
    """The words of a verb that changes one thing at once."""

    # as in "paused bulk"; "" where that is never written
    past: str
    # behind the thing's name, as in "bulk is paused"
    becomes: str
    # of the question before it: title, what happens, the button that confirms; "" where nothing is asked
    title: str = ""
    consequence: str = ""
    button: str = ""

    @property
    def already(self) -> str:
        """Behind the thing's name where the verb changes nothing."""
        return f"{self.becomes.replace('is ', 'was ', 1)} already"


IMMEDIATE: Mapping[tuple[Kind, str], ImmediateWords] = {
    ("queue", "pause"): ImmediateWords("paused", "is paused"),
    ("queue", "resume"): ImmediateWords("resumed", "is running again"),
    ("queue", "drain"): ImmediateWords(
        "closed",
        "is closed",
        "Drain a queue",
        "It takes no new jobs: producers are refused.",
        "Close",
    ),
    ("schedule", "pause"): ImmediateWords("paused", "is paused"),
    ("schedule", "resume"): ImmediateWords("resumed", "is ticking again"),
    ("schedule", "remove"): ImmediateWords("removed", "is removed"),
    ("schedule", "trigger"): ImmediateWords(
        "triggered",
        "was triggered",
        "Trigger a schedule",
        "Its next tick stays as it is. u does not undo it; X cancels the job while it waits.",
        "Go",
    ),
    ("worker", "quiet"): ImmediateWords("", "claims no more jobs"),
    ("worker", "resume"): ImmediateWords("", "claims jobs again"),
    ("worker", "stop"): ImmediateWords(
        "",
        "finishes its jobs and ends",
        "Stop a worker",
        "It finishes what it runs, within its grace, and ends. A service starts another one in its place.",
        "Stop",
    ),
    ("operation", "pause"): ImmediateWords("paused", "is paused"),
    ("operation", "resume"): ImmediateWords(
        "resumed",
        "is running again",
        "Resume an operation",
        "It runs to the end without a canary or the threshold; only P or X stops it.",
        "Resume",
    ),
    ("operation", "undo"): ImmediateWords(
        "undone",
        "is undone",
        "Undo an operation of another person",
        "What a delete or a move has changed is brought back; one that runs is cancelled first.",
        "Undo",
    ),
    ("operation", "cancel"): ImmediateWords(
        "cancelled",
        "is cancelled",
        "Cancel an operation",
        "The jobs that it has changed stay as they are; the others are left alone. It cannot be resumed afterwards.",
        "Cancel",
    ),
    ("job", "edit"): ImmediateWords("edited", "is edited"),
    ("job", "discard"): ImmediateWords(
        "",
        "stays as it is",
        "Discard your changes?",
        "The job stays as it is; what you have written is gone.",
        "Discard",
    ),
}


def outcome_words(outcomes: Outcomes) -> str:
    """Return the outcomes of retried jobs: 3 completed, 10 failed again, 2 failed once more, retrying."""
    words = (
        (outcomes.completed, "completed"),
        (outcomes.dead, "failed again"),
        (outcomes.unfinished - outcomes.retrying, "not ended"),
        (outcomes.retrying, "failed once more, retrying"),
        (outcomes.ended - outcomes.dead - outcomes.completed, "gone"),
    )
    return ", ".join(f"{exact(count)} {word}" for count, word in words if count)


def searched_phrase(search: SearchProgress) -> str:
    """Return how far a search of texts has come: searched 40,000 of 1,000,000 dead jobs, 312 found."""
    found = f"{exact(search.found)} found"
    if search.whole:
        return f"searched all {plural(search.looked_at, 'dead job')}, {found}"
    some = f"searched {exact(search.looked_at)} of {plural(search.total, 'dead job')}, {found}"
    return f"{some}, no more than that: narrow the filter" if search.full else some


def found_where(search: SearchProgress) -> str:
    """Return among which jobs the found ones are: as of 15:04:07 (later deaths are not searched), in 500 of 528."""
    if not search.whole:
        return f"in {exact(search.looked_at)} of {exact(search.total)}"
    return f"as of {clock(datetime.fromtimestamp(search.began, UTC))}"


def outcome_phrase(operation: Operation) -> str:
    """Return what an operation has come to: 10 of 10 completed, 91 not ended; 640 of 1,204 retried; or ""."""
    return outcome_phrases(operation)[0]


def outcome_phrases(operation: Operation) -> tuple[str, ...]:
    """Return `outcome_phrase`, then shorter ones for lists: jobs that failed again are left out last."""
    one, outcomes = operation, operation.outcomes
    if not one.total or one.state == "preparing":
        return ("",)
    if outcomes is None or not (outcomes.ended or outcomes.retrying):
        verb = one.request.verb
        past = "drained" if verb == "drain" else WORDS[verb].past if verb in WORDS else "changed"
        counts = f"{exact(one.processed)} of {exact(one.total)}"
        return (f"{counts} {past}", counts)
    known, running, words = outcomes.ended, outcomes.unfinished - outcomes.retrying, []
    if outcomes.completed or known > outcomes.dead:
        words.append(f"{exact(outcomes.completed)} of {exact(known)} completed")
    if outcomes.dead:
        words.append(f"{exact(outcomes.dead)} {'' if words else f'of {exact(known)} '}failed again")
    if outcomes.retrying:
        words.append(f"{exact(outcomes.retrying)} failed once more, retrying")
    whole = ", ".join([*words, f"{exact(running)} not ended"] if running else words)
    if outcomes.dead:
        failed = f"{exact(outcomes.dead)} of {exact(known)} failed again"
        return (whole, failed, f"{exact(outcomes.dead)} failed again")
    some = f"{exact(outcomes.completed)} completed" if outcomes.completed else f"{exact(outcomes.retrying)} retrying"
    return (whole, words[0], some)


def written_phrase(operation: Operation) -> str:
    """Return how many jobs of an operation that is preparing are written: their number grows, and is no total."""
    return f"{exact(operation.total)} written so far"


def state_phrase(operation: Operation, now: datetime) -> str:
    """Return what an operation does: running, ramp 2 of 3, waits r125, or the word of its state."""
    one, stage = operation, operation.stage
    at = one.request.rollout.begin_at
    if one.state != "running":
        return one.state
    if one.waits_for:
        return f"waits {safe(one.waits_for, 40)}"
    if at is not None and at > now and not one.done:
        return f"at {moment_of(at, now)}"
    if one.in_canary:
        return f"ramp {stage.number} of {stage.of}" if one.request.rollout.ramp else "canary"
    return one.state


def not_opened(drain: str, label: str) -> str:
    """Return why the undo of a drain does nothing."""
    return f"{drain} is not undone: {safe(label, 200)} is open, or was drained again since"


_UNDOES = re.compile(r"(?:takes|undoes) #([0-9]{1,15})(?: back)?")
_UNDOING = frozenset({"restore", "move", "resume", "mute", "resolve", "own", "note", "save", "remove"})
"""The verbs of operations that undo others."""


def undone_by(operations: Iterable[Operation]) -> dict[int, int]:
    """Return which of these operations have undone which, by the number of the undone one."""
    return {number: one.number for one in operations if (number := undoes(one))}


def undoes(operation: Operation) -> int:
    """Return the number of the operation that this one undoes; 0 where it undoes none, or has failed to."""
    found = _UNDOES.fullmatch(operation.request.why)
    brings_back = operation.request.verb in _UNDOING and operation.state not in {"failed", "cancelled"}
    return int(found[1]) if found and brings_back else 0


LEAST_PREFIX = 4
"""Characters of an id from which it is looked for."""
PART = re.compile(r"(?i)([0-9a-f]+(?:-[0-9a-f]*)*)(?:(?:\u2026|\.\.\.|~)([0-9a-f]+))?")
"""The beginning of an id, and its end where the middle is left out."""


def whole_id(text: str) -> str | None:
    """Return a whole id as stores write it; None: it is none."""
    try:
        return str(UUID(text))
    except ValueError:
        return None


def canonical_id(text: str) -> str | None:
    """Return a whole id as stores write it, and a part of one as it was given; None: it is neither."""
    part = PART.fullmatch(text) is not None and len(text.partition("-")[0]) >= LEAST_PREFIX
    return whole_id(text) or (text if part else None)
