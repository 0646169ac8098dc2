"""The Lua files of this package, run by their digest."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import Pipeline
from redis.exceptions import NoScriptError


@cache
def source(name: str) -> str:
    """Return the text of a script by its verb."""
    return files("queue_core.delivery.redis").joinpath("lua", f"{name}.lua").read_text(encoding="utf-8")


class Scripts:
    """Runs scripts on one client, loading them where the server does not know them (yet, or after a restart)."""

    def __init__(self, client: Redis) -> None:
        self._client = client
        self._digests: dict[str, str] = {}

    async def run(self, name: str, keys: list[str], args: list[Any]) -> Any:
        """Run one script."""
        return (await self.run_many([(name, keys, args)]))[0]

    async def run_many(self, calls: list[tuple[str, list[str], list[Any]]]) -> list[Any]:
        """Run scripts in one round trip."""
        for name in {name for name, _, _ in calls}:
            if name not in self._digests:
                self._digests[name] = await self._client.script_load(source(name))
        try:
            return await self._execute(calls)
        except NoScriptError:
            # Emptied or restarted. Every script here is harmless when run twice, so the whole batch goes again.
            for name in {name for name, _, _ in calls}:
                self._digests[name] = await self._client.script_load(source(name))
            return await self._execute(calls)

    async def _execute(self, calls: list[tuple[str, list[str], list[Any]]]) -> list[Any]:
        if len(calls) == 1:
            name, keys, args = calls[0]
            return [await self._client.evalsha(self._digests[name], len(keys), *keys, *args)]
        pipeline: Pipeline = self._client.pipeline(transaction=False)
        for name, keys, args in calls:
            pipeline.evalsha(self._digests[name], len(keys), *keys, *args)
        return list(await pipeline.execute())
