"""What long-running programs log while PostgreSQL does not answer."""

import logging

import pytest

from queue_core.client.logs import setup_logging


def test_the_drivers_warnings_of_cancelled_queries_are_not_logged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They come several at a time, beside one line that says that the server does not answer."""
    root, driver = logging.getLogger(), logging.getLogger("psycopg")
    monkeypatch.setattr(root, "handlers", [])
    monkeypatch.setattr(root, "level", root.level)
    monkeypatch.setattr(driver, "level", driver.level)
    setup_logging("text")
    driver.warning("query cancellation failed: cancellation timeout expired")
    logging.getLogger("jobconsole.exporter").warning("postgres cannot be read")
    said = capsys.readouterr().err.splitlines()
    assert [line.partition("WARNING ")[2] for line in said] == ["postgres cannot be read"]
