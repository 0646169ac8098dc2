"""A view is a row of one table and files of its own name; everything else that leads to it derives from the row."""

from pathlib import Path

import pytest

import jobconsole.tui
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.base.bindings import BY_ID
from jobconsole.tui.base.links import Link, parse_link
from jobconsole.tui.screens.view import View
from jobconsole.tui.views import VIEWS, ViewSpec

STYLES = Path(jobconsole.tui.__file__).parent / "styles"
EACH = pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)


@EACH
def test_its_files_have_its_name(view: ViewSpec) -> None:
    screen = view.open()
    assert isinstance(screen, View)
    assert (screen.PLACE, type(screen).__module__) == (view.name, f"jobconsole.tui.screens.{view.name}")
    assert (STYLES / f"{view.name}.tcss").is_file()


@EACH
def test_its_digit_is_its_place_and_its_action_goes_there(view: ViewSpec) -> None:
    action = BY_ID[view.action]
    assert (action.key, action.label) == (str(VIEWS.index(view) + 1), view.label)
    assert hasattr(ConsoleApp, f"do_{view.action}")
    assert view.name in ConsoleApp.MODES


@EACH
def test_a_link_leads_to_it(view: ViewSpec) -> None:
    assert parse_link(Link(view.name).text) == Link(view.name)
