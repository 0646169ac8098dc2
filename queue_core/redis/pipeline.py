"""One connection for the short commands of many callers, sent together and answered in order."""

from __future__ import annotations

import asyncio
import select
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import hiredis
import redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ReadOnlyError

CHECKED_SECONDS = 0.001
"""Seconds after an answer for which the connection is not examined again: one system call less for a lone caller."""
_INCOMPLETE = object()
_PUSHED: Any = getattr(hiredis, "PushNotification", ())
"""The class of messages that answer no command; hiredis before 3.2 has none."""


class PipelinedConnection:
    """Sends what its callers hand in during one round of the event loop at once, and waits for nothing in between.

    Each send wakes two processes, and one connection from a pool for each command has its price: both commands of a
    lone job on this connection took a quarter less of the client's time for the whole enqueue, and a third less of the
    server's. Only for commands whose answers are small and soon
    there: an answer waits for those before it.
    """

    def __init__(self, connect: Callable[[], AbstractConnection]) -> None:
        # returns a connection that is not opened yet
        self._make = connect
        self._line: _Line | None = None
        self._connecting = asyncio.Lock()
        # awaited before commands are sent on a new connection
        self.prepare: Callable[[], Awaitable[object]] | None = None

    async def execute(self, commands: Sequence[Sequence[Any]]) -> list[Any]:
        """Send commands and return their answers; an error that the server answers is one of them.

        A caller that gives up disturbs no other one: those whose commands were sent before still get their answers,
        later ones go out on a new connection.

        Raises:
            redis.RedisError: the server cannot be reached, or was lost: commands may or may not have been run.
        """
        line = self._line
        while line is None or not line.is_usable():
            line = await self._connect()
            if self.prepare is None:
                break
            await self.prepare()
        packed = [hiredis.pack_command(tuple(command)) for command in commands]
        try:
            answers = await line.send(packed)
        except asyncio.CancelledError:
            # Most likely the end of a time limit: the server hangs, or the network drops what is sent.
            self._retire(line)
            raise
        if any(isinstance(answer, ReadOnlyError) for answer in answers):
            # The primary has become a replica: only new connections lead to its successor.
            self._retire(line)
        return answers

    async def confirm(
        self, commands: Sequence[Sequence[Any]], together: bool, replicas: int, seconds: float
    ) -> list[Any]:
        """Send commands, in a transaction if `together`, and return their answers once replicas have what they wrote.

        Raises:
            redis.ResponseError: so many replicas did not have it in time; it may have been written, and be lost.
        """
        sent = [("MULTI",), *commands, ("EXEC",)] if together else commands
        *answers, confirmed = await self.execute([*sent, ("WAIT", replicas, max(1, round(seconds * 1000)))])
        if together:
            answers = _of_transaction(answers)
        if not any(isinstance(one, Exception) for one in (*answers, confirmed)) and int(confirmed) < replicas:
            raise redis.ResponseError(f"NOREPLICAS only {confirmed} of {replicas} replicas have what was written")
        return answers

    async def _connect(self) -> _Line:
        async with self._connecting:
            if self._line is None or not self._line.is_usable():
                if self._line is not None:
                    self._retire(self._line)
                connection = self._make()
                try:
                    await connection.connect()  # type: ignore[no-untyped-call]
                except BaseException:
                    await connection.disconnect(nowait=True)
                    raise
                self._line = _Line(connection)
            return self._line

    def _retire(self, line: _Line) -> None:
        line.retire()
        if self._line is line:
            self._line = None

    async def close(self) -> None:
        """Disconnect; idempotent."""
        line, self._line = self._line, None
        if line is not None:
            line.abort(redis.ConnectionError("Connection closed"))


def take_over(
    connection: AbstractConnection, protocol: asyncio.Protocol
) -> tuple[asyncio.StreamWriter, Callable[[str], Exception]]:
    """Let a protocol read what arrives on an open connection; return its writer, and what reads the text of an error.

    The connection is no longer open, as far as the library knows: who takes it over closes it. The writer would close
    it when it is collected.
    """
    writer = connection._writer
    assert writer is not None, "the connection is open"
    writer.transport.set_protocol(protocol)
    connection._reader = connection._writer = None
    return writer, connection._parser.parse_error


def _of_transaction(answers: Sequence[Any]) -> list[Any]:
    """Return the answers of the commands between MULTI and EXEC; where it was not carried out, the reason of each."""
    _, *queued, executed = answers
    if isinstance(executed, list):
        return executed
    reason = next((one for one in queued if isinstance(one, Exception)), executed)
    return [reason] * len(queued)


class _Sent:
    """Commands of one caller on their way."""

    __slots__ = ("answers", "count", "future")

    def __init__(self, count: int, future: asyncio.Future[list[Any]]) -> None:
        self.count = count
        self.future = future
        self.answers: list[Any] = []


class _Line(asyncio.Protocol):
    """A connection that the driver has opened and prepared, whose bytes are written and read here."""

    def __init__(self, connection: AbstractConnection) -> None:
        self._loop = asyncio.get_running_loop()
        self._sent: deque[_Sent] = deque()
        self._unsent: list[bytes] = []
        self._retired = False
        # time.monotonic of the last input
        self._heard_at = float("-inf")
        self._writer, parse_error = take_over(connection, self)
        self._transport = self._writer.transport
        self._reader = hiredis.Reader(
            protocolError=redis.InvalidResponse,
            replyError=parse_error,
            encoding="utf-8",
            errors="replace",
            notEnoughData=_INCOMPLETE,
        )
        self._poll = select.poll()
        self._poll.register(self._transport.get_extra_info("socket").fileno(), select.POLLIN)

    def is_usable(self) -> bool:
        """Whether commands can be sent. Any input on an idle connection counts as its end."""
        if self._retired or self._transport.is_closing():
            return False
        return bool(self._sent) or time.monotonic() - self._heard_at < CHECKED_SECONDS or not self._poll.poll(0)

    def send(self, packed: Sequence[bytes]) -> asyncio.Future[list[Any]]:
        """Send commands at the end of this round of the event loop; the future has their answers."""
        future: asyncio.Future[list[Any]] = self._loop.create_future()
        self._sent.append(_Sent(len(packed), future))
        if not self._unsent:
            self._loop.call_soon(self._flush)
        self._unsent += packed
        return future

    def _flush(self) -> None:
        unsent, self._unsent = self._unsent, []
        if not self._transport.is_closing():
            self._transport.write(b"".join(unsent))

    def data_received(self, data: bytes) -> None:
        """Hand answers to those who wait for them."""
        reader = self._reader
        reader.feed(data)
        self._heard_at = time.monotonic()
        try:
            while (answer := reader.gets()) is not _INCOMPLETE:
                if isinstance(answer, _PUSHED):
                    continue
                first = self._sent[0]
                first.answers.append(answer)
                if len(first.answers) == first.count:
                    self._sent.popleft()
                    if not first.future.done():
                        first.future.set_result(first.answers)
        except (redis.RedisError, IndexError) as error:
            self.abort(redis.ConnectionError(f"an answer cannot be understood: {error}"))
        if self._retired:
            self._close_if_done()

    def retire(self) -> None:
        """Take no more commands; close the connection when no caller waits for an answer any more."""
        self._retired = True
        self._close_if_done()

    def _close_if_done(self) -> None:
        if all(one.future.done() for one in self._sent):
            self._transport.abort()

    def abort(self, error: Exception) -> None:
        """Close the connection and fail those who wait."""
        self._transport.abort()
        self._fail(error)

    def connection_lost(self, error: Exception | None) -> None:
        """Fail those who wait."""
        self._fail(redis.ConnectionError(f"Connection closed by server{f': {error}' if error else ''}"))

    def _fail(self, error: Exception) -> None:
        sent, self._sent = self._sent, deque()
        for one in sent:
            if not one.future.done():
                one.future.set_exception(error)
