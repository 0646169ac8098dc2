"""A live display: drawn beside the notebook, stopped with the cell."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from jobconsole.notebook import NotebookConsole
from jobconsole.notebook.live import LiveDisplay
from queue_core import InvalidArgument, StoreUnavailable
from queue_core.model.filters import parse
from tests.notebook.test_session import interrupt_when

PATIENCE = 30.0
DEAD = parse("status:dead")


class Shell:
    """The events of a shell, and what it displays."""

    def __init__(self) -> None:
        self.events = self
        self.callbacks: list[Callable[..., object]] = []
        self.pictures: list[str] = []
        self.drawn_again = threading.Event()

    def register(self, event: str, callback: Callable[..., object]) -> None:
        assert event == "pre_run_cell"
        self.callbacks.append(callback)

    def unregister(self, event: str, callback: Callable[..., object]) -> None:
        self.callbacks.remove(callback)

    def run_next_cell(self) -> None:
        for callback in list(self.callbacks):
            callback(None)

    def await_picture(self, part: str, gone: bool = False) -> None:
        while (part in self.pictures[-1]) is gone:
            assert self.drawn_again.wait(PATIENCE)
            self.drawn_again.clear()

    def show(self, bundle: dict[str, str]) -> Callable[[dict[str, str]], None]:
        self.pictures.append(bundle["text/plain"])

        def replace(newer: dict[str, str]) -> None:
            self.pictures.append(newer["text/plain"])
            self.drawn_again.set()

        return replace


@pytest.fixture
def shell() -> Shell:
    """A notebook that displays."""
    return Shell()


def start(console: NotebookConsole, shell: Shell, every: float = 0.2, seconds: float = 60.0) -> LiveDisplay:
    watch = LiveDisplay(console.connection, DEAD, every, seconds)
    watch.start(shell, shell.show)
    return watch


def test_it_is_drawn_again_until_the_next_cell(console: NotebookConsole, shell: Shell) -> None:
    watch = start(console, shell)
    assert shell.drawn_again.wait(PATIENCE)
    assert all("● live" in picture for picture in shell.pictures)
    assert "Dead jobs by error" in shell.pictures[0]
    shell.run_next_cell()
    assert not watch.running
    assert "■ stopped" in shell.pictures[-1]
    assert shell.callbacks == []
    drawn = len(shell.pictures)
    watch.stop()
    assert len(shell.pictures) == drawn


def test_an_interrupt_of_a_waiting_cell_stops_it(console: NotebookConsole, shell: Shell) -> None:
    watch = start(console, shell)
    interrupt_when(shell.drawn_again)
    watch.wait(PATIENCE)
    assert "■ stopped" in shell.pictures[-1]


def test_it_stops_by_itself(console: NotebookConsole, shell: Shell) -> None:
    watch = start(console, shell, seconds=0.1)
    shell.await_picture("■ stopped")
    assert not watch.running
    assert shell.callbacks == []


def test_a_store_that_goes_away_is_shown_and_tried_again(
    console: NotebookConsole, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the store's, behind the one that understands all filters
    inspector = type(getattr(console.connection.jobs.inspector, "inspector"))  # noqa: B009

    async def away(*_: Any) -> Any:
        raise StoreUnavailable("sqlite", "it is away")

    with monkeypatch.context() as patch:
        patch.setattr(inspector, "overview", away)
        with pytest.raises(StoreUnavailable):
            start(console, shell)
    watch = start(console, shell)
    with monkeypatch.context() as patch:
        patch.setattr(inspector, "overview", away)
        shell.await_picture("it is away")
        assert "Dead jobs by error" in shell.pictures[-1], "the last picture stays"
    shell.await_picture("it is away", gone=True)
    watch.stop()


def test_there_is_no_notebook(console: NotebookConsole) -> None:
    with pytest.raises(InvalidArgument, match="draws in Jupyter; elsewhere there are widget"):
        console.watch()
    with pytest.raises(InvalidArgument, match="and seconds more than 0"):
        console.watch(every=0)
