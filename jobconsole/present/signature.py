"""The state of an error signature in words: for screens and for the command line."""

from __future__ import annotations

from datetime import UTC, datetime
from math import ceil
from typing import TYPE_CHECKING, Any

from jobconsole.format.humanize import exact, moment_of, remaining
from jobconsole.present.facts import Fact, Facts, moment
from queue_core.model.text import safe
from queue_core.model.triage.signatures import (
    NEXT,
    NOW,
    Ruled,
    SignatureFacts,
    SignatureRule,
    SignatureState,
    growth_end,
)

if TYPE_CHECKING:
    from jobconsole.format.spans import RenderContext, Spans
    from queue_core.model.report import SignatureInfo


def state_word(state: SignatureState) -> str:
    """Return NEW, REGRESSED, known, muted or resolved, as a list shows it."""
    return state.word.upper() if state.needs_attention else state.word


def since_mark(state: SignatureState) -> str:
    """Return the release where a signature began or came back; "r124!" where none before died, though its type ran."""
    if state.word == "regressed":
        return state.regressed_on or "?"
    return f"{state.since}!" if state.since and state.suspect else state.since or "-"


def initials(owner: str) -> str:
    """Return the letters in the first two cells of an owner's name, "-" for none: two, or a wide one."""
    from rich.cells import set_cell_size

    # A letter may be several characters, of which some have no cells.
    return set_cell_size(safe(owner, 64), 2).rstrip() or "-"


def state_spans(state: SignatureState | None, context: RenderContext, short: bool = False) -> Spans:
    """Return a state before a title, or `short` in a column, where there is more to report than that it is known."""
    if state is None or state.word == "known":
        return ()
    word = state_word(state)
    if state.word == "muted" and state.facts.until is not None:
        word = f"{word} {remaining(state.facts.until - context.now.timestamp())}"
    elif state.word == "resolved" and state.facts.release not in (NEXT, NOW):
        word = f"{'res.' if short else word} {safe(state.facts.release, 12)}"
    return ((word if short else f"{word} ", "bad" if state.needs_attention else "faint"),)


def owner_spans(state: SignatureState | None, whole: bool = False) -> Spans:
    """Return an owner's name, or its first two letters."""
    name = "" if state is None else state.owner if whole else initials(state.owner)
    return ((safe(name, 64) or "-", "accent"),)


def since_spans(state: SignatureState | None) -> Spans:
    """Return the release where a signature began or came back."""
    mark = since_mark(state) if state else "-"
    return ((safe(mark, 12), "warn" if mark.endswith("!") else "muted"),)


def type_spans(info: SignatureInfo) -> Spans:
    """Return the most frequent type, and how many others there are."""
    if not info.types:
        return ()
    first = (info.types[0][0], "muted")
    return (first,) if len(info.types) == 1 else (first, (f" +{len(info.types) - 1}", "faint"))


def title_spans(info: SignatureInfo, usual: str) -> Spans:
    """Return a title, behind its type where that is another than the `usual` one."""
    name, colon, rest = info.title.partition(": ")
    title = ((name, "strong"), (colon + rest, "text"))
    other = info.types[0][0] if usual and info.types and info.types[0][0] != usual else ""
    return ((f"{other} ", "accent"), *title) if other else title


def since_sentence(state: SignatureState) -> str:
    """Return on which releases it died, and that none before did; "" where no release is known."""
    if state.since is None:
        return ""
    share = round(100 * state.died_since / max(1, state.died))
    text = f"{state.since} ({share}%)"
    if state.died_unknown:
        return f"{text}, {exact(state.died_unknown)} on an unknown release"
    if state.suspect and state.before is not None:
        return f"{text}, none before; 0 of {exact(state.before_runs)} on {state.before}"
    return text


def state_sentence(state: SignatureState, now: datetime | None = None) -> str:
    """Return a state with how long it lasts and who set it; moments of the same day as `now` as their times alone."""
    facts = state.facts
    if state.word == "muted":
        text = f"muted until {_moment(facts.until, now)}" if facts.until is not None else "muted"
        if facts.factor is not None:
            text = f"muted until there are {exact(_grown(facts))} jobs"
        return f"{text}, by {facts.by}" if facts.by else text
    if facts.state == "resolved":
        at = _moment(facts.at, now)
        # "as of now" is the moment at which it was resolved
        mended = {NEXT: "in the next release ", NOW: ""}.get(facts.release, f"in {facts.release} ")
        if state.regressed_at is None:
            return f"resolved {mended}by {facts.by} at {at}"
        on = f" on {state.regressed_on}" if state.regressed_on else ""
        back = "REGRESSED" if state.word == "regressed" else f"{state_word(state)}, came back"
        return f"{back} {_moment(state.regressed_at, now)}{on}; {facts.by} resolved it {mended}at {at}"
    return state_word(state)


def _moment(at: float | None, now: datetime | None) -> str:
    if at is None:
        return ""
    when = _time(at)
    if when is None:
        return "the end of time"
    return moment(when) if now is None else moment_of(when, now)


def _grown(facts: SignatureFacts) -> int:
    """Return at how many dead jobs a mute ends."""
    return ceil(min(growth_end(facts), 1e18))


def of_state(state: SignatureState, now: datetime | None = None) -> Facts:
    """Return what there is to show of a state; moments of the same day as `now` as their times alone."""
    facts = state.facts
    return (
        Fact("state", state_sentence(state, now), "bad" if state.needs_attention else "text"),
        Fact("since", since_sentence(state), "warn" if state.suspect else "text"),
        Fact("owner", facts.owner or _ruled(state.rule.owner), "accent"),
        Fact("note", f"{facts.note_by}: {facts.note}" if facts.note else ""),
        Fact("link", facts.link or _ruled(state.rule.link)),
        Fact("runbook", _ruled(state.rule.runbook), "accent"),
    )


def _ruled(given: Ruled | None) -> str:
    return f"{given.value} ({given.by})" if given else ""


def rule_sentence(rule: SignatureRule) -> str:
    """Return what the rules give a signature: "type sync_crm: team crm, runbook run.acme.dev/crm"; "" for nothing."""
    words: dict[str, list[str]] = {}
    for name, given in (("", rule.owner), ("runbook ", rule.runbook), ("link ", rule.link)):
        if given is not None:
            words.setdefault(given.by, []).append(f"{name}{given.value}")
    return safe("; ".join(f"{by}: {', '.join(parts)}" for by, parts in words.items()), 400)


def _rule_body(rule: SignatureRule) -> dict[str, Any] | None:
    given = {"owner": rule.owner, "runbook": rule.runbook, "link": rule.link}
    return {name: one and {"value": one.value, "by": one.by} for name, one in given.items()} if rule else None


def state_body(state: SignatureState) -> dict[str, Any]:
    """Return a state as JSON."""
    facts = state.facts
    return {
        "state": state.word,
        "owner": state.owner or None,
        "note": facts.note or None,
        "note_by": facts.note_by or None,
        "link": state.link or None,
        "runbook": state.runbook or None,
        "rule": _rule_body(state.rule),
        "set_by": facts.by or None,
        "set_at": _time(facts.at or None),
        "muted_until": _time(facts.until) if state.word == "muted" else None,
        "muted_until_count": _grown(facts) if state.word == "muted" and facts.factor else None,
        "resolved_in": facts.release or None if facts.state == "resolved" else None,
        "regressed_at": _time(state.regressed_at),
        "regressed_on": state.regressed_on,
        "since_release": state.since,
        "suspect": state.suspect,
        "release_before": state.before,
        "runs_before": state.before_runs,
        "died": {"since": state.died_since, "all": state.died, "unknown": state.died_unknown},
    }


def _time(at: float | None) -> datetime | None:
    """Return a moment; None also where it is beyond all dates, which a store may hold though no call writes it."""
    if at is None:
        return None
    try:
        return datetime.fromtimestamp(at, UTC)
    except (ValueError, OverflowError, OSError):
        return None
