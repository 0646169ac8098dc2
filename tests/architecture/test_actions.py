"""Every action of the table is carried out somewhere, and everything that is carried out is in the table."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator

import jobconsole.tui
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.base.bindings import ACTIONS
from jobconsole.tui.navigation import Navigation
from jobconsole.tui.screens.help import FILTERS
from jobconsole.tui.screens.view import RowActions, View
from jobconsole.tui.widgets.pane import Pane
from queue_core.model.filters import parse
from queue_core.model.filters.language import FIELDS


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


def test_the_help_names_each_field_of_a_filter_in_terms_that_can_be_understood() -> None:
    text = " ".join(f"{example} {words}" for example, words in FILTERS)
    long = {"err": "error", "sig": "signature"}
    named = {long.get(name, name) for name in re.findall(r"\b(payload\.|[a-z]+(?=:))", text)}
    assert named == set(FIELDS)
    for example, _ in FILTERS:
        parse(example)
