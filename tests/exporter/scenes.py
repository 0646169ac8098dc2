"""A store in which something of everything has happened, and the scrape of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from jobconsole.exporter.collector import JobsCollector, TypeNames
from jobconsole.exporter.reading import Reader, Reading
from tests.conformance.world import World

SECOND = 1_000_000
"""In the microseconds of an outcome's run time."""


async def play(world: World) -> None:
    """Bring jobs of two queues and three types into every state, with every kind of ended attempt."""
    for priority in (-3, 0, 5, 9, 10, 20):
        await world.insert(priority=priority)
    await world.insert(delay=3600.0)
    for run_us in (500, 20_000, 3 * SECOND):
        await world.ended("completed", {"run_us": run_us})
    await world.ended("completed", {"run_us": 40 * SECOND}, queue="mail", type="send")
    await world.ended("retrying", {"run_us": SECOND}, queue="mail", type="send")
    await world.ended("dead", {"run_us": SECOND}, queue="mail", type="send")
    await world.ended("cancelled", {"run_us": SECOND}, queue="mail", type="render")
    released = await world.ended("released", {"run_us": 100}, queue="mail", type="render")
    # Waiting jobs that are cancelled never ran: they are no attempts.
    await world.change("cancel", [released.id])
    await world.trashed(queue="mail", type="send")
    await world.lost(3, type="task", priority=100)
    await world.beat()
    await world.operations.pause("mail")


async def read(world: World, limit: float = 10.0) -> Reading:
    """Return a reading of the world's store."""
    return await Reader(world.inspector, None, world.store.name, limit).read()


def families(reading: Reading, types: TypeNames | None = None) -> dict[str, Metric]:
    """Return the families of a scrape by name."""
    registry = CollectorRegistry()
    registry.register(JobsCollector(lambda: reading, types))
    return {metric.name: metric for metric in registry.collect()}


class Samples:
    """The samples of a scrape, added up by labels."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self.all: list[Sample] = [sample for metric in metrics for sample in metric.samples]

    def total(self, name: str, **labels: str) -> float:
        """Return the sum of a sample's values over all labels that are not named."""
        return sum(
            sample.value for sample in self.all if sample.name == name and labels.items() <= dict(sample.labels).items()
        )

    def by(self, label: str, name: str, **labels: str) -> Mapping[str, float]:
        """Return the values of a sample by one label."""
        values = {sample.labels[label] for sample in self.all if sample.name == name}
        return {value: self.total(name, **{label: value}, **labels) for value in values}


async def samples(world: World) -> Samples:
    """Scrape the world."""
    return Samples(families(await read(world)).values())
