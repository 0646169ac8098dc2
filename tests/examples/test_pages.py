"""Every page with blocks has a test that runs them; the blocks of the pages that have no module of their own."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from queue_core import configuration
from tests.architecture.sources import ROOT
from tests.examples.blocks import DOCS, blocks
from tests.faults.__main__ import arguments

READERS = {
    "README.md": {"examples/test_readme.py"},
    "commands.md": {"cli/test_documents.py"},
    "configuration.md": {"console/test_configuration.py", "examples/test_tasks_page.py", "examples/test_pages.py"},
    "deployment.md": {"examples/test_deployment.py"},
    "django.md": {"examples/test_django.py"},
    "events.md": {"examples/test_events.py"},
    "frameworks.md": {"examples/test_frameworks.py"},
    "guarantees.md": {"examples/test_pages.py"},
    "logs.md": {"examples/test_logs.py"},
    "metrics.md": {"examples/test_metrics_page.py", "cli/test_documents.py"},
    "operating.md": {"postgres/schema/test_roles.py"},
    "notebook.md": {"notebook/test_documents.py"},
    "retrying.md": {"cli/test_documents.py"},
    "tasks.md": {"examples/test_handlers.py", "examples/test_tasks_page.py"},
    "testing.md": {"integrations/test_pytest_plugin.py"},
    "tracing.md": {"integrations/test_otel.py", "integrations/test_sentry.py"},
    "triage.md": {"examples/test_triage_page.py", "examples/test_tasks_page.py"},
}
"""The test modules that run the blocks of a page."""


def has_blocks(page: Path) -> bool:
    return re.search(r"^```[a-z]", page.read_text(encoding="utf-8"), re.MULTILINE) is not None


def test_no_page_is_left_out() -> None:
    assert {page.name for page in (DOCS.parent / "README.md", *DOCS.glob("*.md")) if has_blocks(page)} == {*READERS}
    for page, modules in READERS.items():
        for module in modules:
            assert page in (ROOT / "tests" / module).read_text(encoding="utf-8")


@pytest.mark.parametrize("section", ["### Redis behind Sentinels", "### Redis Cluster"])
def test_addresses_of_several_servers(section: str, tmp_path: Path) -> None:
    found = blocks("configuration.md", section, "yaml")
    for number, block in enumerate(found):
        path = tmp_path / f"{number}.yaml"
        path.write_text(block)
        redis = configuration.load(path=path, environ={"JOBS__QUEUE_BACKEND": "redis"}).settings.redis
        assert redis.url is not None
    assert found


def test_the_commands_of_faults() -> None:
    (block,) = blocks("guarantees.md", language="sh")
    for line in block.splitlines():
        python, module, name, *given = shlex.split(line, comments=True)
        assert (python, module, name) == (".venv/bin/python", "-m", "tests.faults")
        assert arguments().parse_args(given)
