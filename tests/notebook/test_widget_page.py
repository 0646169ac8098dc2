"""The widget's page in a host that offers no more than an anywidget may rely on, as the one of VS Code."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from jobconsole.notebook import NotebookConsole
from jobconsole.notebook.draw import static
from jobconsole.notebook.widget import JobsWidget

HOST = Path(__file__).with_name("widget_host.mjs")
PATIENCE = 30.0


def test_its_module_needs_nothing_of_jupyter() -> None:
    source = static("widget.js")
    assert re.findall(r"export .*", source) == ["export default { render };"]
    assert not re.findall(r"\b(?:import|require|define|Jupyter|IPython|window|innerHTML|outerHTML|eval)\b", source)
    assert set(re.findall(r"\bmodel\.(\w+)", source)) <= {"get", "set", "save_changes", "on", "off", "send"}


def test_its_colours_do_not_depend_on_a_host() -> None:
    style = str(JobsWidget._css)
    own = set(re.findall(r"(--jc-[a-z]+):", style))
    assert {name for name in re.findall(r"var\((--[\w-]+)\)", style)} <= own, "all others have a fallback"
    # VS Code's light theme of high contrast has the class of the dark one, too.
    dark = re.findall(r"\.vscode-high-contrast(?!-)([^,{]*)", style)
    assert dark == [":not(.vscode-high-contrast-light) .jobconsole"]


def in_host(widget: JobsWidget) -> dict[str, Any]:
    """Return what the page has shown and sent in the host."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    state = {name: getattr(widget, name) for name in ("table", "preview", "message", "filter", "every", "read_only")}
    given = json.dumps({"module": static("widget.js"), "state": state})
    answer = subprocess.run(
        [node, str(HOST)], input=given, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert answer.returncode == 0, answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def test_it_is_drawn_and_asks_through_the_model_alone(console: NotebookConsole, ids: dict[str, str]) -> None:
    widget = console.widget()
    found = in_host(widget)
    assert found["used"] == ["get", "off", "on", "send"]
    assert found["rows"] == len(widget.table["rows"]) == 2
    assert widget.table["note"] in found["text"]
    assert ids["hostile"] in found["text"]
    assert found["sent"] == [
        {"do": "refresh"},
        {"do": "preview", "verb": "retry", "ids": None},
        {"do": "preview", "verb": "delete", "ids": [widget.table["rows"][0]["id"]]},
        {"do": "filter", "text": "type:mail"},
    ]
    assert found["listeners"] == found["timers"] == 0, "a page that is closed leaves nothing behind"
    assert found["classes"] == ["jobconsole jc-widget", "jobconsole jc-widget dark"], "as the letters around it are"


def test_a_read_only_page_offers_no_change(path: Path, ids: dict[str, str], console: NotebookConsole) -> None:
    widget = console.widget()
    widget.read_only = True
    assert in_host(widget)["sent"] == [{"do": "refresh"}, {"do": "filter", "text": "type:mail"}]
