"""docs/django.md: its modules as a project on a real database, and what its tables promise of Django Tasks."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import timedelta
from types import ModuleType
from typing import Any

import django
import pytest
from django.conf import settings
from django.db import connection, connections, transaction
from django.test import RequestFactory
from django.utils import timezone
from psycopg.conninfo import conninfo_to_dict

from queue_core import ConfigurationError, JobQueue, QueueFull
from queue_core.integrations import django as integration
from queue_core.integrations.django import TaskResultDoesNotExist, TaskResultStatus
from tests.conformance.working import until_status, working
from tests.examples.blocks import blocks

LIMIT = 4
PLACES = ("dbname", "host", "port", "user", "password")

MODELS = """
from django.db import models


class Order(models.Model):
    item = models.TextField()

    class Meta:
        app_label = "shop"
"""

MORE_TASKS = """

@task
def fail(text):
    raise LookupError(text)


@task(takes_context=True, retry=Retry(max_retries=1, delay=0))
def second_time_lucky(context):
    if context.attempt == 1:
        raise LookupError("not yet")
    return [context.attempt, len(context.task_result.errors)]
"""


def own_tasks(text: str) -> str:
    """Return code as it is with the package of Tasks that is installed here."""
    return text.replace("django.tasks", integration.Task.__module__.rpartition(".")[0])


@pytest.fixture(scope="module")
def shop(shared_database: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """The project of the page, set up in this process."""
    folder = tmp_path_factory.mktemp("project")
    package = folder / "shop"
    package.mkdir()
    queue, views = blocks("django.md", "## The queue's own tasks")
    configuration, tasks, _ = blocks("django.md", "## Django Tasks")
    for name, text in {
        "__init__": "",
        "models": MODELS,
        "queue": queue,
        "views": views,
        "tasks": own_tasks(tasks) + MORE_TASKS,
    }.items():
        (package / f"{name}.py").write_text(text)
    values: dict[str, Any] = {}
    exec(configuration, values)
    where = conninfo_to_dict(shared_database)
    database = {
        name: where.get(key, "") for name, key in zip(("NAME", "HOST", "PORT", "USER", "PASSWORD"), PLACES, strict=True)
    }
    database["ENGINE"] = "django.db.backends.postgresql"
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        patch.setenv("JOBS_CONFIG", "/dev/null")
        patch.setenv("JOBS__QUEUE_BACKEND", "postgres")
        patch.setenv("JOBS__POSTGRES__URL", shared_database)
        patch.setenv("JOBS__QUEUES", json.dumps({"mail": {"limit": LIMIT, "retry_after": "30s"}}))
        settings.configure(
            TASKS=values["TASKS"],
            DATABASES={"default": database},
            INSTALLED_APPS=["shop"],
            USE_TZ=True,
            DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        )
        django.setup()
        models = importlib.import_module("shop.models")
        with connection.schema_editor() as editor:
            editor.create_model(models.Order)
        yield importlib.import_module("shop.views")
        with connection.schema_editor() as editor:
            editor.delete_model(models.Order)
        connections.close_all()
        for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
            del sys.modules[name]


@pytest.fixture
def orders(shop: ModuleType, empty_store_url: str) -> Iterator[Any]:
    """The model, without any rows."""
    yield shop.Order
    shop.Order.objects.all().delete()


@pytest.fixture
async def backend(orders: Any) -> AsyncIterator[Any]:
    """The backend "default", whose queue object is open in the test's event loop."""
    integration._client.cache_clear()
    integration.worker_queue.cache_clear()
    async with integration.jobs:
        yield integration.task_backends["default"]


@asynccontextmanager
async def workers() -> AsyncIterator[JobQueue]:
    """Run a worker of the module's target."""
    jobs = integration.jobs
    async with working(jobs, queues=["default", "mail"]):
        yield jobs


async def in_thread(call: Callable[..., Any], *args: Any) -> Any:
    """Call a plain function as a view: in a thread whose connections end with it."""

    def apart() -> Any:
        try:
            return call(*args)
        finally:
            connections.close_all()

    return await asyncio.to_thread(apart)


async def test_views(shop: ModuleType, orders: Any) -> None:
    queue = importlib.import_module("shop.queue")

    def requests() -> str:
        view = RequestFactory()
        first = shop.order(view.get("/", {"item": "lamp"}))
        assert first.status_code == 202
        assert shop.order_first(view.get("/", {"item": "desk"})).status_code == 202
        made = 2
        while (answer := shop.order(view.get("/", {"item": "chair"}))).status_code == 202:
            made += 1
        assert (answer.status_code, answer.headers["Retry-After"], made) == (503, "30", LIMIT)
        assert orders.objects.count() == queue.queue.count("type:send_receipt") == LIMIT
        queue.queue.close()
        return str(json.loads(first.content)["job"])

    job_id = await in_thread(requests)
    async with queue.jobs, working(queue.jobs):
        await until_status(queue.jobs, job_id, "completed")


async def test_tasks(backend: Any, shop: ModuleType) -> None:
    *_, use = blocks("django.md", "## Django Tasks")
    names: dict[str, Any] = {}
    heard: list[tuple[str, str]] = []

    def note(sender: Any, task_result: Any, signal: Any, **_: Any) -> None:
        heard.append((signals[id(signal)], task_result.status))

    kinds = {name: getattr(integration, name) for name in ("task_enqueued", "task_started", "task_finished")}
    signals = {id(signal): name for name, signal in kinds.items()}
    for signal in kinds.values():
        signal.connect(note)
    try:
        await in_thread(exec, use, names)
        result, later = names["result"], names["later"]
        assert result.is_finished is False
        found = await later.task.aget_result(later.id)
        assert (found.task.priority, found.task.queue_name, found.kwargs) == (-5, "default", {"item": "lamp"})
        assert abs(found.task.run_after - timezone.now() - timedelta(hours=1)) < timedelta(minutes=5)
        heard.clear()
        async with workers() as jobs:
            await until_status(jobs, result.id, "completed")
            await in_thread(result.refresh)
        assert result.status == TaskResultStatus.SUCCESSFUL
        assert (result.return_value, result.attempts, result.errors) == ("invoice for lamp", 1, [])
        assert result.enqueued_at <= result.started_at <= result.finished_at
        assert heard == [("task_started", "RUNNING"), ("task_finished", "SUCCESSFUL")]
    finally:
        for signal in kinds.values():
            signal.disconnect(note)


async def test_an_async_task_and_its_context(backend: Any) -> None:
    tasks = importlib.import_module("shop.tasks")
    async with workers() as jobs:
        result = await tasks.count_orders.aenqueue("desk")
        assert result.args == ["desk"]
        await until_status(jobs, result.id, "completed")
        await result.arefresh()
    assert result.return_value == {"orders": 0, "attempt": 1}


async def test_failures(backend: Any) -> None:
    tasks = importlib.import_module("shop.tasks")
    async with workers() as jobs:
        lucky = await in_thread(tasks.second_time_lucky.enqueue)
        await until_status(jobs, lucky.id, "completed")
        await lucky.arefresh()
        assert (lucky.return_value, lucky.attempts, len(lucky.errors)) == ([2, 1], 2, 1)
        failing = await in_thread(tasks.fail.enqueue, "no")
        await until_status(jobs, failing.id, "retrying")
        await failing.arefresh()
        assert (failing.status, failing.errors[0].exception_class) == (TaskResultStatus.READY, LookupError)
        assert "LookupError: no" in failing.errors[0].traceback
        assert await jobs.cancel(failing.id)
        await failing.arefresh()
        assert failing.status == TaskResultStatus.FAILED
        with pytest.raises(ValueError, match="Task failed"):
            _ = failing.return_value


async def test_in_and_out_of_a_transaction(backend: Any, orders: Any) -> None:
    tasks = importlib.import_module("shop.tasks")

    def rolled_back() -> str:
        with pytest.raises(KeyError), transaction.atomic():  # noqa: PT012  the block is the transaction
            orders.objects.create(item="lamp")
            gone = tasks.send_invoice.enqueue(1)
            raise KeyError
        with pytest.raises(TaskResultDoesNotExist):
            tasks.send_invoice.get_result(gone.id)
        for _ in range(LIMIT):
            tasks.send_invoice.enqueue(1)
        with transaction.atomic():
            orders.objects.create(item="kept")
            with pytest.raises(QueueFull):  # which leaves the block as it was
                tasks.send_invoice.enqueue(1)
        return str(orders.objects.get().item)

    assert await in_thread(rolled_back) == "kept"


@pytest.mark.parametrize("savepoint", [True, False])
async def test_a_connection_in_its_blocks(shop: ModuleType, empty_store_url: str, savepoint: bool) -> None:
    queue = JobQueue(postgres=empty_store_url).blocking()

    def enqueue() -> str:
        return str(queue.enqueue("anything", unique=str(uuid.uuid4()), connection=connection).id)

    def blocks() -> list[list[str]]:
        at_once = enqueue()  # no block: as each of Django's own statements
        with transaction.atomic():
            kept = [enqueue()]
            with transaction.atomic(savepoint=savepoint):
                kept.append(enqueue())
            if savepoint:
                with pytest.raises(KeyError), transaction.atomic():  # noqa: PT012  the block is the savepoint
                    gone = [enqueue()]
                    raise KeyError
        with pytest.raises(KeyError), transaction.atomic():  # noqa: PT012  the block is the transaction
            with transaction.atomic(savepoint=savepoint):
                gone = [enqueue()]
            raise KeyError
        transaction.set_autocommit(False)
        gone.append(enqueue())
        transaction.rollback()
        kept.append(enqueue())
        transaction.commit()
        there = [job_id for job_id in [at_once, *kept, *gone] if queue.count(f"id:{job_id}")]
        queue.close()
        return [[at_once, *kept], there]

    expected, there = await in_thread(blocks)
    assert there == expected


async def test_ids_that_are_no_results(backend: Any) -> None:
    job = await in_thread(backend.client.enqueue, "thumbnail", {"path": "a.png"})
    for result_id in (job.id, str(uuid.uuid4()), "nothing"):
        with pytest.raises(TaskResultDoesNotExist):
            await backend.aget_result(result_id)


async def test_wrong_settings(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    backend.options = {"queue": "x", "database": "other", "jobs": "nowhere.to:be"}
    found = {error.id for error in backend.check()}
    backend.options = settings.TASKS["default"]["OPTIONS"]
    assert found == {"queue_core.E001", "queue_core.E002", "queue_core.E003"}
    monkeypatch.setitem(integration.task_backends.settings, "other", {"BACKEND": "nowhere.Backend"})
    with pytest.raises(ConfigurationError, match=r"^Django: \w+: Could not find backend 'nowhere.Backend'"):
        integration.worker_queue("other")
    with pytest.raises(AttributeError):
        _ = integration.job
