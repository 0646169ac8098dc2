"""The console's screen in a notebook."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from jobconsole.notebook import NotebookConsole
from queue_core import InvalidArgument


async def test_it_is_drawn_where_a_loop_runs(console: NotebookConsole, ids: dict[str, str], tmp_path: Path) -> None:
    picture = console.console_svg(f"job/{ids['hostile']}", columns=100, lines=30, dark=False)
    words = "".join(ElementTree.fromstring(picture.svg).itertext()).replace("\xa0", " ")
    assert "OSError" in words
    assert "ab12cd34ef56" in words
    assert 'url("http' not in picture.svg, "it loads nothing from elsewhere"
    picture.save(tmp_path / "console.svg")
    assert (tmp_path / "console.svg").read_text(encoding="utf-8") == picture.svg
    assert console.stats().dlq == 2, "the connection is still open"


def test_what_cannot_be_drawn(console: NotebookConsole) -> None:
    with pytest.raises(InvalidArgument, match="the link leads nowhere"):
        console.console_svg("nowhere")
    with pytest.raises(InvalidArgument, match="60 to 400 columns"):
        console.console_svg(columns=10)
