"""Releases: when they went live, as ticks below a chart, and what became of the jobs on each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise

from jobconsole.core.latency import word
from jobconsole.core.snapshot import Snapshot
from jobconsole.format.glyphs import Glyphs, spark
from jobconsole.format.humanize import age, count, seconds_between
from jobconsole.format.spans import LABEL, Line, RenderContext, Spans, fit
from queue_core.model.report import SignatureInfo
from queue_core.model.text import safe

TICK_NAME = 12
"""Characters of a release's name in a tick."""
SHOWN_RELEASES = 10
"""Releases of a list, at most."""


@dataclass(frozen=True, slots=True)
class LiveSince:
    """A release that went live."""

    at: datetime
    name: str
    # newer releases had been live before
    back: bool = False

    def label(self, glyphs: Glyphs) -> str:
        """Its name, behind an arrow where it is a rollback."""
        return f"{glyphs.down if self.back else ''}{safe(self.name, TICK_NAME)}"


def deployments(snapshot: Snapshot) -> tuple[LiveSince, ...]:
    """Return when releases went live, the oldest first, and whether the last one is a rollback."""
    found = [LiveSince(one.first_seen, one.name) for one in snapshot.releases]
    places = {one.name: one.place for one in snapshot.releases}
    live = [one for one in snapshot.workers if one.release in places and not one.lost]
    if live:
        newest = max(live, key=lambda one: places[one.release or ""]).release or ""
        later = [one.first_seen for one in snapshot.releases if one.place > places[newest]]
        began = min(one.started_at for one in live if one.release == newest)
        if later and began > max(later):
            found.append(LiveSince(began, newest, back=True))
    return tuple(sorted(found, key=lambda one: one.at))


def ticks(found: Iterable[LiveSince], end: datetime, seconds: float, width: int, room: int, glyphs: Glyphs) -> str:
    """Return the ticks below a chart of `width` cells over so many seconds before `end`; "" for none.

    The names are cut where the next tick comes, or `room` cells are full.
    """
    begin = end - timedelta(seconds=seconds)
    cells: dict[int, str] = {}
    for one in found:
        place = int((one.at - begin).total_seconds() / seconds * width)
        if begin <= one.at <= end:
            cells[min(place, width - 1)] = one.label(glyphs)
    line, places = "", sorted(cells)
    for place, following in pairwise([*places, room + 1]):
        text = f"{glyphs.tick}{cells[place]}"
        free = following - place - 1
        line = line.ljust(place) + (text if len(text) <= free else glyphs.tick)
    return line[:room]


LONGEST_TREND = 45
"""Cells of a trend."""


def trend_lines(
    info: SignatureInfo, window: float, found: Iterable[LiveSince], context: RenderContext, width: int
) -> list[Line]:
    """Return the deaths over the window, in seconds, and below them the releases that went live meanwhile."""
    number = len(info.trend)
    if not info.grown or not number or not window:
        return []
    unit = f"  {word(window / number)} a bar"
    room = width - LABEL
    wide = max(1, min(LONGEST_TREND, room - len(unit)) // number)
    bars = "".join(level * wide for level in spark(info.trend, number, context.glyphs.levels))
    below = ticks(found, context.now, window, wide * number, room, context.glyphs)
    chart: Line = ((f"{'trend':<{LABEL}}", "muted"), (bars, "accent"), (unit, "muted"))
    return [chart, *([((" " * LABEL, "text"), (below, "warn"))] if below else [])]


@dataclass(frozen=True, slots=True)
class ReleaseLine:
    """A release as a list shows it."""

    name: str
    # live ones that announce it
    workers: int
    since: datetime
    # of the types that are read
    died: int
    ran: int


def release_lines(snapshot: Snapshot) -> list[ReleaseLine]:
    """Return the newest releases, and those of live workers."""
    live = [one.release for one in snapshot.workers if not one.lost]
    sums: dict[int, list[int]] = {}
    for run in snapshot.runs:
        some = sums.setdefault(run.release, [0, 0])
        some[:] = some[0] + run.dead, some[1] + run.completed + run.dead
    ordered = sorted(snapshot.releases, key=lambda one: one.place, reverse=True)
    # Those with workers have their place, however old they are.
    old = [one for one in ordered[SHOWN_RELEASES:] if one.name in live][:SHOWN_RELEASES]
    kept = [*ordered[: SHOWN_RELEASES - len(old)], *old]
    return [ReleaseLine(one.name, live.count(one.name), one.first_seen, *sums.get(one.number, (0, 0))) for one in kept]


COLUMN_CELLS = (7, 5, 5, 7)
"""Cells of the columns behind the name."""


def release_table(lines: Sequence[ReleaseLine], context: RenderContext, width: int) -> list[Line]:
    """Return the list with its titles."""
    name = max(7, width - sum(COLUMN_CELLS) - len(COLUMN_CELLS) - 1)
    titles = ("WORKERS", "SINCE", "DIED", "OF RUN")
    head: Line = ((" ", "text"), *fit((("RELEASE", "faint"),), name), *_cells(titles, "faint"))
    return [head, *(_row(one, context, name) for one in lines)]


def _row(one: ReleaseLine, context: RenderContext, name: int) -> Line:
    live = "strong" if one.workers else "muted"
    since = age(seconds_between(one.since, context.now))
    died = (count(one.died, COLUMN_CELLS[2]), "bad" if one.died else "faint")
    return (
        (" ", "text"),
        *fit(((safe(one.name, 60), live),), name, ellipsis=context.glyphs.ellipsis),
        *_cells((str(one.workers), since), live),
        *_cells((died[0],), died[1], COLUMN_CELLS[2:]),
        *_cells((count(one.ran, COLUMN_CELLS[3]),), "text" if one.ran else "faint", COLUMN_CELLS[3:]),
    )


def _cells(texts: Sequence[str], tone: str, sizes: Sequence[int] = COLUMN_CELLS) -> Spans:
    return tuple((f" {text.strip():>{size}}", tone) for text, size in zip(texts, sizes, strict=False))
