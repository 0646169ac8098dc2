"""Every action of the table is carried out somewhere, and everything that is carried out is in the table."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import jobconsole.tui
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.base.bindings import ACTIONS
from jobconsole.tui.navigation import Navigation
from jobconsole.tui.screens.view import RowActions, View
from jobconsole.tui.widgets.pane import Pane


def owners() -> Iterator[type[object]]:
    """Return the classes that carry actions out: the application, views, their actions on rows, and panes."""
    for module in pkgutil.walk_packages(jobconsole.tui.__path__, "jobconsole.tui."):
        importlib.import_module(module.name)
    waiting: list[type[object]] = [ConsoleApp, Navigation, View, RowActions, Pane]
    while waiting:
        yield (one := waiting.pop())
        waiting += one.__subclasses__()


def test_each_action_is_carried_out_and_nothing_else() -> None:
    found = {name.removeprefix("do_") for one in owners() for name in vars(one) if name.startswith("do_")}
    assert found == {action.id for action in ACTIONS}
