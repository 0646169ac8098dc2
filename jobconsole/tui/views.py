"""The views of the console in one table: modes, actions, digits, tabs, links and help derive from it.

It loads no screen: each is imported when its view is first shown, the first one before the first picture.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.screen import Screen


@dataclass(frozen=True, slots=True)
class ViewSpec:
    """One view. Its digit is its place in the table."""

    # of its mode, of its action `view_<name>` and in links
    name: str
    # of its tab, and in the help
    label: str
    tooltip: str
    # module and class of its screen, as in "package.module:Class"
    screen: str
    # whether a link to it can hold a filter
    filtered: bool = True
    # what a link to one thing in it is named by, such as job; "" for none
    item: str = ""

    @property
    def action(self) -> str:
        """The id of the action that leads to it."""
        return f"view_{self.name}"

    def open(self) -> Screen[None]:
        """Return its screen, imported on first use."""
        module, _, name = self.screen.partition(":")
        screen: Screen[None] = getattr(import_module(module), name)()
        return screen


_SCREENS = "jobconsole.tui.screens"

VIEWS: tuple[ViewSpec, ...] = (
    ViewSpec(
        "triage",
        "Triage",
        "Dead letters by error, what is running, how fast",
        f"{_SCREENS}.triage:TriageView",
        item="signature",
    ),
    ViewSpec(
        "live",
        "Live",
        "Queues, running jobs, workers, throughput",
        f"{_SCREENS}.live:LiveView",
        filtered=False,
    ),
    ViewSpec("jobs", "Jobs", "All jobs, by state and filter", f"{_SCREENS}.jobs:JobsView", item="job"),
    ViewSpec(
        "operations",
        "Operations",
        "What people did, why, how far it is and what came of it",
        f"{_SCREENS}.operations:OperationsView",
        item="operation",
    ),
    ViewSpec(
        "schedules",
        "Schedules",
        "When which job comes, and what came of it",
        f"{_SCREENS}.schedules:SchedulesView",
        item="schedule",
    ),
    ViewSpec("events", "Events", "What happens, as it happens", f"{_SCREENS}.events:EventsView", filtered=False),
)

FIRST = VIEWS[0]
VIEW_OF = {place: view for view in VIEWS for place in (view.name, view.item) if place}
"""The view that each place of a link is in."""
