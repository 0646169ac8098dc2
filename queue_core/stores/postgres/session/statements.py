"""Prepared statements of one connection, sent without the driver's cursors."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import blake2b
from typing import Any, NamedTuple

from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import Escaping, ExecStatus, Format
from psycopg.pq.abc import PGresult

from queue_core.stores.postgres.dialect import Rows
from queue_core.stores.postgres.session.answers import WatchedConnection

MAX_PREPARED = 200
"""Statements that are prepared on one connection because they came twice; the server keeps some 50 kB for each. There
are about 120 names."""

Params = Mapping[str, Any] | None

_PLACE = re.compile(rb"%\((\w+)\)s|%%")


class _Text(NamedTuple):
    """A statement as the server reads it, and the names of its parameters in the order of their numbers."""

    query: bytes
    names: tuple[str, ...]
    formats: tuple[PyFormat, ...]


@cache
def _numbered(statement: bytes) -> _Text:
    """Return a statement with `%(name)s` as `$1` and so on, the same number for the same name."""
    numbers: dict[bytes, int] = {}

    def place(found: re.Match[bytes]) -> bytes:
        name = found[1]
        return b"%" if name is None else b"$%d" % numbers.setdefault(name, len(numbers) + 1)

    query = _PLACE.sub(place, statement)
    return _Text(query, tuple(name.decode() for name in numbers), (PyFormat.AUTO,) * len(numbers))


def _nothing() -> None:
    """Leave the time to others."""


class PreparedStatements:
    """Runs statements on a connection in autocommit mode that its caller has for itself.

    A cursor of the driver does the same with one object and six calls more each time: of 210 µs of CPU time for the
    insert of one job, this takes 145.
    """

    def __init__(self, connection: WatchedConnection) -> None:
        self._connection = connection
        self._answers = connection.answers
        self._transformer = Transformer(connection)
        self._escaping = Escaping(connection.pgconn)
        # by text and types of the values; None: seen once, and maybe never again
        self._names: dict[tuple[bytes, tuple[int, ...] | None], bytes | None] = {}

    async def run(self, statement: bytes, params: Params, meanwhile: Callable[[], None] = _nothing) -> Rows:
        """Run a statement with `%(name)s` for its parameters, and return its rows.

        `meanwhile` is called once the statement is on its way.

        Raises:
            psycopg.Error: as from a cursor.
        """
        text, transformer, pgconn = _numbered(statement), self._transformer, self._connection.pgconn
        values: Any = None
        types = formats = None
        if params is not None and text.names:
            values = transformer.dump_sequence([params[name] for name in text.names], text.formats)
            types, formats = transformer.types, transformer.formats
        key = (statement, types)
        if name := self._names.get(key) or await self._prepare(key, text.query):
            pgconn.send_query_prepared(name, values, formats, Format.BINARY)
        else:
            pgconn.send_query_params(text.query, values, types, formats, Format.BINARY)
        meanwhile()
        return self._rows((await self._results())[-1])

    async def run_together(
        self, steps: Sequence[tuple[bytes, Params]], meanwhile: Callable[[], None] = _nothing
    ) -> list[Rows]:
        """Run statements that are sent in one message, and return the rows of each; after an error none follows.

        A server begins them when it has the whole message. So one whose client is cut off in the midst of it has not
        begun, and one whose client falls silent behind it waits for the next with the time limit of that; in the
        driver's pipeline mode it would keep locks without any. Parameters are texts, numbers, booleans and None.

        Raises:
            psycopg.Error: as from a cursor; the first one's that failed.
        """
        message = b";\n".join([await self._spell(*step) for step in steps])
        self._connection.pgconn.send_query(message)
        meanwhile()
        return [self._rows(result) for result in await self._results()]

    async def _spell(self, statement: bytes, params: Params) -> bytes:
        """Return a statement as a part of a message, prepared if it has parameters."""
        text = _numbered(statement)
        if params is None or not text.names:
            return text.query
        given = [params[name] for name in text.names]
        self._transformer.dump_sequence(given, text.formats)  # which refuses what no statement may hold
        key = (statement, self._transformer.types)
        name = self._names.get(key) or await self._prepare(key, text.query, at_once=True)
        assert name is not None, "it was to be prepared at once"
        return b"EXECUTE %s(%s)" % (name, b",".join([self._literal(value) for value in given]))

    def _literal(self, value: object) -> bytes:
        if value is None:
            return b"NULL"
        if isinstance(value, str):
            return self._escaping.escape_literal(value.encode())
        assert isinstance(value, bool | int | float), f"{value!r} is not spelled"
        return b"'%s'" % str(value).encode()

    def _rows(self, result: PGresult) -> Rows:
        if result.status != ExecStatus.TUPLES_OK:
            return []
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    async def _prepare(
        self, key: tuple[bytes, tuple[int, ...] | None], query: bytes, at_once: bool = False
    ) -> bytes | None:
        """Prepare a statement when it comes for the second time, or `at_once`, and return its name."""
        if key not in self._names and not at_once:
            if len(self._names) < MAX_PREPARED:
                self._names[key] = None
            return None
        # Named by what it is: should a pooler swap sessions unnoticed, the name finds the same statement or none.
        name = b"q" + blake2b(repr(key).encode(), digest_size=12).hexdigest().encode()
        self._connection.pgconn.send_prepare(name, query, key[1])
        await self._results()
        self._names[key] = name
        return name

    async def _results(self) -> list[PGresult]:
        results = await self._answers.wait()
        if results[-1].status == ExecStatus.FATAL_ERROR:
            raise error_from_result(results[-1], encoding=self._connection.info.encoding)
        return results
