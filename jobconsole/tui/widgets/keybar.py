"""The last line: the keys that are possible now; those that are off are grey and between brackets."""

from __future__ import annotations

from textual import events

from jobconsole.core.columns import Span
from jobconsole.tui.bindings import ACTIONS, Action
from jobconsole.tui.drawing.spans import Line, fit, width_of
from jobconsole.tui.widgets.lines import LineWidget

SHOWN = sorted((action for action in ACTIONS if action.place), key=lambda action: action.place)


class KeyBar(LineWidget):
    """As many keys as fit, the most important first; help and quit always."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._spots: list[tuple[int, str]] = []

    def lines(self, width: int, height: int) -> list[Line]:
        """Draw the line and note where each key stands, for the mouse."""
        wanted = [(action, reason) for action in SHOWN if (reason := self.console.refusal_shown(action.id)) is not None]
        always = [pair for pair in wanted if pair[0].id in {"help", "quit"}]
        room = width - sum(_size(action) for action, _ in always) - 1
        chosen = []
        for action, reason in wanted:
            if (action, reason) in always:
                continue
            room -= _size(action)
            if room < 0:
                break
            chosen.append((action, reason))
        spans: list[Span] = [(" ", "text/bar")]
        self._spots = []
        for action, reason in [*chosen, *always]:
            spans += _key(action, off=bool(reason))
            self._spots.append((width_of(spans), action.id))
        return [fit(spans, width, fill="text/bar")]

    def on_click(self, event: events.Click) -> None:
        for end, action_id in self._spots:
            if event.x < end:
                self.console.perform(action_id)
                return


def _size(action: Action) -> int:
    return len(action.key) + 1 + len(action.label) + 2


def _key(action: Action, off: bool) -> list[Span]:
    if off:
        return [(f"({action.key}){action.label} ", "faint/bar")]
    return [(action.key, "key/bar"), (f" {action.label}  ", "text/bar")]
