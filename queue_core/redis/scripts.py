"""Lua files, run by their digest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import NoPermissionError, NoScriptError, ResponseError

from queue_core.blocks import blocks_of
from queue_core.redis.cluster import ClusterClient
from queue_core.redis.pipeline import PipelinedConnection

_NOT_ALLOWED = re.compile(r"can't run this command or subcommand(?: script: .*@user_script:(\d+))?")
"""What Redis 7.0 answers where a script's user lacks a command, given the line of the script, save for one that takes
back what it has written."""
_COMMAND = re.compile(r"redis\.p?call\('(\w+)'")
_SHARED = re.compile(r"^-- with: (\w+)$", re.MULTILINE)


@cache
def source(package: str, name: str) -> str:
    """Return the text of a package's script by its verb; a line `-- with: name` is replaced by that block's text."""
    return _SHARED.sub(lambda match: source(package, match[1]).rstrip(), _blocks(package)[name])


@cache
def _blocks(package: str) -> dict[str, str]:
    """Return the blocks of all Lua files of a package; no two have one name."""
    folder = (file for file in files(package).joinpath("lua").iterdir() if file.name.endswith(".lua"))
    texts = [file.read_text(encoding="utf-8") for file in sorted(folder, key=lambda file: file.name)]
    return {name: block for text in texts for name, block in blocks_of(text).items()}


@cache
def digest(package: str, name: str) -> str:
    """Return what a server that knows the script calls it."""
    return hashlib.sha1(source(package, name).encode(), usedforsecurity=False).hexdigest()


def _naming_command(error: Exception, package: str, name: str) -> Exception:
    """Return the error that a script ended with; where its user lacks a command, one that names it."""
    place = _NOT_ALLOWED.search(str(error))
    if place is None:
        return error
    if place[1] is None:
        commands = sorted({command.lower() for command in _COMMAND.findall(source(package, name))})
        return NoPermissionError(f"this user has no permissions to run one of the commands {', '.join(commands)}")
    command = _COMMAND.search(source(package, name).splitlines()[int(place[1]) - 1])
    if command is None:
        return error
    return NoPermissionError(f"this user has no permissions to run the '{command[1].lower()}' command")


class Call(NamedTuple):
    """One run of a script."""

    # the verb: the name of its block
    name: str
    keys: Sequence[str]
    args: Sequence[Any]


class Scripts:
    """Runs a package's scripts on one client, loading them where the server does not know them (yet, or any more).

    With a pipelined connection, on that one: those that are run at the same time share a send.
    """

    def __init__(self, client: Redis, package: str, pipelined: PipelinedConnection | None = None) -> None:
        self._client = client
        self._package = package
        self._pipelined = pipelined

    async def run(self, name: str, keys: Sequence[str], args: Sequence[Any]) -> Any:
        """Run one script."""
        return (await self.run_many([Call(name, keys, args)]))[0]

    async def run_many(self, calls: Sequence[Call], together: bool = False) -> list[Any]:
        """Run scripts in one round trip; `together`: all or none of them, with no other client's commands in between.

        Raises:
            RedisError: the first failure. Without `together`, the other calls may have run.
        """
        answers = await self._execute(calls, together)
        forgotten = [place for place, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
        if forgotten:
            # A new, emptied or restarted server. What is not known has done nothing: it is safe to send it again.
            await self._load([calls[place] for place in forgotten])
            again = await self._execute([calls[place] for place in forgotten], together)
            for place, answer in zip(forgotten, again, strict=True):
                answers[place] = answer
        for call, answer in zip(calls, answers, strict=True):
            if isinstance(answer, Exception):
                raise _naming_command(answer, self._package, call.name)
        return answers

    async def _load(self, calls: Sequence[Call]) -> None:
        for name in dict.fromkeys(call.name for call in calls):
            text = source(self._package, name)
            if isinstance(self._client, ClusterClient):
                await self._client.load(text, {call.keys[0] for call in calls if call.name == name})
            else:
                await self._client.script_load(text)

    async def _execute(self, calls: Sequence[Call], together: bool) -> list[Any]:
        if self._pipelined is not None and not together:
            return await self._pipelined.execute(
                [("EVALSHA", digest(self._package, name), len(keys), *keys, *args) for name, keys, args in calls]
            )
        if len(calls) == 1:
            name, keys, args = calls[0]
            try:
                return [await self._client.evalsha(digest(self._package, name), len(keys), *keys, *args)]
            except ResponseError as error:
                return [error]
        pipeline: Pipeline = self._client.pipeline(transaction=together)
        for name, keys, args in calls:
            pipeline.evalsha(digest(self._package, name), len(keys), *keys, *args)
        return list(await pipeline.execute(raise_on_error=False))


class ConfirmedScripts(Scripts):
    """Waits until replicas have what the scripts wrote: a failover then finds it there."""

    def __init__(
        self, client: Redis, package: str, pipelined: PipelinedConnection, replicas: int, seconds: float
    ) -> None:
        super().__init__(client, package, pipelined)
        self._confirming = pipelined
        self._replicas = replicas
        self._seconds = seconds

    async def _execute(self, calls: Sequence[Call], together: bool) -> list[Any]:
        commands = [("EVALSHA", digest(self._package, name), len(keys), *keys, *args) for name, keys, args in calls]
        return await self._confirming.confirm(commands, together, self._replicas, self._seconds)
