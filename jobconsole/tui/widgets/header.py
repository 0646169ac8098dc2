"""The two lines at the top: where one is and how the servers are; the numbers that matter."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

from textual import events

from jobconsole.core.connection import RefusedWrites, Server
from jobconsole.core.doctor.outages import meaning
from jobconsole.core.latency import word
from jobconsole.core.snapshot import DEAD, OLD_SECONDS, Snapshot, SnapshotTotals
from jobconsole.format import humanize
from jobconsole.format.spans import Line, Span, Spans, fit, spread, width_of
from jobconsole.present.columns import LATE
from jobconsole.tui.base.bindings import BY_ID, Action
from jobconsole.tui.views import VIEWS
from jobconsole.tui.widgets.pane import LineWidget
from queue_core.model.text import safe

TABS = tuple(BY_ID[view.action] for view in VIEWS)
"""The actions that lead to the views, by their digits."""

LEAST_TABS = 72
"""Columns from which all views are named by their digits at least; below, only the one that is shown."""
URGENT = ("DEAD", "RUN", "RETRY", "OLDEST")
"""The numbers that come first where there is room for few."""
COUNTED = 120
"""Columns from which new signatures and those that are back are counted."""
ROOMY = 100
"""Columns from which servers and clock are shown in full."""
LEAST_STATE = 8
"""Cells at the right end that are kept whatever is at the left: they show whether the picture is up to date."""
LEAST_WORD = 6
"""Cells of a context's word that are shown at least."""


class Header(LineWidget):
    """Views, servers and clock, or what is wrong; below them the totals."""

    def lines(self, width: int, height: int) -> list[Line]:
        """Draw both lines."""
        alarm = self._alarm()
        first = fit(alarm, width, fill="on-warn") if alarm else self._first(width)
        return [first, self._totals(width)]

    def on_click(self, event: events.Click) -> None:
        if event.y == 0 and not self._alarm():
            at = width_of(self._where(self.size.width))
            for view, label in self._labels(self.size.width):
                at += width_of(_tab(view, label, here=False))
                if event.x < at:
                    self.console.choose(view.id)
                    return

    def _first(self, width: int) -> Line:
        tabs = [_tab(view, label, view.id == self.console.place) for view, label in self._labels(width)]
        left = (*self._where(width), *(span for tab in tabs for span in tab))
        return spread(left, self._state(width), width, "bar")

    def _where(self, width: int) -> Spans:
        """Return context and read-only, and what parts them from the tabs."""
        return (*self._named(width), (" ", "text/bar"))

    def _named(self, width: int) -> Spans:
        """Return context and read-only; the context's word is cut where there would be no room for the tabs."""
        others = LEAST_STATE + (11 if self.console.operator.read_only else 0) + 3
        spans = self._word(max(LEAST_WORD, width - others - self._least_tabs()))
        return (*spans, (" READ-ONLY ", "on-muted")) if self.console.operator.read_only else spans

    def _word(self, room: int) -> Spans:
        """Return the context's word in so many cells at most, between blanks."""
        context = self.console.context
        word = safe(context.word.upper(), 24)
        cut = word if len(word) <= room else word[: room - 1] + self.console.glyphs.ellipsis
        return ((f" {cut} ", context.tone),) if word else ()

    def _least_tabs(self) -> int:
        """Cells of the tabs when only the view that is shown has a name."""
        place = self.console.place
        return sum(width_of(_tab(view, view.label if view.id == place else "", False)) for view in self._tabs())

    def _tabs(self) -> tuple[Action, ...]:
        """The views that have a tab."""
        return tuple(view for view in TABS if self.size.width >= LEAST_TABS or view.id == self.console.place)

    def _labels(self, width: int) -> list[tuple[Action, str]]:
        """Return the views with the labels of their keys: names as far as there is room, that of this view always."""
        room = width - width_of(self._where(width)) - width_of(self._state(width)) - 3 * len(self._tabs())
        named: set[str] = set()
        for view in sorted(self._tabs(), key=lambda view: (view.id != self.console.place, view.key)):
            room -= len(view.label) + 1
            if room < 0 and named:
                break
            named.add(view.id)
        return [(view, view.label if view.id in named else "") for view in self._tabs()]

    def _state(self, width: int) -> Spans:
        """Return servers, whether the picture is up to date, the clock; what is in order is dropped first for room."""
        room = width - width_of(self._where(width)) - self._least_tabs()
        for roomy in (True, False) if width >= ROOMY else (False,):
            servers = [self._server(server, roomy) for server in self.console.connection.servers]
            shown = tuple(span for server in servers for span in server)
            troubled = tuple(span for server in servers if server[0][1] != "good/bar" for span in server)
            for kept, timed in ((shown, True),) if roomy else ((shown, True), (shown, False), (troubled, True)):
                spans = self._kept(kept, timed, roomy)
                if width_of(spans) <= room:
                    return spans
        return self._kept(troubled, False, False)

    def _mode(self) -> tuple[str, str, str]:
        """Glyph, word and tone for how true the picture is."""
        glyphs, age = self.console.glyphs, self.console.model.age
        if self.console.frozen:
            return glyphs.pause, "FROZEN", "warn/bar"
        if age is None:
            word = "READING" if self.console.connection.usable else "CONNECTING"
            return glyphs.ellipsis, word, "muted/bar"
        if age > OLD_SECONDS:
            return glyphs.alert, f"{humanize.elapsed(age)} OLD", "warn/bar"
        if self._unserved():
            return glyphs.alert, "NO WORKER", "bad/bar"
        if self.console.connection.deaf:
            return glyphs.dot, "POLLED", "warn/bar"
        return glyphs.dot, "LIVE", "good/bar"

    def _unserved(self) -> bool:
        """Whether jobs wait or run, and no worker is alive."""
        snapshot = self.console.model.snapshot
        if snapshot is None or snapshot.totals.workers:
            return False
        return bool(snapshot.totals.queued or snapshot.totals.running)

    def _kept(self, spans: Spans, timed: bool, roomy: bool) -> Spans:
        glyph, mode, tone = self._mode()
        rate = self.console.model.event_rate()
        events = f"{humanize.short(round(rate)):>6} ev/s  " if roomy else ""
        clock = f"{humanize.clock(self.console.model.now)} " if timed else ""
        return (
            *spans,
            (events, "muted/bar"),
            (f"{glyph} ", tone),
            (f"{mode}  ", tone),
            (clock, "text/bar"),
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
        """The banner of a server that is gone or takes no writes: behind the context, for that is asked first."""
        width = self.size.width
        banners, why = self._banners()
        # Nothing can be changed while the store is gone, read-only or not.
        for named in (self._named(width), self._word(width), self._word(LEAST_WORD)):
            for banner in banners:
                if width_of(named) + width_of(banner) <= width:
                    return (*named, *banner, (why, "on-warn"))
        return banners[-1] if banners else ()

    def _banners(self) -> tuple[list[Spans], str]:
        """Return the banner, its longest form first, and the cause, which may be cut."""
        connection, roomy = self.console.connection, self.size.width >= ROOMY
        store, delivery = connection.store, connection.delivery
        if store.state == "lost":
            age = self.console.model.age
            if age is None:
                what = f"{store.name.upper()} unavailable, retrying each second"
                return [self._banner(what)], f": {safe(store.error)}"
            off, old = "changes are disabled", f"{humanize.elapsed(age)} old"
            texts = [f"data is {old}; {off}"] if roomy else [f"{old}; {off}", off]
            lost = store
        elif delivery is not None and delivery.state == "lost":
            texts = [f"{store.name} is read each second instead", f"reading {store.name} instead"]
            lost = delivery
        else:
            return self._refused(connection.refusal) if connection.refusal is not None else ([], "")
        why = f"  ({safe(lost.error)})" if lost.error and self.size.width >= 120 else ""
        forms = [f"{_lost(lost)}: {text}" for text in texts] + [f"{_lost(lost, dated=False)}: {texts[-1]}"]
        return [self._banner(form) for form in forms], why

    def _refused(self, refusal: RefusedWrites) -> tuple[list[Spans], str]:
        """Return the banner of a server that answers and takes no writes, and the cause in the server's words."""
        age = humanize.elapsed((datetime.now(UTC) - refusal.since).total_seconds())
        what, cause = f"{refusal.server.upper()} TAKES NO WRITES", meaning(refusal.server, refusal.reason)
        stops = refusal.server == self.console.connection.store.name
        follows = "no job can be enqueued or ended" if stops else "workers look into the store instead"
        means = f": {cause}" if cause else ""
        forms = [f"{what} since {humanize.clock(refusal.since)} ({age}){means}", f"{what} ({age}){means}", what]
        if self.size.width >= COUNTED:
            forms.insert(0, f"{forms[0]}; {follows}")
        why = f"  ({safe(refusal.reason)})" if not cause or self.size.width >= COUNTED else ""
        return [self._banner(form) for form in forms], why

    def _banner(self, text: str) -> Spans:
        return ((f" {self.console.glyphs.alert} {text}", "on-warn"),)

    def _totals(self, width: int) -> Line:
        snapshot = self.console.model.snapshot
        if snapshot is None:
            return fit(((" reading ...", "muted"),), width)
        tiles = self._tiles(snapshot)
        if width < LEAST_TABS:
            tiles.sort(key=lambda tile: URGENT.index(tile[0]) if tile[0] in URGENT else len(URGENT))
        gap = 2 if width >= ROOMY else 1
        while len(tiles) > 1 and sum(size + gap for *_, size in tiles) > width - 1:
            tiles.pop()
        spans: list[Span] = [(" ", "text")]
        for label, value, size in tiles:
            spans += fit(((f"{label} ", "muted"), *value), size)
            spans.append((" " * gap, "text"))
        return fit(spans, width)

    def _needing(self, snapshot: Snapshot) -> list[tuple[str, Spans, int]]:
        """How many signatures are new or back, where there is room; of a filtered list only its own are known."""
        if self.size.width < COUNTED:
            return []
        if snapshot.needs.where != DEAD:
            return [("NEW", (("?", "faint"),), 7), ("REGRESSED", (("?", "faint"),), 13)]
        words = Counter(state.word for state in snapshot.states.values())
        return [
            ("NEW", ((humanize.exact(words["new"]), "warn" if words["new"] else "faint"),), 7),
            ("REGRESSED", ((humanize.exact(words["regressed"]), "bad" if words["regressed"] else "faint"),), 13),
        ]

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
            ("RUN", _running(totals), 15),
            ("RETRY", _value(totals.retrying, "warn"), 11),
            ("DEAD", (*_value(totals.dead, "bad", 6), *growth), 22),
            *self._needing(snapshot),
            ("OLDEST", ((oldest, "warn" if alert else "text"),), 12),
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


def _lost(server: Server, dated: bool = True) -> str:
    ago = humanize.elapsed((datetime.now(UTC) - server.since).total_seconds())
    what = f"no answer for {ago}" if server.silent else ago
    since = f" since {humanize.clock(server.since)}" if dated else ""
    return f"{server.name.upper()} LOST{since} ({what})"


def _running(totals: SnapshotTotals) -> Spans:
    """Return how many run, of how many could; workers hold a few more than they run, then the number is shown alone."""
    text = humanize.count(totals.running, 5)
    if totals.running <= totals.slots:
        text += f"/{humanize.count(totals.slots, 5)}"
    return ((text, "accent" if totals.running else "faint"),)
