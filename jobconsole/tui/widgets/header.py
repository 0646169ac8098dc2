"""The two lines at the top: where one is and how the servers are; the numbers that matter."""

from __future__ import annotations

from datetime import UTC, datetime

from textual import events

from jobconsole.core import humanize
from jobconsole.core.columns import LATE, Span, Spans
from jobconsole.core.connection import Server
from jobconsole.core.snapshot import Snapshot, Totals
from jobconsole.core.windows import word
from jobconsole.tui.bindings import ACTIONS, Action
from jobconsole.tui.drawing.spans import Line, fit, spread, width_of
from jobconsole.tui.widgets.lines import LineWidget
from queue_core.text import safe

VIEWS = sorted((action for action in ACTIONS if action.id.startswith("view_")), key=lambda action: action.key)

ROOMY = 100
"""Columns from which servers and clock are told in full."""


class Header(LineWidget):
    """Views, servers and clock, or what is wrong; below them the totals."""

    def lines(self, width: int, height: int) -> list[Line]:
        """Draw both lines."""
        alarm = self._alarm()
        first = fit(alarm, width, fill="on-warn") if alarm else self._first(width)
        return [first, self._totals(width)]

    def on_click(self, event: events.Click) -> None:
        if event.y == 0 and not self._alarm():
            at = width_of(self._where())
            for view, label in self._labels(self.size.width):
                at += width_of(_tab(view, label, here=False))
                if event.x < at:
                    self.console.perform(view.id)
                    return

    def _first(self, width: int) -> Line:
        tabs = [_tab(view, label, view.id == self.console.place) for view, label in self._labels(width)]
        left = (*self._where(), *(span for tab in tabs for span in tab))
        return spread(left, self._state(width >= ROOMY), width, "bar")

    def _where(self) -> Spans:
        context = self.console.context
        spans: list[Span] = []
        if context.word:
            spans.append((f" {safe(context.word.upper(), 24)} ", context.tone))
        if self.console.operator.read_only:
            spans.append((" READ-ONLY ", "on-muted"))
        return (*spans, (" ", "text/bar"))

    def _labels(self, width: int) -> list[tuple[Action, str]]:
        """The views with what stands behind their keys: names as far as there is room, that of this view always."""
        room = width - width_of(self._where()) - width_of(self._state(width >= ROOMY)) - 3 * len(VIEWS)
        named: set[str] = set()
        for view in sorted(VIEWS, key=lambda view: (view.id != self.console.place, view.key)):
            room -= len(view.label) + 1
            if room < 0 and named:
                break
            named.add(view.id)
        return [(view, view.label if view.id in named else "") for view in VIEWS]

    def _state(self, roomy: bool) -> Spans:
        spans: list[Span] = []
        for server in self.console.connection.servers:
            spans += self._server(server, roomy)
        frozen = self.console.frozen
        mode = ("FROZEN", "warn/bar") if frozen else ("LIVE", "good/bar")
        if self.console.connection.deaf and not frozen:
            mode = ("POLLED", "warn/bar")
        glyph = self.console.glyphs.pause if frozen else self.console.glyphs.dot
        rate = self.console.model.event_rate()
        events = f"{humanize.short(round(rate)):>6} ev/s  " if roomy else ""
        clock = humanize.clock(self.console.model.now)
        return (
            *spans,
            (events, "muted/bar"),
            (f"{glyph} ", mode[1]),
            (f"{mode[0]}  ", mode[1]),
            (f"{clock} ", "text/bar"),
            ("UTC " if roomy else "", "muted/bar"),
        )

    def _server(self, server: Server, roomy: bool) -> Spans:
        glyphs = self.console.glyphs
        name = server.name if roomy else {"postgres": "pg"}.get(server.name, server.name)
        if server.state == "lost":
            return ((f"{glyphs.alert} ", "bad/bar"), (f"{name} lost  ", "bad/bar"))
        if server.state == "connecting":
            return ((f"{glyphs.ellipsis} {name}  ", "muted/bar"),)
        latency = (
            ""
            if not roomy or server.latency is None or server.name == "memory"
            else f" {server.latency * 1000:.0f}ms".ljust(6)
        )
        return ((f"{glyphs.ok} ", "good/bar"), (f"{name}{latency}  ", "text/bar"))

    def _alarm(self) -> Spans:
        """The banner, when the store is gone or Redis is."""
        connection = self.console.connection
        store, delivery = connection.store, connection.delivery
        if store.state == "lost":
            age = self.console.model.age
            if age is None:
                return self._banner(f"{store.name.upper()} cannot be used, trying each second", safe(store.error))
            picture = f"picture {humanize.elapsed(age)} old, keys that change are off"
            return self._banner(_lost(store), picture, store.error)
        if delivery is not None and delivery.state == "lost":
            return self._banner(_lost(delivery), f"{store.name} is read each second instead", delivery.error)
        return ()

    def _banner(self, what: str, consequence: str, why: str = "") -> Spans:
        why = f"  ({safe(why)})" if why and self.size.width >= 120 else ""
        return ((f" {self.console.glyphs.alert} {what}: {consequence}{why}", "on-warn"),)

    def _totals(self, width: int) -> Line:
        snapshot = self.console.model.snapshot
        if snapshot is None:
            return fit(((" reading ...", "muted"),), width)
        tiles = self._tiles(snapshot)
        while len(tiles) > 1 and sum(size + 2 for *_, size in tiles) > width - 1:
            tiles.pop()
        spans: list[Span] = [(" ", "text")]
        for label, value, size in tiles:
            spans += fit(((f"{label} ", "muted"), *value), size)
            spans.append(("  ", "text"))
        return fit(spans, width)

    def _tiles(self, snapshot: Snapshot) -> list[tuple[str, Spans, int]]:
        """Label, value and fixed width of each number, the most important first."""
        totals, deaths, span = snapshot.totals, snapshot.deaths, word(snapshot.span.total_seconds())
        late = humanize.seconds_between(totals.oldest, self.console.model.now)
        alert = late is not None and late >= LATE
        model = self.console.model
        oldest = (humanize.age(late) or "-") + (self.console.glyphs.alert if alert else "")
        growth: Spans = ((f" +{humanize.short(deaths)}/{span}", "warn"),) if deaths else ()
        lost: Spans = ((f", {totals.lost_workers} lost", "bad"),) if totals.lost_workers else ()
        return [
            ("QUEUED", _value(totals.queued), 12),
            ("RUN", _running(totals), 11),
            ("RETRY", _value(totals.retrying, "warn"), 10),
            ("DEAD", (*_value(totals.dead, "bad", 7), *growth), 22),
            ("OLDEST", ((oldest, "warn" if alert else "text"),), 11),
            ("DONE", ((humanize.rate(model.rate("completed")), "good"),), 12),
            ("FAILED", ((humanize.rate(model.rate("retrying") + model.rate("dead")), "text"),), 14),
            ("SCHEDULED", _value(totals.scheduled), 15),
            ("TRASH", _value(totals.trashed), 12),
            ("WORKERS", ((str(totals.workers), "text"), *lost), 20),
        ]


def _tab(view: Action, label: str, here: bool) -> Spans:
    name: Spans = ((f" {label}", "strong/bar" if here else "muted/bar"),) if label else ()
    return ((view.key, "key/bar"), *name, ("  ", "text/bar"))


def _value(number: int, tone: str = "strong", width: int = 5) -> Spans:
    return ((humanize.count(number, width), tone if number else "faint"),)


def _lost(server: Server) -> str:
    ago = (datetime.now(UTC) - server.since).total_seconds()
    return f"{server.name.upper()} LOST since {humanize.clock(server.since)} ({humanize.elapsed(ago)})"


def _running(totals: Totals) -> Spans:
    """How many run, of how many could; workers hold a few more than they run, then the number says it alone."""
    text = humanize.count(totals.running, 5)
    if totals.running <= totals.slots:
        text += f"/{humanize.count(totals.slots, 5)}"
    return ((text, "accent" if totals.running else "faint"),)
