"""Plans: work of several statements in one transaction, and how few messages it takes.

A plan is a generator: it yields a query's name with its parameters and is sent the rows. Its caller provides the
transaction: a serial runner, the operations path's pool, or a caller's own connection. Plans rest on READ COMMITTED: a
statement sees what was committed while the one before it waited for a lock.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

import psycopg

from queue_core.stores.postgres.dialect import Rows, load
from queue_core.stores.postgres.session.bounds import (
    IDLE_IN_TRANSACTION_MS,
    LOCK_TIMEOUT_MS,
    Try,
    bounded_begin,
    closed_by_server,
    commit,
    rollback,
)
from queue_core.stores.postgres.session.sessions import Session

T = TypeVar("T")

DAYS = "plans/days"
"""The statement that makes the days of the history that are missing."""

MAX_ANSWER_BYTES = 96 << 10
"""Bytes of an answer under a lock, about. So much finds room on the way even where its reader is frozen. A server with
more to send ignores limits and keeps locks; a Unix socket takes some 200 KB, and has no time limit of its own."""
ROW_BYTES = 80
"""Bytes of a row of such an answer, about, without its values."""

Step = tuple[str, Mapping[str, Any] | None]
Plan = Generator[tuple[str, Mapping[str, Any]], Rows, T]


class Ahead(NamedTuple):
    """A step whose rows decide nothing about the next one: both may travel in one message.

    The list that the plan is sent for it has its rows by the answer to that next one, or at the plan's end.
    """

    query: str
    params: Mapping[str, Any]


class Last(NamedTuple):
    """A plan's last step: the commit may travel with it."""

    query: str
    params: Mapping[str, Any]


def make_days() -> Plan[None]:
    """Make the days of the history that are missing, from yesterday to a week ahead."""
    yield DAYS, {}


async def run_plan(plan: Plan[T], run: Callable[[str, Mapping[str, Any]], Awaitable[Rows]]) -> T:
    """Run a plan's queries one after the other and return what it makes of their rows."""
    try:
        query, params = next(plan)
        while True:
            query, params = plan.send(await run(query, params))
    except StopIteration as end:
        result: T = end.value
        return result


class Messages:
    """A transaction for one plan, on a connection in autocommit mode, in as few messages as the plan allows.

    Of six statements each in a message of its own, the ways there and back and two processes that wake each time take
    longer than the statements; and what the first has locked is locked all that time.
    """

    def __init__(
        self,
        session: Session,
        one: Try,
        schema: str,
        seconds: float,
        silent: int = IDLE_IN_TRANSACTION_MS,
        patience: int = LOCK_TIMEOUT_MS,
    ) -> None:
        """Each statement may take so many seconds.

        `silent`: how many milliseconds the server waits for a message; `patience`: how many it waits for a lock.
        """
        self._session = session
        self._try = one
        self._schema = schema
        # what comes before the statements that wait to be sent, and these, with the lists for their rows
        self._begin = [(bounded_begin(seconds, silent, patience=patience), None)]
        self._waiting: list[tuple[bytes, Mapping[str, Any], Rows]] = []
        self._committed = False

    async def run(self, plan: Plan[T]) -> T:
        """Run a plan and commit; an exception rolls it back."""
        try:
            result = await self._run(plan)
            if not self._committed and (self._waiting or not self._begin):
                await self._send(committing=True)
        except BaseException:
            await rollback(self._session.connection)
            raise
        return result

    async def _run(self, plan: Plan[T]) -> T:
        try:
            step = next(plan)
            while True:
                assert not self._committed, "nothing follows a plan's last step"
                rows = self._add(*step)
                if not isinstance(step, Ahead):
                    await self._send(committing=isinstance(step, Last))
                step = plan.send(rows)
        except StopIteration as end:
            result: T = end.value
            return result

    def _add(self, query: str, params: Mapping[str, Any]) -> Rows:
        rows: Rows = []
        self._waiting.append((load(query, self._schema), params, rows))
        return rows

    async def _send(self, committing: bool) -> None:
        # It may have waited for too long; a commit sent now would leave that in doubt.
        if closed_by_server(self._session.connection):
            raise psycopg.OperationalError("the server has ended the session")
        if committing:
            self._committed = True
            self._try.committing()
        else:
            self._try.started()
        begin, waiting, self._begin, self._waiting = self._begin, self._waiting, [], []
        end = [(commit(), None)] * committing
        steps = [(text, params) for text, params, _ in waiting]
        answers = await self._session.statements.run_together([*begin, *steps, *end])
        # The first ones are those of the bounds.
        of_steps = answers[len(answers) - len(end) - len(steps) :]
        for (_, _, rows), answer in zip(waiting, of_steps, strict=False):
            rows.extend(answer)


async def run_steps(session: Session, one: Try, schema: str, steps: Iterator[Step], seconds: float) -> list[Rows]:
    """Run statements in one transaction, each of which is made while the server runs the one before; return their rows.

    What making one raises rolls the transaction back. Each statement may take so many seconds.
    """
    statements, connection = session.statements, session.connection
    made: list[Step | BaseException | None] = []

    def make_next() -> None:
        try:
            made.append(next(steps, None))
        except BaseException as error:  # noqa: BLE001 - it is raised when the answer that is under way was read
            made.append(error)

    answers: list[Rows] = []
    try:
        one.started()
        await statements.run_together([(bounded_begin(seconds), None)], make_next)
        while (step := made.pop()) is not None:
            if isinstance(step, BaseException):
                raise step
            query, params = step
            answers.append(await statements.run(load(query, schema), params, make_next))
    except BaseException:
        await rollback(connection)
        raise
    # It may have waited for too long; a commit sent now would leave that in doubt.
    if closed_by_server(connection):
        raise psycopg.OperationalError("the server has ended the session")
    one.committing()
    await statements.run_together([(commit(), None)])
    return answers
