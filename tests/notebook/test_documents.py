"""The notebook of the documentation, and every block of its page, in one real kernel."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

DOCS = Path(__file__).parents[2] / "docs"
PATIENCE = 100
PAGE = re.findall(r"^```python\n(.*?)^```", (DOCS / "notebook.md").read_text(), re.DOTALL | re.MULTILINE)
ERROR = "c.job('00000000-0000-7000-8000-000000000000')"


def plain(cell: Any) -> str:
    """Return what a cell shows, as text."""
    return "\n".join(output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in cell.outputs)


@pytest.mark.timeout(PATIENCE)
def test_the_notebook_and_the_page(
    path: Path, ids: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JOBS__QUEUE_BACKEND", "sqlite")
    monkeypatch.setenv("JOBS__SQLITE__PATH", str(path))
    book = nbformat.read(DOCS / "notebook.ipynb", 4)
    assert all(not cell.get("outputs") for cell in book.cells), "outputs stay out of the repository"
    own = len(book.cells)
    book.cells += [nbformat.v4.new_code_cell(block) for block in (*PAGE, ERROR, "c.close()")]
    book.cells[-2].metadata["tags"] = ["raises-exception"]
    NotebookClient(book, timeout=PATIENCE, resources={"metadata": {"path": str(tmp_path)}}).execute()

    found = {cell.source: cell for cell in book.cells[:own] if cell.cell_type == "code"}
    streams = [output for cell in book.cells for output in cell.get("outputs", []) if output.output_type == "stream"]
    assert [one.text for one in streams if one.name == "stderr"] == []
    assert re.search(r"dead +30\b", plain(found["c.stats()"]))
    images = next(plain(cell) for source, cell in found.items() if source.startswith("images = "))
    assert "width" in images
    assert "r124" in images
    assert "retried 20 jobs (operation #1)" in "".join(plain(cell) for cell in found.values())
    assert "the mail server is" in plain(found["c.operations()"])
    assert "waits r125" in plain(found["c.operations()"])
    assert "■ stopped" in plain(found["c.watch()"]), "the next cell has stopped it"
    (picture,) = found['c.console_svg("live", columns=120, lines=30)'].outputs
    assert picture.data["image/svg+xml"].startswith("<svg")
    (widget,) = found['c.widget("queue:images", rows=5)'].outputs
    assert "application/vnd.jupyter.widget-view+json" in widget.data

    (error,) = book.cells[-2].outputs
    assert error.traceback == ["JobNotFound: no job with id 00000000-0000-7000-8000-000000000000"]
    assert (tmp_path / "jobs.parquet").stat().st_size > 0
    assert (tmp_path / "console.svg").read_text(encoding="utf-8").startswith("<svg")
