"""What is to be set of error signatures: by their sheet, and as commands that do the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from queue_core.client.operating.signatures import Signatures, duration
from queue_core.errors import InvalidArgument
from queue_core.model.text import safe
from queue_core.model.triage.signatures import NEXT, NOW, SignatureFacts, SignatureVerb
from queue_core.model.validation import check_seconds


@dataclass(frozen=True, slots=True)
class Mute:
    """For how long a signature is silent; without any of them it is not muted."""

    seconds: float | None = None
    until: datetime | None = None
    # until there are so many times as many dead jobs
    factor: float | None = None

    @property
    def words(self) -> str:
        """As a choice shows it: 4h, until 09:00, ×10, not."""
        if self.seconds is not None:
            return duration(self.seconds)
        if self.factor is not None:
            return f"until it grows ×{self.factor:g}"
        return "not" if self.until is None else f"until {self.until.astimezone(UTC):%Y-%m-%d %H:%M}"

    @property
    def options(self) -> list[str]:
        """The options of `dlq mute`."""
        if self.seconds is not None:
            return [f"--for={duration(self.seconds)}"]
        if self.factor is not None:
            return [f"--until-growth={self.factor:g}"]
        return ["--off"] if self.until is None else [f"--until={self.until.isoformat()}"]


@dataclass(frozen=True, slots=True)
class SignatureChoice:
    """The signatures whose states are to be set."""

    names: tuple[str, ...]
    # the title of the only one, or how many they are
    label: str
    # their dead jobs
    count: int
    types: tuple[str, ...] = ()


FieldName = Literal["resolve", "mute", "owner", "note"]
"""What can be set, as the sheet names it."""
LOUD = Mute()
"""Not muted."""
UNRESOLVED = ""


def parse_mute(text: str, now: datetime) -> Mute:
    """Return the mute in 4h, 10x (until it has grown so often) or 09:00 (the next one, UTC).

    Raises:
        InvalidArgument: it is none of them.
    """
    if match := re.fullmatch(r"(\d{1,2}):(\d{2})", text):
        return Mute(until=next_time(int(match[1]), int(match[2]), now))
    if match := re.fullmatch(r"(\d{1,6}(?:\.\d{1,3})?)[x×]", text):
        if float(match[1]) <= 1:
            raise InvalidArgument("a mute ends when there are more dead jobs: 2x, 10x")
        return Mute(factor=float(match[1]))
    if re.fullmatch(r"\d{1,9}(\.\d{1,3})?(ms|s|m|h|d|w)", text):
        return Mute(seconds=check_seconds(text, "the time of a mute"))
    raise InvalidArgument(f"'{safe(text, 20)}' is no time: 90m, 2d, 09:00, or 10x for until it grows so often")


def next_time(hour: int, minute: int, now: datetime) -> datetime:
    """Return when it is this time of a day next, in UTC.

    Raises:
        InvalidArgument: no day has it.
    """
    if hour > 23 or minute > 59:
        raise InvalidArgument(f"'{hour:02}:{minute:02}' is no time of a day")
    at = now.astimezone(UTC).replace(hour=hour, minute=minute, second=0, microsecond=0)
    return at if at > now else at + timedelta(days=1)


@dataclass(frozen=True, slots=True)
class StateChange:
    """What is to be set of a signature; None: it stays as it is."""

    # "" for none
    owner: str | None = None
    note: str | None = None
    mute: Mute | None = None
    # a release, NEXT or NOW; UNRESOLVED
    resolve: str | None = None

    @property
    def verbs(self) -> list[SignatureVerb]:
        """The verbs of the operations that do it, in their order: the state is the last word."""
        given: tuple[tuple[SignatureVerb, object], ...] = (
            ("own", self.owner), ("note", self.note), ("mute", self.mute), ("resolve", self.resolve),
        )  # fmt: skip
        return [verb for verb, value in given if value is not None]

    @property
    def words(self) -> str:
        """What it does: owner ana, muted for 4h."""
        return ", ".join(self._words())

    def _words(self) -> Iterator[str]:
        if self.owner is not None:
            yield f"owner {safe(self.owner, 64)}" if self.owner else "no owner"
        if self.note is not None:
            yield "note kept" if self.note else "note removed"
        if self.mute is not None:
            yield "not muted" if self.mute == LOUD else f"muted {'for ' if self.mute.seconds else ''}{self.mute.words}"
        if self.resolve is not None:
            yield f"resolved {mended(self.resolve)}" if self.resolve else "not resolved"

    def commands(self, signatures: Sequence[str]) -> list[list[str]]:
        """Return the words of the commands that do the same, without the program's name."""
        return [words for signature in signatures for words in self._commands(signature)]

    def _commands(self, signature: str) -> Iterator[list[str]]:
        if self.owner is not None:
            yield ["dlq", "own", signature, f"--to={self.owner}" if self.owner else "--off"]
        if self.note is not None:
            # Behind the dashes: a note that begins with one would be taken for an option.
            yield ["dlq", "note", signature, *(["--", self.note] if self.note else ["--off"])]
        if self.mute is not None:
            yield ["dlq", "mute", signature, *self.mute.options]
        if self.resolve is not None:
            options = {UNRESOLVED: "--off", NEXT: "--next", NOW: "--now"}
            yield ["dlq", "resolve", signature, options.get(self.resolve, f"--in={self.resolve}")]

    async def carry_out(self, signatures: Signatures, name: str, link: str, recorded: Callable[[int], object]) -> None:
        """Set it of a signature, each part as an operation, whose number `recorded` is called with.

        `link`: the one that is kept where the note goes.

        Raises:
            InvalidArgument, ReadOnly, SignatureNotFound, StoreUnavailable: not all of it was set.
        """
        if self.owner is not None:
            recorded(await signatures.own(name, self.owner or None, off=not self.owner))
        if self.note is not None:
            gone = not self.note
            given = {"off": True} if gone and not link else {"text": self.note, "link": link if gone else None}
            recorded(await signatures.note(name, **given))
        if self.mute is not None:
            one = self.mute
            off = one == LOUD
            recorded(await signatures.mute(name, for_=one.seconds, until=one.until, until_growth=one.factor, off=off))
        if self.resolve is not None:
            recorded(await signatures.resolve(name, in_=self.resolve or NOW, off=not self.resolve))


def mended(release: str) -> str:
    """Return in what a signature is resolved: in r125, in the next release, as of now."""
    return {NEXT: "in the next release", NOW: "as of now"}.get(release, f"in {safe(release, 40)}")


def change_of(before: StateChange, after: StateChange) -> StateChange:
    """Return what changes from one to the other; what `after` leaves out stays as it is."""
    return StateChange(
        *(
            new if new != old else None
            for old, new in (
                (before.owner, after.owner),
                (before.note, after.note),
                (before.mute, after.mute),
                (before.resolve, after.resolve),
            )
        )  # type: ignore[arg-type]
    )


def as_set(facts: SignatureFacts, word: str) -> StateChange:
    """Return what is set of a signature; a mute that is over is none."""
    mute = LOUD
    if word == "muted":
        until = None if facts.until is None else datetime.fromtimestamp(facts.until, UTC)
        mute = Mute(until=until, factor=facts.factor)
    resolved = facts.release if facts.state == "resolved" else UNRESOLVED
    return StateChange(facts.owner, facts.note, mute, resolved)


def overtaken(facts: SignatureFacts, shown: int, own: Collection[int]) -> str:
    """Return what another has set beside a change of one's own, in place of it or replaced by it; "" for nothing.

    `shown`: the operation that changed the signature last when one made one's own changes.
    """
    numbers = [number for number, _, _ in facts.changes]
    recent = facts.changes[numbers.index(shown) + 1 if shown in numbers else 0 :]
    for place, (number, before, after) in enumerate(recent):
        if number in own:
            continue
        earlier = {name for one, _, values in recent[:place] if one in own for name in values}
        later = {name for one, values, _ in recent[place:] if one in own for name in values}
        if _SET_BY_PEOPLE & later & set(after):
            return f"{_was_set(after)} was set meanwhile, and is replaced"
        if _SET_BY_PEOPLE & earlier & set(before):
            return f"{_was_set(after)} was set since, in place of yours"
    return ""


_SET_BY_PEOPLE = frozenset({"owner", "note", "state", "release", "until", "factor"})
"""What a person sets; the other fields follow."""


def _was_set(after: Mapping[str, Any]) -> str:
    if "owner" in after:
        return f"owner {safe(after['owner'], 40)}" if after["owner"] else "no owner"
    if "note" in after:
        by = f" of {safe(after['note_by'], 40)}" if after.get("note_by") else ""
        return f"a note{by}" if after["note"] else "no note"
    by = f" by {safe(after['by'], 40)}" if after.get("by") else ""
    return f"{after.get('state', 'another time or release') or 'known'}{by}"
