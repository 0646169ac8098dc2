"""Claims and lists go by their indexes, with many finished rows in the file and without ever having been analysed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from queue_core.model.filters import Filter, parse
from queue_core.model.settings import SqliteSettings
from queue_core.stores.sqlite.dialect import conditions, load, texts
from queue_core.stores.sqlite.insert import insert
from queue_core.stores.sqlite.read import SqliteInspector
from queue_core.stores.sqlite.session import Mode, SqliteFile, Transaction
from queue_core.stores.sqlite.store import SqliteStore
from tests.conformance.making import QUEUE, TYPE, new_job
from tests.sqlite.crashing import REQUEST

FINISHED = 100_000
HISTORY = (Path(__file__).parent / "queries" / "history.sql").read_text(encoding="utf-8")


def fill(transaction: Transaction) -> None:
    insert(transaction, [new_job() for _ in range(20)], {})
    insert(transaction, [new_job(delay=60) for _ in range(20)], {})
    for statement in HISTORY.split(";"):
        transaction.records(statement, {"n": FINISHED} if ":n" in statement else {})


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> SqliteSettings:
    """A file with a long history, some dead jobs, and a few that wait; made once, for it takes a while."""
    settings = SqliteSettings(path=str(tmp_path_factory.mktemp("plans") / "jobs.db"))
    link = SqliteFile(settings).link()
    link.transact(fill, Mode.SOFT, time.monotonic() + 60)
    link.close()
    return settings


@pytest.fixture
async def file(filled: SqliteSettings) -> AsyncIterator[SqliteFile]:
    """The file with the long history."""
    file = SqliteFile(filled)
    yield file
    await file.close()


async def plan(file: SqliteFile, text: str, params: object) -> str:
    rows = await file.inspect(lambda transaction: transaction.records(f"explain query plan {text}", params))  # type: ignore[arg-type]
    # SQLite 3.53 names the kind of a join, too.
    return "\n".join(row["detail"].replace(" EXISTS USING ", " USING ") for row in rows)


IN_ORDER = (
    "claim/by_rank", "claim/ranks", "sweep", "upkeep/expired", "gate", "operations/unchanged", "operations/newest",
    "operations/unfinished", "operations/by_signature", "operations/of_job", "operations/changed",
)  # fmt: skip
FIND = {"before": 9, "limit": 1, "signature": "a", "unfinished": False}
MEMBER = {"number": 1, "position": 1, "id": "a", "chosen": None}
ABANDON = {"note": "", "now": 0.0, "before": 0.0}
CLAIM = {"queue_id": 1, "type": TYPE, "types": texts([TYPE]), "limit": 10}


@pytest.mark.parametrize(
    ("query", "params", "uses"),
    [
        ("claim/by_rank", CLAIM, "SEARCH j USING INDEX jobs_ready (queue_id=? AND type=?"),
        ("claim/ranks", (1, TYPE, 10), "SEARCH jobs USING COVERING INDEX jobs_ready (queue_id=? AND type=?"),
        ("claim/by_ids", CLAIM | {"ids": texts(["a"])}, "SEARCH j USING INDEX sqlite_autoindex_jobs_1 (id=?)"),
        ("settle/held", (texts(["a"]),), "SEARCH j USING INDEX sqlite_autoindex_jobs_1 (id=?)"),
        ("settle/worker_results", {"ids": texts(["a"]), "since": 0.0}, "SEARCH j USING INDEX sqlite_autoindex_jobs_1 (id=?)"),  # noqa: E501
        ("claim/worker_cancelled", ("w",), "SEARCH jobs USING INDEX jobs_cancelled (worker=?)"),
        ("upkeep/due", (0.0, 10), "SEARCH j USING INDEX jobs_due (run_at<?)"),
        ("upkeep/next_due", (), "SCAN jobs USING COVERING INDEX jobs_due"),
        ("settle/expired", (0.0, 10), "SEARCH j USING INDEX jobs_listed (state=?)"),
        ("upkeep/expired", ("completed", 0.0, 10), "SEARCH jobs USING INDEX jobs_listed (state=? AND updated_at<?)"),
        ("delivery/ready", (), "SEARCH j USING COVERING INDEX jobs_ready (queue_id=?)"),
        ("totals/in_state", ("completed",), "SEARCH jobs USING COVERING INDEX jobs_listed (state=?)"),
        ("read/dead", (), "SEARCH jobs USING COVERING INDEX jobs_dead (state=?)"),
        ("read/next_group", (1, "", -1), "SEARCH jobs USING COVERING INDEX jobs_ready (queue_id=?"),
        ("read/aged", (1,), "SEARCH jobs USING COVERING INDEX jobs_aged (queue_id=?)"),
        ("read/aged_depth", (1, TYPE, 0, 9), "SEARCH jobs USING COVERING INDEX jobs_aged (queue_id=? AND type=?"),
        ("read/blocked", (1,), "SEARCH jobs USING COVERING INDEX jobs_ordering (queue_id=?)"),
        ("ordering/admitted", (1, "k"), "COVERING INDEX jobs_ordering (queue_id=? AND ordering_key=? AND admitted=?)"),
        ("ordering/next_jobs", (1, "k", 1), "SEARCH jobs USING INDEX jobs_ordering (queue_id=? AND ordering_key=? AND admitted=?)"),  # noqa: E501
        ("ordering/unique_holder", (1, "k", 0.0), "SEARCH u USING PRIMARY KEY (queue_id=? AND key=?)"),
        ("upkeep/trim_unique", (0.0, 1), "SEARCH unique_keys USING COVERING INDEX unique_keys_expires (expires_at<?)"),
        ("operations/unchanged", (1, 0, 500), "SEARCH m USING PRIMARY KEY (operation=? AND position>? AND position<?)"),
        ("operations/unchanged", (1, 0, 500), "SEARCH j USING INDEX sqlite_autoindex_jobs_1 (id=?)"),
        ("operations/add", MEMBER, "SEARCH j USING INDEX sqlite_autoindex_jobs_1 (id=?)"),
        ("operations/mark", (1, 1), "SEARCH operation_members USING PRIMARY KEY (operation=? AND position=?)"),
        ("operations/records", (texts([1]),), "SEARCH o USING INTEGER PRIMARY KEY (rowid=?)"),
        ("operations/newest", FIND, "SEARCH operations USING INTEGER PRIMARY KEY (rowid<?)"),
        ("operations/unfinished", FIND, "SEARCH operations USING INDEX operations_unfinished (number<?)"),
        ("operations/by_signature", FIND, "SEARCH s USING PRIMARY KEY (signature=? AND operation<?)"),
        ("operations/of_job", ("a", 1), "SEARCH operation_members USING INDEX operation_members_job (job_id=?)"),
        ("operations/changed", (1, 0, 1), "USING INDEX operation_members_changed (operation=? AND position>?)"),
        ("operations/outcomes", (1, 0, 9, 10), "operation_members_changed (operation=? AND position>? AND position<?)"),
        ("operations/outcomes", (1, 0, 9, 10), "SEARCH j USING INDEX sqlite_autoindex_jobs_1 (id=?)"),
        ("upkeep/expired_operations", (0.0, 1), "COVERING INDEX operations_finished (finished_at<?)"),
        ("upkeep/abandoned_operations", ABANDON, "USING INDEX operations_unfinished"),
        ("upkeep/remove_members", (1, 1), "SEARCH operation_members USING PRIMARY KEY (operation=? AND position=?)"),
        ("upkeep/remove_signatures", (1,), "COVERING INDEX operation_signatures_operation (operation=?)"),
        ("signatures/runs", {"types": texts([TYPE]), "newest": 5}, "SEARCH r USING PRIMARY KEY (type=? AND release=?)"),
        ("capacity/begin", {"queue_id": 1, "high": 10, "normal": 5}, "SEARCH jobs USING INDEX jobs_listed (state=?)"),
    ],
)  # fmt: skip
async def test_by_the_index(file: SqliteFile, query: str, params: object, uses: str) -> None:
    found = await plan(file, load(query), params)
    assert uses in found
    if query.startswith(IN_ORDER):
        assert "TEMP B-TREE" not in found


LISTS = ["", "status:dead", "!status:completed", "age:<1h", "type:task", "err:~no", "payload.n:7", "trash:yes", "ada"]


@pytest.mark.parametrize("text", LISTS)
@pytest.mark.parametrize("order", ["newest", "oldest"])
@pytest.mark.parametrize("behind", [False, True])
async def test_lists_are_read_in_their_order(file: SqliteFile, text: str, order: str, behind: bool) -> None:
    wanted = conditions(parse(text), time.time())
    if behind:
        wanted = wanted.also(f"after {order}", at=time.time(), number=10)
    assert wanted.places
    params = wanted.params | {"state": wanted.places[0], "limit": 10, "room": 10}
    found = await plan(file, wanted.query("read/page", order), params)
    bound = " AND updated_at" if behind or "age" in text else ""
    assert f"SEARCH j USING INDEX jobs_listed (state=?{bound}" in found
    assert "TEMP B-TREE" not in found


async def test_an_id_leads_to_its_job(file: SqliteFile) -> None:
    for text, uses in (
        ("id:01970001-0000", "sqlite_autoindex_jobs_1 (id>? AND id<?)"),
        ("id:01", "jobs_listed (state=?)"),
        ("!id:01970001-0000", "jobs_listed (state=?)"),
    ):
        wanted = conditions(parse(text), time.time())
        params = wanted.params | {"state": wanted.places[0], "limit": 10, "room": 10}
        for query in ("read/page", "read/ids", "read/count"):
            assert f"SEARCH j USING INDEX {uses}" in await plan(file, wanted.query(query), params)


async def test_groups_of_the_dlq_come_from_the_index_alone(file: SqliteFile) -> None:
    wanted = conditions(Filter(), time.time())
    found = await plan(file, wanted.query("totals/groups"), wanted.params | {"state": "dead"})
    assert "SEARCH j USING COVERING INDEX jobs_dead (state=?)" in found
    assert "payloads" not in found


async def test_nor_does_history_slow_it(file: SqliteFile) -> None:
    """Generous bounds, which a look through all rows would still miss by far on any machine."""
    store, inspector = SqliteStore(file), SqliteInspector(file)
    await store.claim(REQUEST._replace(limit=1))
    for work, most in (
        (lambda: store.claim(REQUEST._replace(limit=1)), 0.05),
        (lambda: store.claim(REQUEST._replace(limit=1, types=(TYPE, "other", "third"))), 0.05),
        (lambda: inspector.jobs(Filter(), 50), 0.05),
        (lambda: inspector.jobs(parse("status:queued"), 50, None, "oldest"), 0.05),
        (lambda: store.list_claimable(QUEUE, 500), 0.05),
    ):
        times = []
        for _ in range(7):
            start = time.perf_counter()
            await work()
            times.append(time.perf_counter() - start)
        assert min(times) < most
