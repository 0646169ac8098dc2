"""The views by the name of their mode; `view_<name>` is the action that leads to each.

The first one is loaded before the first picture, each of the others when somebody goes there.
"""

from __future__ import annotations

from collections.abc import Callable

from textual.screen import Screen

from jobconsole.tui.screens.triage import TriageView

FIRST = "triage"


def _live() -> Screen[None]:
    from jobconsole.tui.screens.live import LiveView

    return LiveView()


def _jobs() -> Screen[None]:
    from jobconsole.tui.screens.jobs import JobsView

    return JobsView()


def _operations() -> Screen[None]:
    from jobconsole.tui.screens.operations import OperationsView

    return OperationsView()


def _schedules() -> Screen[None]:
    from jobconsole.tui.screens.schedules import SchedulesView

    return SchedulesView()


def _events() -> Screen[None]:
    from jobconsole.tui.screens.events import EventsView

    return EventsView()


MODES: dict[str, str | Callable[[], Screen[None]]] = {
    FIRST: TriageView,
    "live": _live,
    "jobs": _jobs,
    "operations": _operations,
    "schedules": _schedules,
    "events": _events,
}
