"""What a service says while the jobs of a worker of its own cannot be taken back."""

from __future__ import annotations

import logging

import pytest

from queue_core.worker import supervisor
from queue_core.worker.options import Note


def test_a_store_that_is_away_is_said_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(supervisor, "TAKE_BACK_SECONDS", 1.0)
    monkeypatch.setattr(supervisor, "TAKE_BACK_PAUSE", 0.01)
    settings = {"queue_backend": "postgres", "postgres": {"url": "postgresql://nobody@127.0.0.1:1/none"}}
    with caplog.at_level(logging.WARNING, "queue_core.worker"):
        supervisor.take_back(Note("worker-1", settings))
    said = [record.getMessage() for record in caplog.records if record.name == "queue_core.worker"]
    assert len([text for text in said if "wait for the store" in text]) == 1, said
    assert "left until their leases end" in said[-1]
