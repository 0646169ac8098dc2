"""What sheets have in common: text, fields and buttons over the view; Esc goes back and changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import replace
from typing import ClassVar, Generic, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import ModalScreen

from jobconsole.actions.plan import Plan, Target, Verb
from jobconsole.format.spans import Line, Spans
from jobconsole.format.words import WORDS
from jobconsole.tui.base.host import Host, host_of, spawn
from jobconsole.tui.base.messages import PlanReady
from jobconsole.tui.widgets.fields import Push
from jobconsole.tui.widgets.pane import Drawn
from queue_core.errors import QueueCoreError

R = TypeVar("R")

SLIM = 72
"""Columns under which fields that were beside each other are below each other."""
WHY = "a reason, kept with the operation and shown to whoever looks at these jobs later"


class Sheet(ModalScreen[R | None], Generic[R]):
    """Gives back what was decided; None: nothing is to be done."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "go back"),
        Binding("tab", "app.focus_next", "next", show=False),
        Binding("shift+tab", "app.focus_previous", "previous", show=False),
        Binding("ctrl+y", "copy_command", "copy command", show=False),
    ]

    # the widths that its text was broken for
    _fitted: Sequence[int] = ()

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.width < SLIM, "-slim")
        self.call_after_refresh(self.fit_again)

    def fit_again(self) -> None:
        """Have room for the lines of another width, and keep what has the focus on the screen."""
        for drawn in self.query(Drawn):
            text = self.texts().get(drawn.id or "")
            if text is not None and drawn.size.width:
                drawn.styles.height = len(text(drawn.size.width))
        self._fitted = self._widths()
        # Once it has that room.
        self.call_after_refresh(self._show_focused)

    def on_mount(self) -> None:
        for frame in self.query("#sheet, #move"):
            self.watch(frame, "virtual_size", self._content_changed, init=False)

    def _content_changed(self) -> None:
        self.call_after_refresh(self._show_fitted)

    def _show_fitted(self) -> None:
        self._show_focused()
        if self._widths() != self._fitted:
            # A scroll bar has come or gone.
            self.fit_again()

    def _widths(self) -> list[int]:
        return [drawn.size.width for drawn in self.query(Drawn)]

    def _show_focused(self) -> None:
        if self.focused is not None:
            self.focused.scroll_visible(animate=False)

    def texts(self) -> dict[str, Callable[[int], Sized]]:
        """Return what draws the lines for a width, by the ids of the parts that are as high as they have lines."""
        return {}

    @property
    def console(self) -> Host:
        """The application."""
        return host_of(self)

    def buttons(self, **words: str) -> ComposeResult:
        """Yield the buttons that confirm, by their ids, and the one that goes back."""
        with Horizontal(id="sheet-buttons"):
            for id_, word in words.items():
                yield Push(word, id=id_)
            yield Push("Go back", id="no")

    @on(Push.Pressed)
    def press(self, message: Push.Pressed) -> None:
        """Confirm or go back."""
        if message.push_id == "no":
            self.action_leave()
        else:
            self.go(message.push_id)

    def go(self, button: str) -> None:
        """Confirm, by the id of the button."""
        raise NotImplementedError

    def decide(self, result: R) -> None:
        """Give back what is to be changed; while nothing can be, stay with what was typed, and show why."""
        if not self.held():
            self.dismiss(result)

    def held(self) -> bool:
        """Return whether nothing can be changed now, and show why."""
        reason = self.console.operator.unchangeable
        if reason:
            self.remark(f"nothing was changed: {reason}")
        return bool(reason)

    def action_line(self, step: int) -> None:
        """Go to the line above or below: the first field is below the buttons, and the other way round."""
        (self.focus_next if step > 0 else self.focus_previous)("Field, #go")

    def action_leave(self) -> None:
        """Change nothing."""
        self.dismiss(None)

    def commands(self) -> list[list[str]]:
        """Return what it would do as commands, without the program's name; () where no command does the same."""
        return []

    def action_copy_command(self) -> None:
        """Copy what it would do as a command."""
        try:
            commands = self.commands()
        except (QueueCoreError, ValueError) as error:
            self.remark(str(error))
            return
        if commands:
            self.console.navigation.copy_commands(commands)
        self.remark("copied as a command" if commands else "no command does the same")

    def offer_command(self) -> None:
        """Show that the key copies it."""
        self.remark("^Y copies it as a command")

    def remark(self, text: str) -> None:
        """Show a few words at the lower edge."""
        for frame in self.query("#sheet, #move"):
            frame.border_subtitle = text


class PlanSheet(Sheet[Plan]):
    """A sheet before a change of jobs, whose ids are frozen while it is read; confirming waits for that."""

    def __init__(self, verb: Verb, target: Target) -> None:
        super().__init__()
        self.verb = verb
        self.words = WORDS[verb]
        self.chosen = target
        # None: the ids are not frozen yet, or not to be had
        self.plan: Plan | None = None
        # why the ids are not frozen; to confirm freezes them again
        self.lost = ""
        # confirmed before the ids were frozen
        self.going = False

    def freeze(self) -> None:
        """Begin to freeze the ids."""
        spawn(self, "freeze", self._freeze)

    async def _freeze(self) -> None:
        self.post_message(await self.console.operator.freeze(self.verb, self.chosen))

    def on_plan_ready(self, message: PlanReady) -> None:
        going, self.going = self.going, False
        self.plan, self.lost = message.plan, message.problem
        self.planned()
        if going and self.plan is not None:
            self.go("go")

    def planned(self) -> None:
        """Show that the ids are frozen, or why they are not."""

    def go_once_frozen(self) -> None:
        """Have it confirmed once the ids are frozen; where they were not to be had, they are asked for again."""
        if self.held():
            return
        self.going = True
        if self.lost:
            self.lost = ""
            self.freeze()
        self.planned()

    def leave_with(self, plan: Plan, why: str) -> None:
        """Give back the plan, with the reason as it was typed."""
        self.decide(replace(plan, why=why.strip()))

    def count(self) -> Line:
        """How many jobs it is about, and whether that is final."""
        if self.lost:
            return ((self.lost, "bad"),)
        if self.plan is None:
            about = f"about {self.chosen.about:,}, " if self.chosen.about is not None else ""
            goes = "; starts as soon as they are" if self.going else ""
            return ((f"{about}being counted ...{goes}", "muted"),)
        number = len(self.plan.ids)
        capped: Spans = ((", the first million", "warn"),) if self.plan.capped else ()
        searched = self.plan.searched
        if searched is not None and not searched.whole:
            some = f", found in the {searched.looked_at:,} of {searched.total:,} that were searched"
            return ((f"{number:,}", "strong"), (some, "warn"))
        later = "later deaths" if self.verb in {"retry", "delete"} else "later ones"
        exactly = f", exactly these; {later} are not included" if number != 1 else ""
        return ((f"{number:,}", "strong"), (exactly, "text"), *capped)
