"""What a screen shows of a signature's breakdown, and of two payloads side by side."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jobconsole.core.rows import ended_at
from jobconsole.format.glyphs import Glyphs
from jobconsole.format.humanize import age, exact, plural, seconds_between
from jobconsole.format.spans import Line, RenderContext, Span, Spans, fit, width_of, wrap
from jobconsole.present.facts import moment
from queue_core.client.causes.compare import ComparedField, Comparison
from queue_core.model.report import Breakdown, Dimension, Share
from queue_core.model.text import safe

BAR = 12
"""Cells of a bar of 100%."""
NAME, PERCENT, COMPLETED = 14, 6, 11
"""Cells of a property's name, of a share of the dead, and of one of the completed jobs."""
WIDEST = 60
"""Cells of a value at most, so that its share stays near it."""
EVEN = 1.5
"""A value that is less frequent than so many times the mean is one of many alike."""
ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class ShareRow:
    """One line of a breakdown: a value of a property, with the share of dead and of completed jobs that have it."""

    # "" where the line before is about the same property
    label: str
    value: str
    dead: float
    # None: unknown
    completed: float | None
    # a term of a filter that chooses these jobs; "": there is none
    where: str
    # it is about a field of payloads
    field: bool = False

    @property
    def key(self) -> str:
        """What a cursor holds on to."""
        return f"{self.where} {self.label} {self.value}"


def share_rows(found: Breakdown) -> list[ShareRow]:
    """Return the lines of a breakdown, those of payloads' fields last."""
    rows: list[ShareRow] = []
    for dimension in found.dimensions:
        if dimension.name != "type" or dimension.distinct > 1:
            rows += _rows(dimension, dimension.name, False)
    for dimension in found.fields:
        rows += _rows(dimension, safe(dimension.name.removeprefix("payload."), 60), True)
    return rows


def _rows(dimension: Dimension, label: str, field: bool) -> Iterator[ShareRow]:
    first = dimension.values[0]
    if not field and dimension.distinct > len(dimension.values) and first.dead * dimension.distinct < EVEN:
        known = min(1.0, first.dead * dimension.distinct)
        yield ShareRow(label, f"{exact(dimension.distinct)}, evenly", known, None, "")
        return
    for share in dimension.values:
        if share is first or _contrasts(share, first):
            yield ShareRow(label, safe(share.value, 100) or '""', share.dead, share.completed, share.where, field)
            label = ""


def _contrasts(share: Share, first: Share) -> bool:
    """Whether a value that is not the most frequent is worth a line."""
    return share.dead >= 0.01 and first.dead < 0.995


def percent(share: float | None) -> str:
    """Return a share as 97%, of what is little but there <1%; ? for an unknown one."""
    if share is None:
        return "?"
    return "<1%" if 0 < share < 0.005 else f"{share:.0%}" if share < 0.995 or share == 1 else ">99%"


def breakdown_lines(found: Breakdown, context: RenderContext, width: int, cursor: int | None = None) -> list[Line]:
    """Return the lines of a breakdown; the line of the row under the `cursor` is marked."""
    rows = share_rows(found)
    if not rows:
        return [(("no dead job has this signature any more", "muted"),)]
    bar = BAR if width >= 60 else 0
    room = width - 2 - PERCENT - (bar + 2 if bar else 0) - COMPLETED
    name = max(LEAST_FIELD, min(NAME, (room + 1) // 2))
    value = max(LEAST_FIELD, min(WIDEST, room - name - 1))
    titles = (
        *fit((("", "text"),), 2 + name + value), *fit((("DEAD", "muted"),), PERCENT, right=True),
        *fit((("", "text"),), bar + 2 if bar else 0), *fit((("COMPLETED", "muted"),), COMPLETED, right=True),
    )  # fmt: skip
    lines: list[Line] = [titles]
    for number, row in enumerate(rows):
        if row.field and not (number and rows[number - 1].field):
            lines.append(_rule(found, context, width))
        lines.append(_share_line(row, context.glyphs, (name, value, bar), number == cursor))
    if not found.fields:
        lines.append(_rule(found, context, width))
        lines += _sentence(no_fields(found), width, "  ")
    return [*lines, *(line for text in notes(found, context) for line in _sentence(text, width))]


def row_places(found: Breakdown) -> list[int]:
    """Return the line of each row among those that `breakdown_lines` returns."""
    places, at = [], 1
    rows = share_rows(found)
    for number, row in enumerate(rows):
        at += row.field and not (number and rows[number - 1].field)
        places.append(at)
        at += 1
    return places


def no_fields(found: Breakdown) -> str:
    """Return why no field of payloads is shown."""
    if not found.compared:
        return "the payloads have no fields to compare"
    return f"none of {plural(found.compared, 'field')} distinguishes dead from completed jobs"


def _rule(found: Breakdown, context: RenderContext, width: int) -> Line:
    what = "that distinguish dead from completed best" if found.completed else "of the dead, the most frequent values"
    counts = f"{len(found.fields)} of {found.compared}"
    words = f" Payload fields {what}, {counts} "
    if len(words) + 2 > width:
        words = f" Payload fields, {counts} "
    rule = context.glyphs.rule
    return fit(((rule * 2, "line"), (words, "title"), (rule * max(0, width - len(words) - 2), "line")), width)


def _share_line(row: ShareRow, glyphs: Glyphs, widths: tuple[int, int, int], here: bool) -> Line:
    name, value, bar = widths
    tone = "strong" if row.dead >= 0.8 and (row.completed is None or row.completed < 0.8) else "text"
    spans: Spans = (
        (f"{glyphs.cursor if here else ' '} ", "accent"),
        *fit(((row.label, "muted"),), name - 1, ellipsis=glyphs.ellipsis), (" ", "text"),
        *fit(((row.value, tone),), value - 1, ellipsis=glyphs.ellipsis), (" ", "text"),
        *fit(((percent(row.dead), tone),), PERCENT, right=True),
    )  # fmt: skip
    if bar:
        spans = (*spans, ("  ", "text"), *fit(((_bar(row.dead, glyphs), "accent"),), bar))
    return (*spans, *fit(((percent(row.completed), "muted"),), COMPLETED, right=True))


def _bar(share: float, glyphs: Glyphs) -> str:
    halves = max(1, round(share * BAR * 2)) if share else 0
    return glyphs.bar_full * (halves // 2) + glyphs.bar_half * (halves % 2)


def notes(found: Breakdown, context: RenderContext | None = None) -> list[str]:
    """Return what the shares are of, in two sentences."""
    of = f" of {exact(found.count)}" if found.count is not None and found.count != found.sampled else ""
    completed = f"{exact(found.completed)} completed" if found.completed else "no completed job"
    if context is not None and found.since is not None:
        completed += f" of the last {age(seconds_between(found.since, context.now))}"
    elif found.since is not None:
        completed += f" since {moment(found.since)}"
    counted = [one.name for one in found.dimensions if one.exact]
    first = f"Shares are of a sample: {exact(found.sampled)}{of} dead, {completed}."
    if found.count == found.sampled:
        first = f"Shares are of all {exact(found.sampled)} dead, {completed}."
        counted = []
    return [first, *([f"{' and '.join(counted).capitalize()} are exact."] if counted else [])]


SIGN = {"~": "warn", "+": "bad", "-": "good", "=": "faint"}
FIELD = 16
"""Cells of a field's path up to which it is whole; of a wider pane, up to a quarter."""
LEAST_FIELD = 8
WORD = 11
"""Cells of the word for a job, with the blanks behind it."""
GAP: Span = ("  ", "text")


def comparison_lines(found: Comparison, context: RenderContext, width: int, equal: bool = False) -> list[Line]:
    """Return two payloads side by side: the fields that differ; with `equal` the others, too."""
    failing, completed = found.failing, found.completed
    head = [*_job_lines(found.failing.status.value, failing.id, moment(ended_at(failing)), failing.worker, width)]
    if completed is None:
        words = f"no {safe(failing.type, 60)} completed lately: none of the newest 20,000 completed jobs is one"
        return [*head, (), *_sentence(words, width)]
    head += _job_lines("completed", completed.id, moment(completed.updated_at), completed.worker, width)
    if failing.payload is None or completed.payload is None:
        return [*head, (), *_sentence("a payload is no JSON object: the fields of these two cannot be compared", width)]
    shown = found.fields if equal else found.different
    longest = max((width_of(((safe(one.path, 100), "text"),)) for one in shown), default=0)
    name = max(LEAST_FIELD, min(longest + 2, max(FIELD, width // 4)))
    side = max(8, (width - 2 - name - 2) // 2)
    lines: list[Line] = [()]
    if shown:
        titles = (
            ("  ", "text"),
            *fit((("FIELD", "muted"),), name),
            *fit(((failing.status.value.upper(), "muted"),), side),
        )
        lines.append((*titles, ("  ", "text"), ("COMPLETED", "muted")))
    lines += [_field_line(one, context.glyphs, name, side) for one in shown]
    if not found.different:
        lines.append((("  the payloads are equal", "muted"),))
    if found.equal and not equal:
        lines.append(((f"    {plural(found.equal, 'field is', 'fields are')} equal; t shows them", "muted"),))
    if best := contrast_sentence(found):
        lines += _sentence(best, width, "  ")
    return [*head, *lines]


def _sentence(text: str, width: int, indent: str = "") -> list[Line]:
    """Return a sentence in as many lines as it takes."""
    return [((indent + part, "muted"),) for part in wrap(text, max(8, width - len(indent)))]


def contrast_sentence(found: Comparison) -> str:
    """Return which fields distinguish best: Of 2,000 dead and 400 completed jobs: region eu 97% and 25%."""
    parts = [
        f"{safe(one.name.removeprefix('payload.'), 60)} {safe(one.values[0].value, 60)} {percent(one.values[0].dead)}"
        f" and {percent(one.values[0].completed)}"
        for one in found.contrasts
        if one.values
    ]
    among = f"Of {found.contrasted:,} dead and {found.contrasted_completed:,} completed jobs"
    return f"{among}: {', '.join(parts)}" if parts else ""


def _job_lines(word: str, job_id: str, at: str, worker: str | None, width: int) -> list[Line]:
    """Return which job it is, when it ended, and where; below it what there is no room for beside it."""
    head = (f"{word:<{WORD}}", "bad" if word == "dead" else "good")
    facts = [(job_id, "text"), (at, "muted"), *([(safe(worker, 60), "muted")] if worker else [])]
    if WORD + len(job_id) > width:
        # The id is whole in a line of its own.
        facts[:2] = facts[1::-1]
    indent = min(WORD, max(0, width - max(width_of((fact,)) for fact in facts)))
    lines: list[list[Span]] = [[head, facts[0]]]
    for fact in facts[1:]:
        if width_of((*lines[-1], GAP, fact)) <= width:
            lines[-1] += [GAP, fact]
        else:
            lines.append([(" " * indent, "text"), fact])
    return [fit(line, width) for line in lines]


def _field_line(one: ComparedField, glyphs: Glyphs, name: int, side: int) -> Line:
    tone, ellipsis = SIGN[one.sign], glyphs.ellipsis
    failing = (safe(one.failing, 220) or ABSENT, tone if one.failing else "faint")
    completed = (safe(one.completed, 220) or ABSENT, "text" if one.completed else "faint")
    return (
        (f"{one.sign} ", tone),
        *fit(((safe(one.path, 100), "text"),), name - 1, ellipsis=ellipsis),
        (" ", "text"),
        *fit((failing,), side, ellipsis=ellipsis),
        ("  ", "text"),
        *fit((completed,), side, ellipsis=ellipsis),
    )


def pairs_lines(found: Comparison, back: int, width: int) -> list[Line]:
    """Return which other completed jobs it can be compared with."""
    older = ["n compares an older completed job"] if found.older else []
    newer = ["N a newer one" if older else "N compares a newer completed job"] if back else []
    return _sentence(", ".join([*older, *newer]), width, "  ")


def summary(found: Breakdown) -> str:
    """Return in one line what distinguishes the dead, as `region eu 97% (25% of completed)`."""
    rows = [row for row in share_rows(found) if row.label and row.where and row.dead >= 0.5]
    named = [row for row in rows if row.field or (row.completed is not None and row.dead - row.completed >= 0.3)]
    parts = [f"{row.label} {row.value} {percent(row.dead)}" for row in named[:3]]
    return " · ".join(parts)
