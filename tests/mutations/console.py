"""Mutants of the console and the exporter."""

from __future__ import annotations

from tests.mutations.mutant import Mutant, Patch


def of_console(name: str, file: str, tests: str, *patches: Patch) -> Mutant:
    """Return a mutant of what shows or changes jobs."""
    return Mutant(f"console-{name}", f"jobconsole/{file}", patches, (f"{tests}.py",))


CONSOLE = (
    of_console(
        "tells-passwords",
        "exporter/reading.py",
        "exporter/test_reading",
        ("return safe(mask(text), 300)", "return safe(text, 300)"),
    ),
    of_console(
        "forgets-earlier-errors",
        "exporter/reading.py",
        "exporter/test_server",
        ("self._errors[name] = self._errors.get(name, 0) + 1", "self._errors[name] = 1"),
    ),
    of_console(
        "counts-releases-of-lost-workers",
        "exporter/collector.py",
        "exporter/test_collector",
        (
            'for worker in overview.workers if not worker.lost)\n    yield _values("jobs_worker_info"',
            'for worker in overview.workers)\n    yield _values("jobs_worker_info"',
        ),
    ),
    of_console(
        "waits-take-as-long-as-runs",
        "exporter/collector.py",
        "exporter/test_collector",
        ("return tally.wait_buckets, tally.wait_us", "return tally.wait_buckets, tally.run_us"),
    ),
    of_console(
        "lost-workers-have-slots",
        "core/snapshot.py",
        "console/test_model",
        ("sum(worker.concurrency for worker in alive)", "sum(worker.concurrency for worker in workers)"),
    ),
    of_console(
        "retries-what-has-completed",
        "actions/plan.py",
        "architecture/test_verbs",
        ("where.statuses() <= {Status.COMPLETED}", "bool(where.statuses() & {Status.COMPLETED})"),
    ),
    of_console(
        "mutes-end-before-they-begin",
        "actions/states.py",
        "console/test_mutes",
        ("return at if at > now else at + timedelta(days=1)", "return at"),
    ),
    of_console(
        "reports-what-came-back-before-it-looked",
        "core/alerts.py",
        "console/test_notices",
        ("(state.regressed_at or 0.0) >= self._since", "True"),
    ),
    of_console(
        "labels-executions-with-names-as-they-are",
        "exporter/collector.py",
        "exporter/test_collector",
        ("executions[safe(one.queue), one.outcome]", "executions[one.queue, one.outcome]"),
    ),
    of_console(
        "counts-types-that-workers-announce-as-others",
        "exporter/collector.py",
        "exporter/test_collector",
        ("(name not in announced, -counts[name], name)", "(-counts[name], name)"),
    ),
    of_console(
        "streams-events-of-all-types",
        "web/stream.py",
        "web/test_stream",
        (" and (not self.types or event.type in self.types)\n\n", "\n\n"),
    ),
    of_console(
        "opens-what-begins-like-an-open-path",
        "web/auth.py",
        "web/test_auth",
        ("request.path in self._open or", "request.path.startswith(tuple(self._open)) or"),
    ),
    of_console(
        "warns-with-names-as-they-are",
        "actions/caution.py",
        "console/test_caution",
        ("names = [safe(name, LONGEST_NAME) for name in types]", "names = list(types)"),
    ),
    of_console(
        "notifies-with-titles-as-they-are",
        "core/alerts.py",
        "console/test_notices",
        ("safe(group.title, TITLE)", "group.title"),
    ),
    of_console(
        "is-healthy-where-nothing-can-be-written",
        "exporter/reading.py",
        "exporter/test_reading",
        ("if self._check_writes is None:", "if True:"),
    ),
)
