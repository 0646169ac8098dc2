"""Which jobs the producer enqueues: files in an order that mixes the folders, and each failing kind now and then.

Nothing is drawn by chance: two runs on the same machine enqueue the same jobs in the same order.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

from jobconsole.demo.folder import Folder
from jobconsole.demo.material import Material

BATCH = 100
"""The most jobs of one enqueue."""
SMALL_QUOTA = 64 * 1024
LARGE_QUOTA = 1 << 30
Payload = dict[str, Any]


class Order(NamedTuple):
    """Jobs of one type that are enqueued together."""

    type: str
    payloads: list[Payload]
    # seconds
    delay: float = 0.0


class Plan:
    """Gives out orders without end."""

    def __init__(self, material: Material, folder: Folder, port: int) -> None:
        self._folder = folder
        self._port = port
        self._material = material
        self._waves = 0
        self._modules = _mixed(material.modules)
        self._paths = {
            "read_records": _mixed(material.records),
            "read_metadata": _mixed(material.metadata),
            "read_document": _mixed(material.documents),
            "thumbnail": _mixed(material.pictures),
        }
        self._folders = cycle(material.folders)
        self._larger_folders = cycle(material.larger_folders)
        self._bad_modules = cycle(material.bad_modules)
        self._binaries = cycle(material.binaries)

    def wave(self, size: int) -> list[Order]:
        """Return the orders of one wave: what fails first, then long work, then some `size` small jobs."""
        self._waves += 1
        return [*self._failing(), *self._long(), *self._small(size)]

    def trickle(self) -> list[Order]:
        """Return the few jobs that come between two waves."""
        return [
            self._order("thumbnail" if self._material.pictures else "parse_module", 1),
            self._order("count_words", 1),
        ]

    def _small(self, size: int) -> Iterator[Order]:
        shares = {
            "parse_module": 20,
            "tokenise_module": 16,
            "compile_module": 12,
            "compress_file": 16,
            "count_words": 8,
            "read_records": 4,
            "read_metadata": 4,
            "read_document": 3,
        }
        if self._material.pictures:
            shares |= {"thumbnail": 10, "draw_file": 5}
        for type_, share in shares.items():
            count = max(1, size * share // 100)
            for start in range(0, count, BATCH):
                yield self._order(type_, min(BATCH, count - start))
        for delay in (2.0, 5.0):
            yield self._order("compress_file", max(1, size // 25))._replace(delay=delay)

    def _order(self, type_: str, count: int) -> Order:
        paths = self._paths.get(type_, self._modules)
        return Order(type_, [{"path": next(paths)} for _ in range(count)])

    def _long(self) -> Iterator[Order]:
        yield Order("hash_folder", [{"folder": str(next(self._folders))} for _ in range(2)])
        yield Order("archive_folder", [{"folder": str(next(self._larger_folders))}])
        yield Order("pack_folder", [{"folder": str(next(self._folders)), "quota": LARGE_QUOTA}])

    def _failing(self) -> Iterator[Order]:
        """Every kind in the first wave; the expensive one in every second."""
        yield Order("parse_module", [{"path": str(next(self._bad_modules))}])
        yield Order("read_document", [{"path": str(self._folder.document)}])
        yield Order("count_words", [{"path": str(next(self._binaries))}])
        if self._material.pictures:
            yield Order("thumbnail", [{"path": str(self._folder.picture)}])
        yield Order("notify", [{"port": self._port, "subject": f"wave {self._waves}"} for _ in range(2)])
        yield Order("pack_folder", [{"folder": str(self._material.large_folder), "quota": SMALL_QUOTA}])
        if self._waves % 2:
            yield Order("archive_quickly", [{"folder": str(self._material.large_folder)}])


def shorten(orders: list[Order], most: int) -> list[Order]:
    """Return the first `most` jobs of the orders."""
    kept: list[Order] = []
    for order in orders:
        if most <= 0:
            break
        kept.append(order._replace(payloads=order.payloads[:most]))
        most -= len(kept[-1].payloads)
    return kept


def _mixed(paths: tuple[Path, ...]) -> Iterator[str]:
    """Go round all paths in an order that has nothing to do with their folders, and is always the same."""
    return cycle(sorted(map(str, paths), key=lambda path: zlib.crc32(path.encode(errors="surrogateescape"))))
