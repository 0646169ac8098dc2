"""Releases: registered by workers as they start, in their order, and read for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from queue_core.model.report import Release
from queue_core.model.triage.release import MAX_RELEASES, place_among
from queue_core.stores.redis.records import entries_of, moment, whole
from queue_core.stores.redis.session import RedisLink

LAST = ""
"""The field with the last number that was given out; no release has an empty name."""


async def register_release(link: RedisLink, name: str) -> int:
    """Write a release at its place in the order of all unless it is known; return its number."""
    while True:
        known = await read_releases(link)
        for release in known:
            if release.name == name:
                return release.number
        forgotten = await _surplus(link, known) if len(known) >= MAX_RELEASES else []
        left = [release for release in known if release.name not in forgotten]
        behind = place_among(name, [release.name for release in left])
        place = left[behind].place if behind < len(left) else left[-1].place + 1 if left else 1
        # 0: another one was registered meanwhile.
        number = await link.run("register_release", [link.keys.releases], [name, len(known), place, *forgotten])
        if number:
            return int(number)


async def _surplus(link: RedisLink, known: list[Release]) -> list[str]:
    """Return the first releases that no worker has, as many as there are too many."""
    commands = link.batch()
    commands.hgetall(link.keys.workers)
    (entries,) = await link.send(commands)
    in_use = {entry.request.release for entry in entries_of(entries).values()}
    unused = [release.name for release in known if release.number not in in_use]
    return unused[: len(known) - MAX_RELEASES + 1]


async def read_releases(link: RedisLink) -> list[Release]:
    """Return the releases in their order, the oldest first."""
    commands = link.batch()
    commands.hgetall(link.keys.releases)
    (found,) = await link.send(commands)
    known = [_release(name, text) for name, text in found.items() if name != LAST]
    return sorted(known, key=lambda release: release.place)


def _release(name: str, text: str) -> Release:
    number, place, first_seen, *_ = (*text.split(" "), "", "", "")
    return Release(name, whole(place), moment(whole(first_seen)), whole(number))


class ReleaseNames:
    """The names of releases by their numbers: read when a number is not known, for none ever changes its name."""

    def __init__(self, link: RedisLink) -> None:
        self._link = link
        self._names: dict[str, str] = {}
        # numbers of forgotten releases, which are not looked for again
        self._forgotten: set[str] = {"0"}

    async def of(self, numbers: Iterable[str | None]) -> Mapping[str, str]:
        """Return the names of all known releases, these included where they are known."""
        wanted = {number for number in numbers if number and number.isdecimal()} - self._forgotten
        if not wanted <= self._names.keys():
            self._names = {str(release.number): release.name for release in await read_releases(self._link)}
            if len(self._forgotten) > MAX_RELEASES:
                self._forgotten = {"0"}
            self._forgotten |= wanted - self._names.keys()
        return self._names
