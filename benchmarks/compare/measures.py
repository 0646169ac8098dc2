"""What is measured of a contestant; each measure begins with empty servers and returns figures by name."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.compare.contestants import Contestant
from benchmarks.compare.stage import Place, Stage, until
from jobconsole.bench.ground import cpu_seconds
from jobconsole.bench.report import percentile

Figures = dict[str, float]
Config = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured in each round."""

    # single enqueues end after so many jobs, or after so many seconds
    singles: int = 10_000
    single_seconds: float = 1.5
    # a drain is meant to take so long, between the fewest and the most jobs
    drain_seconds: float = 1.8
    fewest: int = 3_000
    most: int = 50_000
    # jobs 20 ms apart, for the latency
    delays: int = 200
    # jobs of a queue of which few run at a time
    slow: int = 4_000
    # jobs of a drain of the trial that chooses a contestant's settings; 0: the first ones are used
    trial: int = 10_000

    def jobs(self, rate: float) -> int:
        """Return how many jobs a drain of a contestant has that drained so many a second in the trial."""
        return int(min(self.most, max(self.fewest, rate * self.drain_seconds)))


QUICK = Sizes(singles=50, single_seconds=0.5, fewest=200, most=200, delays=10, slow=100, trial=0)
"""Too few for figures: to see whether the program works."""

MEASURES = ("single", "drain1", "drain2", "latency")
"""Of every contestant, in the order of a round."""
RULES = ("concurrency", "keys", "key", "rate")
"""Of this queue alone."""
TRIALS = 2
"""Drains with each of a contestant's settings, in turns, before the first round: of one each, a busy second decides."""
ENDLESS_RATE = "10000000/s"
"""A rate that is counted and never reached."""


class Measurement:
    """The settings and sizes of one contestant, and its measures."""

    def __init__(self, stage: Stage, contestant: Contestant, sizes: Sizes) -> None:
        self._stage = stage
        self._contestant = contestant
        self._sizes = sizes
        self.config: Config = {}
        self.jobs = sizes.fewest

    def choose(self) -> None:
        """Keep the settings with which short drains are fastest, and the jobs that a drain then has.

        Raises:
            Failed: a drain did not come to its end.
        """
        self._stage.fresh(self._contestant)
        configs = self._stage.configs(self._contestant)
        self.config = configs[0]
        if not self._sizes.trial:
            return
        rates = [0.0] * len(configs)
        for _ in range(TRIALS):
            for index, self.config in enumerate(configs):
                rates[index] += self._drained(self._stage.fresh(self._contestant), self._sizes.trial)["drain"] / TRIALS
        best = max(range(len(configs)), key=lambda index: rates[index])
        self.config, self.jobs = configs[best], self._sizes.jobs(rates[best])

    def take(self, measure: str) -> Figures:
        """Take one measure.

        Raises:
            Failed: it did not come to its end.
        """
        taken: Figures = getattr(self, f"_{measure}")()
        return taken

    # -- of every contestant

    def _single(self) -> Figures:
        place = self._stage.fresh(self._contestant)
        size = ("--jobs", str(self._sizes.singles), "--seconds", str(self._sizes.single_seconds))
        return {"single": place.call("single", *size)["single"]}

    def _drain1(self) -> Figures:
        found = self._drained(self._stage.fresh(self._contestant), self.jobs)
        found["drain1"] = found.pop("drain")
        return found

    def _drain2(self) -> Figures:
        place = self._stage.fresh(self._contestant)
        return {"drain2": self._drained(place, self.jobs, workers=2)["drain"]}

    def _latency(self) -> Figures:
        place = self._stage.fresh(self._contestant)
        record = place.record("latency", self._sizes.delays + 1)
        with place.workers(record, 1, self.config) as workers:
            workers.go()
            place.call("latency", "--jobs", str(record.size))
            until(lambda: not record.missing(), f"{self._contestant.name} latency")
        delays = record.delays()
        return {"p50": percentile(delays, 0.5) * 1000, "p99": percentile(delays, 0.99) * 1000}

    # -- of this queue's rules

    def _concurrency(self) -> Figures:
        """Five jobs of a millisecond at a time."""
        place = self._stage.fresh(self._contestant, PEER_RULES=json.dumps({"concurrency": 5}), PEER_SECONDS="0.001")
        return {"concurrency": self._drained(place, self._sizes.slow)["drain"]}

    def _keys(self) -> Figures:
        """1,000 ordering keys that take turns."""
        return {"keys": self._drained(self._stage.fresh(self._contestant, PEER_KEYS="1000"), self.jobs)["drain"]}

    def _key(self) -> Figures:
        """One ordering key for all jobs."""
        place = self._stage.fresh(self._contestant, PEER_KEYS="1")
        return {"key": self._drained(place, self._sizes.slow)["drain"]}

    def _rate(self) -> Figures:
        """What a rate that is never reached takes off a drain, %: right behind one without a rate."""
        plain = self._drained(self._stage.fresh(self._contestant), self.jobs)["drain"]
        rules = json.dumps({"rate": ENDLESS_RATE})
        rated = self._drained(self._stage.fresh(self._contestant, PEER_RULES=rules), self.jobs)["drain"]
        return {"rate": (1 - rated / plain) * 100}

    def _drained(self, place: Place, jobs: int, workers: int = 1) -> Figures:
        """Fill the queue, drain it, and return both rates, CPU time and write-ahead log for each job."""
        stage, contestant = self._stage, self._contestant
        bulk = place.call("fill", "--jobs", str(jobs))["bulk"]
        record = place.record("drain", jobs)
        with place.workers(record, workers, self.config) as crew:
            written = stage.wal_bytes() if "postgres" in contestant.servers else 0
            before = stage.cpu_seconds(contestant)
            crew.go()
            ended = crew.ended()
            servers = stage.cpu_seconds(contestant) - before
            starts = record.starts()
            used = sum(max(0.0, (cpu_seconds(pid) or 0.0) - start.cpu) for pid, start in starts.items())
        found = {
            "bulk": bulk,
            "drain": jobs / (ended - min(start.at for start in starts.values())),
            "worker_us": used / jobs * 1e6,
            "servers_us": servers / jobs * 1e6,
            "cpu_us": (used + servers) / jobs * 1e6,
        }
        if "postgres" in contestant.servers:
            found["wal"] = (stage.wal_bytes() - written) / jobs
        return found
