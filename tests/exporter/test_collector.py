"""The metrics: every name, its type, its unit, its labels, and that totals and break-downs agree."""

from __future__ import annotations

import pytest

from jobconsole.exporter import collector
from jobconsole.exporter.collector import JobsCollector, TypeNames
from jobconsole.exporter.reading import BackendState, Reading
from jobconsole.exporter.table import TABLE
from queue_core.model.report import HISTOGRAM_BOUNDS, Tally
from tests.conformance.making import worker_beat
from tests.conformance.world import World
from tests.exporter.scenes import families, play, read, samples

# What dashboards and alert rules of other people rely on.
PROMISED = {
    "queue_size": ("gauge", {"queue"}),
    "queue_processing": ("gauge", {"queue"}),
    "queue_claimed_ahead": ("gauge", {"queue"}),
    "queue_processed_total": ("counter", {"queue"}),
    "queue_failed_total": ("counter", {"queue"}),
    "queue_executions_total": ("counter", {"queue", "outcome"}),
    "queue_wait_time_seconds": ("histogram", {"queue"}),
    "queue_process_time_seconds": ("histogram", {"queue"}),
    "job_queue_depth": ("gauge", {"queue", "priority"}),
    "jobs_processed_total": ("counter", {"type", "status"}),
    "job_duration_seconds": ("histogram", {"type"}),
    "jobs_enqueued_total": ("counter", {"queue", "type"}),
    "jobs_scheduled": ("gauge", {"queue"}),
    "job_queue_oldest_enqueued_timestamp_seconds": ("gauge", {"queue"}),
    "job_dlq_size": ("gauge", {"queue"}),
    "job_leases_expired_total": ("counter", {"queue"}),
    "job_workers": ("gauge", {"state"}),
    "jobs_signatures": ("gauge", {"state"}),
    "jobs_worker_info": ("gauge", {"release"}),
    "job_handlers_stuck": ("gauge", set()),
    "job_queue_paused": ("gauge", {"queue"}),
    "job_queue_closed": ("gauge", {"queue"}),
    "jobconsole_up": ("gauge", {"backend"}),
    "jobconsole_scrape_duration_seconds": ("gauge", {"backend"}),
    "jobconsole_scrape_errors_total": ("counter", {"backend"}),
    "jobconsole_signatures_up": ("gauge", set()),
    "jobconsole_build_info": ("gauge", {"version"}),
}
TIMES = ("time", "duration", "age", "latency", "timestamp")


class TestTable:
    def test_it_is_the_one_that_was_promised(self) -> None:
        assert {name: (spec.kind, set(spec.labels)) for name, spec in TABLE.items()} == PROMISED

    async def test_a_scrape_has_each_of_them_and_nothing_else(self, remembered: World) -> None:
        await play(remembered)
        found = families(await read(remembered))
        named = {f"{name}_total" if metric.type == "counter" else name: metric for name, metric in found.items()}
        assert {name: metric.type for name, metric in named.items()} == {
            name: kind for name, (kind, _) in PROMISED.items()
        }
        for name, metric in named.items():
            labels = {frozenset(sample.labels) - {"le"} for sample in metric.samples}
            assert labels == {frozenset(PROMISED[name][1])}, name

    @pytest.mark.parametrize("name", TABLE)
    def test_names_units_and_help_are_as_prometheus_asks(self, name: str) -> None:
        spec = TABLE[name]
        assert name.endswith("_total") == (spec.kind == "counter")
        if any(word in name.split("_") for word in TIMES):
            assert name.endswith("_seconds")
        assert spec.help.endswith(".")
        assert "\n" not in spec.help
        assert not set(spec.labels) & {"job", "id", "job_id", "worker", "error", "instance", "le"}

    async def test_zeros_are_there_in_advance(self, remembered: World) -> None:
        await remembered.insert()
        found = await samples(remembered)
        assert set(found.by("outcome", "queue_executions_total")) == {
            "completed", "retried", "dead", "cancelled", "released", "timed_out", "crashed",
        }  # fmt: skip
        assert found.by("status", "jobs_processed_total") == dict.fromkeys(
            ("completed", "retried", "dead", "cancelled"), 0
        )
        assert found.by("priority", "job_queue_depth") == {"high": 0, "normal": 1, "low": 0}
        assert found.by("state", "job_workers") == dict.fromkeys(("busy", "idle", "quiet", "lost"), 0)
        assert found.total("queue_wait_time_seconds_bucket", queue="work", le="+Inf") == 0


class TestValues:
    async def test_queues_now(self, world: World) -> None:
        await play(world)
        running = await world.running(priority=127)
        await world.claim_job(await world.insert(priority=0), start_count=0)
        found = await samples(world)
        assert found.by("priority", "job_queue_depth", queue="work") == {"high": 2, "normal": 2, "low": 2}
        assert found.total("jobs_scheduled", queue="work") == 1
        assert found.total("queue_size", queue="work") == 7
        assert found.total("queue_processing", queue="work") == 1
        assert found.total("queue_claimed_ahead", queue="work") == 1
        assert found.by("queue", "job_dlq_size") == {"work": 1, "mail": 1}
        assert found.by("queue", "job_queue_paused") == {"work": 0, "mail": 1}
        await world.operations.set_closed("work", True)
        assert (await samples(world)).by("queue", "job_queue_closed") == {"work": 1, "mail": 0}
        oldest = found.by("queue", "job_queue_oldest_enqueued_timestamp_seconds")
        assert set(oldest) == {"work"}
        assert oldest["work"] <= await world.now()
        assert (await world.job(running.id)).status == "running"

    async def test_counters(self, world: World) -> None:
        await play(world)
        found = await samples(world)
        assert found.by("queue", "queue_processed_total") == {"work": 3, "mail": 1}
        assert found.by("queue", "queue_failed_total") == {"work": 1, "mail": 2}
        assert found.by("queue", "job_leases_expired_total") == {"work": 3, "mail": 0}
        assert found.by("outcome", "queue_executions_total", queue="mail") == {
            "completed": 1, "retried": 1, "dead": 2, "cancelled": 1, "released": 1, "timed_out": 0, "crashed": 0,
        }  # fmt: skip
        assert found.by("outcome", "queue_executions_total", queue="work")["crashed"] == 3
        assert found.by("outcome", "queue_executions_total", queue="work")["dead"] == 0
        assert found.by("status", "jobs_processed_total", type="render")["cancelled"] == 2
        assert found.total("jobs_enqueued_total", queue="work", type="task") == 11

    async def test_histograms(self, world: World) -> None:
        await play(world)
        found = await samples(world)
        buckets = found.by("le", "queue_process_time_seconds_bucket", queue="work")
        assert len(buckets) == len(HISTOGRAM_BOUNDS) + 1
        assert (buckets["0.001"], buckets["0.025"], buckets["2.5"], buckets["5.0"], buckets["+Inf"]) == (1, 2, 2, 3, 3)
        assert found.total("queue_process_time_seconds_count", queue="work") == 3
        assert found.total("queue_process_time_seconds_sum", queue="work") == pytest.approx(3.0205)
        assert found.total("job_duration_seconds_count", type="send") == 4
        assert found.total("queue_wait_time_seconds_count", queue="work") == 3
        assert found.total("queue_wait_time_seconds_sum", queue="work") < 1.0

    async def test_totals_and_break_downs_agree(self, world: World) -> None:
        await play(world)
        found = await samples(world)
        for status, total in (("completed", "queue_processed_total"), ("dead", "queue_failed_total")):
            assert found.total("jobs_processed_total", status=status) == found.total(total)
        waiting = found.total("job_queue_depth") + found.total("jobs_scheduled")
        assert waiting == found.total("queue_size")
        assert found.total("job_duration_seconds_count") == found.total("queue_process_time_seconds_count")
        assert found.total("job_duration_seconds_sum") == pytest.approx(found.total("queue_process_time_seconds_sum"))
        conservation = await world.inspector.conservation()
        assert found.total("queue_processed_total") == conservation.completed
        assert found.total("jobs_enqueued_total") == 17

    async def test_a_new_exporter_goes_on_where_the_old_one_was(self, world: World) -> None:
        """Counters live in the store: neither a lost worker nor a new exporter takes anything back."""
        await play(world)
        before = await samples(world)
        await world.running(worker="lost", priority=127)
        await world.advance(10_000.0)
        await world.store.reclaim(10)
        after = await samples(world)
        for name in ("queue_processed_total", "queue_failed_total"):
            assert after.by("queue", name) == before.by("queue", name)
        assert after.total("job_leases_expired_total") == before.total("job_leases_expired_total") + 1
        assert after.total("jobs_enqueued_total") == before.total("jobs_enqueued_total") + 1

    async def test_workers_by_what_they_do(self, world: World) -> None:
        claim = await world.running()
        beats = [
            worker_beat(worker="a", busy=1, stuck=2),
            worker_beat(worker="b", busy=0, stuck=1, release=await world.store.register_release("r124")),
            worker_beat(worker="c", busy=1, quiet=True),
        ]
        heart = world.store.open_heartbeat()
        for beat in beats:
            heart.renew(beat)
        heart.close()
        assert (await samples(world)).by("state", "job_workers") == {"busy": 1, "idle": 1, "quiet": 1, "lost": 0}
        assert (await samples(world)).by("release", "jobs_worker_info") == {"": 2, "r124": 1}
        assert (await samples(world)).total("job_handlers_stuck") == 3
        await world.advance(1_000.0)
        assert (await samples(world)).by("state", "job_workers")["lost"] == 3
        assert (await samples(world)).total("job_handlers_stuck") == 0
        assert (await samples(world)).by("release", "jobs_worker_info") == {}
        assert claim.token


class TestUnreadable:
    def test_the_families_of_a_store_that_is_away_are_left_out(self) -> None:
        reading = Reading({"postgres": BackendState(False, 2.5, 3, "gone"), "redis": BackendState(True, 0.001, 0)})
        found = families(reading)
        assert set(found) == {
            "jobconsole_build_info", "jobconsole_up", "jobconsole_scrape_duration_seconds", "jobconsole_scrape_errors",
            "jobconsole_signatures_up",
        }  # fmt: skip
        assert [(sample.labels["backend"], sample.value) for sample in found["jobconsole_up"].samples] == [
            ("postgres", 0),
            ("redis", 1),
        ]


class TestTypes:
    @staticmethod
    def tally(type_: str, count: int) -> Tally:
        return Tally("work", type_, "enqueued", count, 0, 0, {}, {})

    def test_beyond_the_most_types_the_rest_is_other(self) -> None:
        names = TypeNames(most=2)
        tallies = [self.tally("rare", 1), self.tally("often", 9), self.tally("some", 5)]
        assert names.label(tallies, []) == {"often": "often", "some": "some", "rare": "other"}

    def test_a_label_once_given_stays(self) -> None:
        names = TypeNames(most=2)
        names.label([self.tally("a", 2), self.tally("b", 1)], [])
        assert names.label([self.tally("a", 2), self.tally("b", 1), self.tally("c", 99)], [])["b"] == "b"
        assert names.label([self.tally("c", 99)], [])["c"] == "other"

    def test_an_allow_list_lets_no_other_in(self) -> None:
        names = TypeNames(allowed=["rare"])
        assert names.label([self.tally("rare", 1), self.tally("often", 9)], []) == {"rare": "rare", "often": "other"}

    async def test_counts_of_other_types_are_added_up(self, remembered: World) -> None:
        for type_ in ("a", "b", "c", "d"):
            await remembered.ended("completed", type=type_)
        found = families(await read(remembered), TypeNames(most=1))
        completed = {
            sample.labels["type"]: sample.value
            for sample in found["jobs_processed"].samples
            if sample.labels["status"] == "completed"
        }
        assert completed == {"a": 1, "other": 3}

    async def test_types_that_workers_announce_come_first(self, remembered: World) -> None:
        for type_ in ("old", "old", "new"):
            await remembered.insert(type=type_)
        await remembered.beat(types=("new",))
        found = families(await read(remembered), TypeNames(most=1))
        enqueued = {sample.labels["type"]: sample.value for sample in found["jobs_enqueued"].samples}
        assert {name: number for name, number in enqueued.items() if number} == {"new": 1, "other": 2}

    async def test_hostile_names_are_shown_harmless(self, remembered: World) -> None:
        """Of types, queues and releases, whatever has become of the jobs."""
        hostile, release = {"type": "\x1b]0;owned\x07", "queue": "\x1b[2J"}, "\x1b[31m124"
        for kind in ("completed", "retrying", "dead", "cancelled"):
            await remembered.ended(kind, **hostile)
        await remembered.insert(**hostile)
        await remembered.beat(release=await remembered.store.register_release(release))
        found = families(await read(remembered))
        text = "".join(str(sample.labels) for metric in found.values() for sample in metric.samples)
        assert "\x1b" not in text
        assert "\\x1b" not in text


async def test_of_many_releases_those_of_the_most_workers_are_named(
    remembered: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "MAX_RELEASES", 2)
    for name, number in (("r122", 2), ("r123", 1), ("r124", 3)):
        for worker in range(number):
            release = await remembered.store.register_release(name)
            await remembered.beat(worker=f"{name}-{worker}", release=release)
    assert (await samples(remembered)).by("release", "jobs_worker_info") == {"r124": 3, "r122": 2}


def test_the_collector_reads_once_per_scrape() -> None:
    readings = []

    def read_now() -> Reading:
        readings.append(1)
        return Reading({"memory": BackendState(True, 0.0, 0)})

    list(JobsCollector(read_now).collect())
    assert readings == [1]
