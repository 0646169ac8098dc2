"""Every action of the console in one table: its key, its words, and whether it changes anything.

Keys that change production are uppercase, except `u`. A user may give an action other keys by its id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from textual.binding import ActiveBinding, Binding
from textual.screen import Screen

from jobconsole.tui.views import VIEWS


@dataclass(frozen=True, slots=True)
class Action:
    """One thing that a key does."""

    id: str
    # as Textual names keys, separated by commas; the first is the one that is shown
    keys: str
    label: str
    tooltip: str
    group: str
    # changes jobs or queues: off while read-only or without a connection
    changes: bool = False
    # how long it keeps its place in the key bar where there is little room, lowest longest; 0 = only in the help
    rank: int = 0

    @property
    def key(self) -> str:
        """The first key as people read it."""
        return show_key(self.keys.split(",", maxsplit=1)[0])


_SHOWN = {
    "enter": "Enter", "escape": "Esc", "space": "Space", "tab": "Tab", "shift+tab": "S-Tab", "up": "Up", "down": "Down",
    "slash": "/", "question_mark": "?", "left_square_bracket": "[", "right_square_bracket": "]", "asterisk": "*",
    "backspace": "Bksp", "pageup": "PgUp", "pagedown": "PgDn", "home": "Home", "end": "End", "colon": ":",
    "upper_r": "R", "ctrl+d": "^D", "ctrl+u": "^U", "ctrl+p": "^P", "ctrl+y": "^Y", "ctrl+z": "^Z", "ctrl+c": "^C",
}  # fmt: skip


def show_key(key: str) -> str:
    """Return a key as people read it."""
    return _SHOWN.get(key, key)


MOVE, SHOW, CHANGE, CONSOLE = "Move", "Look", "Change", "Console"

ACTIONS: tuple[Action, ...] = (
    Action("retry", "R", "retry", "Put dead jobs back into their queue, opens a sheet first", CHANGE, True, 1),
    Action("own", "A", "mine", "Take this signature, the marked ones too; again: give it up", CHANGE, True, 2),
    Action("mute", "Z", "mute", "Mute this signature for a time, or until it grows; opens a sheet", CHANGE, True, 3),
    Action("resolve", "V", "resolve", "Mark this signature as resolved in a release; opens a sheet", CHANGE, True, 5),
    Action("note", "W", "note", "Write a note on this signature, which every console shows", CHANGE, True, 11),
    Action("delete", "D", "delete", "Move dead jobs to the trash, u undoes it; in the trash: purge", CHANGE, True, 6),
    Action("restore", "B", "bring back", "Bring jobs back from the trash into the dead-letter queue", CHANGE, True, 6),
    Action(
        "edit", "E", "edit", "Edit the payload of a job that has ended and enqueue it as a new job", CHANGE, True, 15
    ),
    Action("move", "M", "move", "Move waiting or dead jobs to another queue or priority", CHANGE, True, 16),
    Action("undo", "u", "undo", "Undo your last change that can be undone; cancel a running retry", CHANGE, True, 7),
    Action(
        "cancel",
        "X",
        "cancel",
        "Cancel jobs, opens a sheet first; end an operation",
        CHANGE,
        True,
        8,
    ),
    Action("pause", "P", "pause", "Pause this queue, schedule or operation, or resume or open it", CHANGE, True, 9),
    Action("drain", "O", "drain", "Close this queue to new jobs, and drain it; opens a sheet first", CHANGE, True, 10),
    Action("trigger", "T", "trigger", "Enqueue the job of this schedule now, opens a sheet first", CHANGE, True, 8),
    Action("quiet", "Q", "quiet", "Let this worker claim no more jobs, or let it claim again", CHANGE, True, 9),
    Action("stop", "S", "stop", "Let this worker finish its jobs and end, after a question", CHANGE, True, 10),
    Action("stack", "L", "stack", "Ask the worker of this running job where it is; kept with the job", CHANGE, True),
    Action("mark", "space", "mark", "Mark this row; verbs then act on all marked ones", CHANGE, False, 14),
    Action("mark_range", "v", "mark range", "Mark all rows from the last marked one to this one", CHANGE),
    Action("mark_all", "asterisk", "mark all", "Mark everything that matches, also what is not loaded", CHANGE),
    Action("clear_marks", "backspace", "unmark", "Clear all marks", CHANGE),
    Action("open", "enter", "open", "Go into this row", MOVE, False, 13),
    Action("back", "escape", "back", "Go back: out of the filter, the marks, the pane", MOVE, False, 14),
    Action("down", "j,down", "down", "Next row", MOVE),
    Action("up", "k,up", "up", "Previous row", MOVE),
    Action("page_down", "pagedown", "page down", "One page down", MOVE),
    Action("page_up", "pageup", "page up", "One page up", MOVE),
    Action("half_down", "ctrl+d", "half down", "Half a page down", MOVE),
    Action("half_up", "ctrl+u", "half up", "Half a page up", MOVE),
    Action("top", "g,home", "first", "To the first row", MOVE),
    Action("bottom", "G,end", "last", "To the last loaded row; more are loaded as you get there", MOVE),
    Action("next_pane", "tab", "pane", "Next pane", MOVE, False, 20),
    Action("previous_pane", "shift+tab", "pane back", "Previous pane", MOVE),
    Action("next_tab", "right_square_bracket", "next tab", "Next tab of this pane", MOVE),
    Action("previous_tab", "left_square_bracket", "tab", "Previous tab of this pane", MOVE, False, 18),
    Action("filter", "slash", "filter", "Narrow the list as you type: type:x err:~smtp age:<1h", SHOW, False, 4),
    Action(
        "saved",
        "b",
        "saved filters",
        "Filters by name, shared in the store: apply one, or save this one",
        SHOW,
    ),
    Action("compare", "c", "compare", "Show the payload beside the last one that succeeded", SHOW, False, 12),
    Action(
        "next_match", "n", "older pair", "Compare with an older completed job; in Diff: with the attempt before", SHOW
    ),
    Action(
        "previous_match", "N", "newer pair", "Compare with a newer completed job; in Diff: with the attempt after", SHOW
    ),
    Action("frames", "t", "frames", "Show or fold frames of libraries; in Compare what is equal", SHOW, False, 17),
    Action(
        "full",
        "f",
        "breakdown",
        "Show a signature's breakdown, or a job, on the whole screen; again: beside its list",
        SHOW,
    ),
    Action("window", "w", "window", "Count growth over another time: 5m, 15m, 1h, 6h, 1d", SHOW),
    Action("sort", "s", "sort", "Sort the list by something else", SHOW),
    Action("export", "e", "export", "Write what is chosen into a file: CSV or JSON Lines", SHOW),
    Action(
        "copy",
        "y",
        "copy id",
        "Copy the id to the clipboard; of a signature its runbook, again: its id",
        SHOW,
        False,
        19,
    ),
    Action("copy_link", "Y", "copy link", "Copy the command that opens this place in another console", SHOW),
    Action("copy_command", "ctrl+y", "copy command", "Copy this list, or what a sheet would do, as a command", SHOW),
    Action("resync", "r", "resync", "Read everything again, and sort it again", SHOW),
    Action("freeze", "p", "freeze", "Hold the screen still; p again resumes", SHOW),
    *(Action(view.action, str(digit), view.label, view.tooltip, CONSOLE) for digit, view in enumerate(VIEWS, 1)),
    Action("contexts", "0", "contexts", "All contexts of the configuration; Enter goes to one", CONSOLE, False, 22),
    Action("palette", "colon,ctrl+p", "commands", "Find every action by its name", CONSOLE, False, 21),
    Action("help", "question_mark", "help", "The keys that work here, and what the words mean", CONSOLE, False, 24),
    Action("suspend", "ctrl+z", "suspend", "Back to the shell; fg brings the console back", CONSOLE),
    Action("quit", "q,ctrl+c", "quit", "Leave the console; jobs and workers go on", CONSOLE, False, 25),
)

BY_ID = {action.id: action for action in ACTIONS}

BAR = tuple(
    BY_ID[name]
    for name in (
        "retry", "own", "mute", "resolve", "note", "delete", "restore", "undo", "cancel", "trigger", "pause", "drain",
        "quiet", "stop", "filter", "open", "compare", "back", "move", "edit", "mark", "frames", "previous_tab", "copy",
        "next_pane", "contexts", "palette", "help", "quit",
    )
)  # fmt: skip
"""The actions of the key bar, from left to right."""


def bindings() -> list[Binding]:
    """Return the table as bindings of the application."""
    return [
        Binding(
            action.keys, f"do('{action.id}')", action.label, id=action.id, tooltip=action.tooltip, show=action.rank > 0
        )
        for action in ACTIONS
    ]


def bound(screen: Screen[Any], key: str) -> ActiveBinding | None:
    """Return what a key does on a screen; None when it does nothing.

    Textual has the same for all keys together, and works out for each whether its action is on.
    """
    for node, bindings in screen._modal_binding_chain:
        for binding in bindings.key_to_bindings.get(key, ()):
            state = screen.app._check_action_state(binding.action, node)
            if state is not False:
                return ActiveBinding(node, binding, bool(state), binding.tooltip)
    return None


@dataclass(frozen=True, slots=True)
class Availability:
    """What decides which actions are possible now."""

    # why nothing can be changed at the moment; "" when it can
    unchangeable: str = ""
    # why nothing can be done at all but leaving and help; "" normally
    blocked: str = ""


def refusal(action: Action, availability: Availability) -> str:
    """Return why an action is off whichever row the cursor is on; "" when it is not."""
    if availability.blocked and action.id not in {"quit", "help"}:
        return availability.blocked
    if action.changes and availability.unchangeable:
        return f"{action.label} is disabled: {availability.unchangeable}"
    return ""
