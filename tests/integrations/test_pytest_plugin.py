"""The pytest plugin, in runs of pytest as its users have them."""

import pkgutil
import re
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path

import pytest

import queue_core
from tests.architecture.test_fresh_interpreter import loaded_by
from tests.examples.blocks import blocks

pytest_plugins = ["pytester"]

MODULE = "queue_core.integrations.pytest_plugin"
# Where the package was installed before it had the plugin, it is named.
NAMED = [] if any(one.value == MODULE for one in entry_points(group="pytest11")) else ["-p", MODULE]
UNHELPED = ["-p", "no:valkey", "-p", "no:cacheprovider", *NAMED, "-o", "asyncio_default_fixture_loop_scope=function"]
QUIET = [*UNHELPED, "-o", "asyncio_mode=auto"]

# A run inside of this process forgets the modules that it has loaded; what it finds loaded stays.
for module in pkgutil.walk_packages(queue_core.__path__, "queue_core."):
    if not module.name.startswith("queue_core.integrations."):
        import_module(module.name)

APP = """
from queue_core import JobContext, JobQueue, Retry

jobs = JobQueue(postgres="postgresql://app@127.0.0.1:1/nowhere")


@jobs.task(queue="images", retry=Retry(max_retries=1, delay=5))
async def thumbnail(path: str, width: int = 200) -> str:
    return f"{path}@{width}"


@jobs.task(queue="mail")
async def order(ctx: JobContext, number: int) -> None:
    async with ctx.transaction() as connection:
        await connection.execute("INSERT INTO orders VALUES (%s)", (number,))
        await thumbnail.options(connection=connection).enqueue(f"{number}.png")
        if number < 0:
            raise ValueError("no such order")
"""


@pytest.fixture
def run(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with an application whose queue object the plugin takes."""
    pytester.makepyfile(shop=APP)
    pytester.makeini("[pytest]\njobs_queue = shop:jobs\npythonpath = .\n")
    return pytester


def test_the_page_of_the_documentation(pytester: pytest.Pytester) -> None:
    """Each of its tests passes; with its own configuration, not with that of this run."""
    shop, *tests = blocks("testing.md")
    (ini,) = blocks("testing.md", language="ini")
    pytester.makefile(".ini", pytest=ini)
    pytester.makepyfile(shop=shop)
    pytester.makepyfile(test_page="\n".join(tests))
    result = pytester.runpytest_inprocess(*UNHELPED)
    result.assert_outcomes(passed=len(re.findall("def test_", "".join(tests))))


def test_what_was_enqueued_is_found_or_the_nearest_is_shown(run: pytest.Pytester) -> None:
    run.makepyfile("""
        from datetime import date
        from shop import jobs, thumbnail

        async def test_found(assert_enqueued, refute_enqueued, run_due):
            await thumbnail.options(priority="high", tags=["x"]).enqueue("a.png")
            job = assert_enqueued(thumbnail, {"path": "a.png"}, queue="images", priority="high", tags=["x"], count=1)
            refute_enqueued(thumbnail, {"path": "b.png"})
            refute_enqueued("other")
            await jobs.enqueue("dated", {"day": "2026-01-31", "parts": [1, 2]})
            assert_enqueued("dated", {"day": date(2026, 1, 31), "parts": (1, 2)})
            assert await run_due() == 1
            assert assert_enqueued("thumbnail").status == "completed"

        async def test_fails_with_the_nearest(assert_enqueued):
            await thumbnail.enqueue("a.png", width=3)
            await thumbnail.enqueue("b.png")
            assert_enqueued(thumbnail, {"path": "a.png", "width": 4, "height": 5}, queue="mail")

        async def test_fails_with_other_types(assert_enqueued):
            await thumbnail.enqueue("a.png")
            assert_enqueued("order")

        async def test_fails_by_count(assert_enqueued):
            await thumbnail.enqueue("a.png")
            assert_enqueued(thumbnail, count=2)

        async def test_fails_where_refuted(refute_enqueued):
            await thumbnail.enqueue("a.png")
            refute_enqueued(thumbnail)
    """)
    result = run.runpytest_inprocess(*QUIET)
    result.assert_outcomes(passed=1, failed=4)
    result.stdout.fnmatch_lines([
        "E*AssertionError: a job of 'thumbnail' with path='a.png', width=4, height=5, queue='mail' was not enqueued; "
        "the nearest of 2 has",
        "E * width: 3, not 4",
        "E * height: nothing, not 5",
        "E * queue: 'images', not 'mail'",
        "E*a job of 'order' was not enqueued; enqueued were thumbnail",
        "E*a job of 'thumbnail' was enqueued once, not 2",
        "E*a job of 'thumbnail' was enqueued: job * in queue 'images', payload {'path': 'a.png'}",
    ])  # fmt: skip


def test_plain_tests_transactions_and_results(run: pytest.Pytester) -> None:
    run.makepyfile(r"""
        import pytest
        from queue_core import NoWorker
        from shop import jobs, order, thumbnail

        def test_plain(jobs_inline):
            with jobs.blocking() as queue:
                handle = queue.enqueue(thumbnail.options(connection=object()), "a.png")
                queue.enqueue(order, 1)
                assert jobs_inline.run_due_now() == 3
                jobs_inline.assert_enqueued(thumbnail, {"path": "1.png"})
                assert handle.result() == "a.png@200"

        async def test_what_is_rolled_back_is_gone(jobs_inline):
            await order.enqueue(-1)
            assert await jobs_inline.run_due() == 1
            jobs_inline.refute_enqueued(thumbnail)

        async def test_nothing_runs_it(jobs_inline):
            handle = await thumbnail.enqueue("a.png")
            with pytest.raises(NoWorker, match=r"is queued, and nothing runs .* call run_due\(\)"):
                await handle.result()
            jobs_inline.advance(60)
            await jobs_inline.run_due()
            assert await handle.result() == "a.png@200"
    """)
    run.runpytest_inprocess(*QUIET).assert_outcomes(passed=3)


def test_a_real_store_under_xdist(run: pytest.Pytester, tmp_path: Path) -> None:
    run.makepyfile("""
        import pytest
        from shop import jobs, thumbnail

        @pytest.mark.parametrize("path", ["a.png", "b.png"])
        async def test_run(path, jobs_inline):
            handle = await thumbnail.enqueue(path)
            assert jobs.settings.mode == "sqlite"
            jobs_inline.assert_enqueued(thumbnail, {"path": path}, count=1)
            assert len(jobs_inline.enqueued()) == 1
            assert await jobs_inline.run_due() == 1
            assert await handle.result() == f"{path}@200"
            with pytest.raises(RuntimeError, match="a clock of its own"):
                jobs_inline.advance(5)
            await jobs.close()
    """)
    result = run.runpytest_subprocess(*QUIET, "-n", "2", "--jobs-store", "sqlite")
    result.assert_outcomes(passed=2)


@pytest.mark.parametrize("store", ["postgres", "redis"])
def test_servers(run: pytest.Pytester, store: str, request: pytest.FixtureRequest) -> None:
    url = request.getfixturevalue("empty_postgres_url" if store == "postgres" else "redis_url")
    run.makepyfile("""
        from shop import jobs, thumbnail

        async def test_run(jobs_inline):
            handle = await thumbnail.enqueue("a.png")
            await jobs.enqueue("of_another_program", queue="images")
            await thumbnail.options(queue="paused").enqueue("p.png")
            await jobs.operations.pause_queue("paused")
            assert await jobs_inline.run_due() == 1
            jobs_inline.assert_enqueued(thumbnail, {"path": "a.png"}, count=1)
            assert await handle.result() == "a.png@200"
            await jobs.close()
    """)
    run.runpytest_inprocess(*QUIET, "--jobs-store", url).assert_outcomes(passed=1)


@pytest.mark.parametrize("store", ["mysql://db", "postgresql://app@db:port/x", "redis://h:port", "Sqlite"])
def test_a_store_that_cannot_be_is_refused_once(run: pytest.Pytester, store: str) -> None:
    run.makepyfile("def test_one(jobs_inline): pass\ndef test_two(jobs_inline): pass")
    result = run.runpytest_inprocess(*QUIET, "--jobs-store", store)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert [line.partition(": ")[:2] for line in result.errlines if line] == [("ERROR", ": ")]
    assert "--jobs-store: " in "".join(result.errlines)


@pytest.mark.parametrize("url", ["redis://127.0.0.1:1", "postgresql://app@127.0.0.1:1/test"])
def test_a_server_that_is_away_is_one_sentence(run: pytest.Pytester, url: str) -> None:
    run.makepyfile("def test_one(jobs_inline): pass")
    result = run.runpytest_inprocess(*QUIET, "--jobs-store", url)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["--jobs-store: * cannot be reached: *"])
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*another exception*")


def test_mistakes_in_a_test_are_sentences(run: pytest.Pytester) -> None:
    run.makepyfile(r"""
        from datetime import timedelta
        import pytest
        from queue_core.errors import InvalidArgument
        from shop import thumbnail

        async def test_mistakes(jobs_inline):
            with pytest.raises(RuntimeError, match=r"await jobs_inline\.run_due\(\)"):
                jobs_inline.run_due_now()
            with pytest.raises(InvalidArgument, match="no duration"):
                jobs_inline.advance("soon")
            with pytest.raises(InvalidArgument, match="negative"):
                jobs_inline.advance(-1)
            with pytest.raises(InvalidArgument, match="by a task or by its name, not 42"):
                jobs_inline.assert_enqueued(42)
            with pytest.raises(InvalidArgument, match="a mapping such as"):
                jobs_inline.refute_enqueued(thumbnail, 7)

        async def test_durations(jobs_inline):
            await thumbnail.options(delay="1h").enqueue("a.png")
            for time in (60, "58m", timedelta(seconds=59)):
                jobs_inline.advance(time)
                assert await jobs_inline.run_due() == 0
            jobs_inline.advance("1s")
            assert await jobs_inline.run_due() == 1
    """)
    run.runpytest_inprocess(*QUIET).assert_outcomes(passed=2)


def test_every_run_of_pytest_loads_little() -> None:
    assert loaded_by(f"pytest, {MODULE}") & {"pydantic", "asyncio", "psycopg", "redis"} == set()
