"""What docs/architecture.md names is there: files and folders by the end of their paths."""

import re

import pytest

from tests.architecture.sources import ROOT

TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = sorted(
    set(re.findall(r"`([\w./]+\.(?:py|sql|lua|md|toml))`", TEXT))
    | {name for name in re.findall(r"`([\w.]+(?:/[\w.]+)*/|[\w.]+(?:/[\w.]+)+)`", TEXT) if not name.startswith(".")}
)
FOLDERS = ("queue_core", "jobconsole", "tests", "docs", "benchmarks")
PATHS = {
    f"/{path.relative_to(ROOT).as_posix()}"
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("*")
    if "__pycache__" not in path.parts
} | {f"/{folder}" for folder in FOLDERS}


def test_it_names_many() -> None:
    assert len(NAMED) > 100


@pytest.mark.parametrize("name", NAMED)
def test_it_is_there(name: str) -> None:
    name = name.rstrip("/")
    assert [path for path in PATHS if path.endswith(f"/{name}")] or (ROOT / name).exists()
