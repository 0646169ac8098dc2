"""Keys, clicks and commands in turn: each acts on what the one before it has opened, however fast they come."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from textual import events
from textual.app import App
from textual.message_pump import MessagePump
from textual.screen import ModalScreen, Screen
from textual.timer import Timer
from textual.widgets import Input, TextArea
from textual.worker import Worker, WorkerError

from jobconsole.tui.base.bindings import BY_ID, bound
from jobconsole.tui.base.host import host_of, spawn, sure

ROUNDS = 10
"""Times at most that a key's messages are followed; widgets to which events stream always have some."""
POLL_SECONDS = 0.05
"""Seconds between two looks whether a widget that has not answered is still there."""

CHANGE_SECONDS = 5.0
"""Seconds for which a key that changes something waits for the change before it; then it does nothing."""


@runtime_checkable
class Preparing(Protocol):
    """A screen that takes a while to do what a key asks of it."""

    async def prepared(self) -> None:
        """Wait until the next key can act."""
        ...


@dataclass(frozen=True, slots=True)
class Chosen:
    """An action of the table that was chosen without its key."""

    action: str


Turn: TypeAlias = events.Key | events.Paste | Chosen


class InTurn(App[int]):
    """An application that holds each key, and each click on an action, until the one before it has had its effect.

    Textual puts a key into the queue of the widget that has the focus when it arrives. In a burst (a fast hand, a slow
    line), the keys after one that opens a sheet would act on the list below it, or on nothing: the sheet gets its
    focus later. And its timers ring.
    """

    def __init__(self) -> None:
        super().__init__()
        # what has not had its turn
        self._waiting: deque[Turn] = deque()
        # the one whose turn it is
        self._turn: Turn | None = None
        self._taking_turns = False
        # what reads a thing for the screen that it then opens
        self._opening: Worker[None] | None = None
        # what changes something, and then reads what became of it
        self._changing: list[Worker[None]] = []

    def on_load(self) -> None:
        """Let tasks begin in their turn, too.

        From Python 3.12 on, Textual lets each begin within the call that makes it, and so the widgets of the first
        screen before there is a screen: on Python 3.13 a console ended at its start.
        """
        asyncio.get_running_loop().set_task_factory(None)

    def change_with(self, changing: Worker[None]) -> None:
        """Have keys that change something wait for a change and for what is read after it.

        A key that pauses and resumes, or takes and gives up, would otherwise act on what was there before.
        """
        self._changing = [*(one for one in self._changing if not one.is_finished), changing]

    def open_with(self, opening: Worker[None]) -> None:
        """Have keys wait for work that opens a screen once it has read what that shows.

        Escape gives it up. Where no screen is opened, the keys that waited are dropped: they were meant for it.
        """
        self._opening = opening

    def set_timer(self, *args: Any, **kwargs: Any) -> Timer:
        """Textual's own. By one, it draws a window whose size has changed, and none of its later sizes without that."""
        return sure(super().set_timer(*args, **kwargs))

    async def on_event(self, event: events.Event) -> None:
        """Textual's way of an event, with keys held."""
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded or event is self._turn:
            await super().on_event(event)
        elif isinstance(event, events.Key) and event.key == "escape" and self._opening is not None:
            self._give_up(self._opening)
        else:
            self._waiting.append(_meant(event))
            self._go_on()

    def choose(self, action: str, first: bool = False) -> None:
        """Carry an action out that was clicked, once what came before has had its effect; not below a sheet.

        `first`: before the keys that wait: a key has chosen it whose turn it is.
        """
        if action == "back" and self._opening is not None:
            self._give_up(self._opening)
            return
        (self._waiting.appendleft if first else self._waiting.append)(Chosen(action))
        self._go_on()

    def _give_up(self, opening: Worker[None]) -> None:
        self._waiting.clear()
        opening.cancel()
        host_of(self).show_notice("given up", "muted")

    def _go_on(self) -> None:
        if not self._taking_turns:
            self._taking_turns = True
            spawn(self, "keys", self._take_turns)

    async def _take_turns(self) -> None:
        try:
            while self._waiting:
                target: MessagePump = self.focused or self.screen
                self._turn = self._waiting.popleft()
                if await self._changed(self._turn, target):
                    self._begin(self._turn)
                    await self._effect(target)
        finally:
            self._taking_turns = False

    def _begin(self, turn: Turn) -> None:
        if not isinstance(turn, Chosen):
            self.post_message(turn)
        elif not isinstance(self.screen, ModalScreen):
            self.call_later(host_of(self).perform, turn.action)

    async def _changed(self, turn: Turn, target: MessagePump) -> bool:
        """Wait, before what changes something, for the changes before; return False when that takes too long."""
        changing = [one for one in self._changing if not one.is_finished]
        if not changing or not _changes(self._action(turn)):
            return True
        try:
            async with asyncio.timeout(CHANGE_SECONDS):
                for one in changing:
                    with suppress(WorkerError):
                        await one.wait()
        except TimeoutError:
            host_of(self).show_notice("nothing was done: the change before is still being made; press it again", "warn")
            return False
        # What was read is shown.
        await _answered(target)
        return True

    def _action(self, turn: Turn) -> str:
        """The action of the table that is asked for; "" when it is none."""
        if isinstance(turn, Chosen):
            return turn.action
        binding = bound(self.screen, turn.key) if isinstance(turn, events.Key) else None
        return "" if binding is None else binding.binding.action.removeprefix("do('").removesuffix("')")

    async def _effect(self, target: MessagePump) -> None:
        """Wait until a key that goes to `target` has had its effect, and what it opens has the focus."""
        screen = self.screen
        await _reached(self)
        await _answered(target)
        if self._opening is not None:
            await self._opened(self._opening)
        if self.screen is not screen or not isinstance(target, Input | TextArea):
            await self._drawn(self.screen)
        if isinstance(self.screen, Preparing):
            await self.screen.prepared()

    async def _opened(self, opening: Worker[None]) -> None:
        screen = self.screen
        with suppress(WorkerError):
            await opening.wait()
        if self._opening is opening:
            self._opening = None
        if self.screen is screen:
            self._waiting.clear()

    async def _drawn(self, screen: Screen[object]) -> None:
        """Wait until a screen is there, and has done what it does once it is drawn: its focus is where it will be."""
        await _reached(screen)
        if screen._callbacks:
            await _done(screen, screen.call_after_refresh)
        await _reached(self)


def _meant(event: events.Key | events.Paste) -> events.Key | events.Paste:
    """Return Enter for the line feed that a terminal makes of it until the console has taken the terminal over."""
    enter = isinstance(event, events.Key) and event.key == "ctrl+j"
    return events.Key("enter", "\r") if enter else event


def _changes(action: str) -> bool:
    """Return whether it changes something, or opens the sheet for it; an undo waits for its change by itself."""
    return action in BY_ID and BY_ID[action].changes and action != "undo"


async def _answered(target: MessagePump) -> None:
    """Wait until a widget and all around it have dealt with what was sent to them, and with what that has sent."""
    around: list[MessagePump] = [target]
    while (parent := around[-1]._parent) is not None:
        around.append(parent)
    for _ in range(ROUNDS):
        for node in around:
            await _reached(node)
        if not any(node.message_queue_size for node in around):
            return


async def _reached(node: MessagePump) -> None:
    await _done(node, node.call_later)


async def _done(node: MessagePump, call: Callable[[Callable[[], None]], bool]) -> None:
    """Wait until something called in a widget has been; or the widget is gone."""
    done = asyncio.Event()
    waits = call(done.set)
    while waits and not done.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(done.wait(), POLL_SECONDS)
        # Before its start a widget does not run, either.
        waits = node.is_attached and (node.is_running or not node._is_mounted)
