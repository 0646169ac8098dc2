"""The views by the name of their mode; `view_<name>` is the action that leads to each."""

from __future__ import annotations

from collections.abc import Callable

from textual.screen import Screen

from jobconsole.tui.screens.events import EventsView
from jobconsole.tui.screens.jobs import JobsView
from jobconsole.tui.screens.live import LiveView
from jobconsole.tui.screens.operations import OperationsView
from jobconsole.tui.screens.schedules import SchedulesView
from jobconsole.tui.screens.triage import TriageView

FIRST = "triage"

MODES: dict[str, str | Callable[[], Screen[None]]] = {
    FIRST: TriageView,
    "live": LiveView,
    "jobs": JobsView,
    "operations": OperationsView,
    "schedules": SchedulesView,
    "events": EventsView,
}
