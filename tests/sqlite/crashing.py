"""A program that is killed in the middle of a transaction: `python -m tests.sqlite.crashing FILE STEP`."""

from __future__ import annotations

import os
import signal
import sys
import time
from functools import partial

from queue_core.model.job import Outcome
from queue_core.model.settings import SqliteSettings
from queue_core.ports.store import ClaimRequest
from queue_core.stores.sqlite import claim as claiming
from queue_core.stores.sqlite import insert as inserting
from queue_core.stores.sqlite import operations
from queue_core.stores.sqlite import settle as settling
from queue_core.stores.sqlite.session import Mode, SqliteFile, Transaction
from tests.conformance.making import LEASE, QUEUE, TYPE, new_job

REQUEST = ClaimRequest(QUEUE, "crashing", (TYPE,), 100, LEASE)


def insert(transaction: Transaction) -> None:
    """Write a thousand jobs, more than SQLite keeps in memory before a commit."""
    inserting.insert(transaction, [new_job(payload='{"text": "' + "x" * 100_000 + '"}') for _ in range(1000)], {})


def claim(transaction: Transaction) -> None:
    """Claim all jobs."""
    assert claiming.claim(transaction, REQUEST, {})


def settle(transaction: Transaction) -> None:
    """End all running jobs."""
    rows = transaction.records("select id, token from jobs where state = 'running'", ())
    outcomes = [Outcome(job_id, token, QUEUE, TYPE, "completed") for job_id, token in rows]
    assert all(answer.accepted for answer in settling.settle(transaction, outcomes, {}))


def operate(transaction: Transaction) -> None:
    """Take a step of the first operation."""
    assert operations.step(transaction, 1, 100, {}).changed.ids


STEPS = {"insert": insert, "claim": claim, "settle": settle, "operate": operate}


def killed(step: str, transaction: Transaction) -> None:
    """Do the step, and end before its commit."""
    STEPS[step](transaction)
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


if __name__ == "__main__":
    link = SqliteFile(SqliteSettings(path=sys.argv[1])).link()
    link.transact(claiming.reserve_tokens, Mode.DURABLE, time.monotonic() + 10)
    link.transact(partial(killed, sys.argv[2]), Mode.DURABLE, time.monotonic() + 10)
