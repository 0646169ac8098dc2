"""Lease tokens never come twice, whatever a loss of power takes back."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from queue_core.model.job import Claim
from queue_core.stores.sqlite import claim
from queue_core.stores.sqlite.store import SqliteStore
from tests.conformance.making import new_job, outcome
from tests.sqlite.conftest import NewFile
from tests.sqlite.crashing import REQUEST


async def claims(store: SqliteStore, count: int) -> list[Claim]:
    return await store.claim(REQUEST._replace(limit=count))


def copy(path: Path, to: Path) -> None:
    """Keep the file as the disk has it."""
    to.mkdir(exist_ok=True)
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", to / f"{path.name}{suffix}")


def lose_power(path: Path, kept: Path) -> None:
    """Leave of the file what the disk had."""
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    shutil.copytree(kept, path.parent, dirs_exist_ok=True)


async def lost_claims(store: SqliteStore, number: int, path: Path, kept: Path) -> list[Claim]:
    """Claim, and lose the power: of the file is left what the disk had."""
    lost = await claims(store, number)
    await store.close()
    lose_power(path, kept)
    return lost


async def test_after_claims_that_never_reached_the_disk(path: Path, new_file: NewFile, tmp_path: Path) -> None:
    store = SqliteStore(new_file())
    await store.insert([new_job() for _ in range(30)])
    first = await claims(store, 10)
    await store.insert([new_job()])  # on the disk, and with it all before
    copy(path, tmp_path / "kept")
    lost = await lost_claims(store, 10, path, tmp_path / "kept")
    again = SqliteStore(new_file())
    second = await claims(again, 10)
    assert {claim.id for claim in second} == {claim.id for claim in lost}
    assert min(claim.token for claim in second) > max(claim.token for claim in [*first, *lost])


async def test_with_the_skip_left_out_they_would(path: Path, new_file: NewFile, tmp_path: Path) -> None:
    """The test above can fail: whoever just goes on counting gives the same tokens again."""
    store = SqliteStore(new_file())
    await store.insert([new_job() for _ in range(30)])
    await claims(store, 10)
    await store.insert([new_job()])
    copy(path, tmp_path / "kept")
    lost = await lost_claims(store, 10, path, tmp_path / "kept")
    again = SqliteStore(new_file())
    again._reserved = True
    assert {claim.token for claim in await claims(again, 10)} == {claim.token for claim in lost}


async def test_a_restored_file_gives_out_no_token_again(path: Path, new_file: NewFile, tmp_path: Path) -> None:
    """A worker that claimed before it would end the attempt of another one."""
    store = SqliteStore(new_file())
    await store.insert([new_job()])
    copy(path, tmp_path / "kept")
    (first,) = await lost_claims(store, 1, path, tmp_path / "kept")
    (again,) = await claims(SqliteStore(new_file()), 1)
    assert first.id == again.id
    assert first.token < again.token


async def test_each_process_skips_and_all_count_on(new_file: NewFile) -> None:
    stores = [SqliteStore(new_file()) for _ in range(3)]
    await stores[0].insert([new_job() for _ in range(60)])
    tokens = [claim.token for _ in range(2) for store in stores for claim in await claims(store, 10)]
    assert tokens == sorted(set(tokens))


async def test_a_reservation_that_is_used_up_is_renewed(new_file: NewFile) -> None:
    file = new_file()
    store = SqliteStore(file)
    await store.insert([new_job() for _ in range(30)])
    first = await claims(store, 10)
    used = first[-1].token
    await file.write(lambda transaction: transaction.run("claim/use_tokens", (claim.TOKENS_PER_COMMIT - 15,)))
    second = await claims(store, 10)
    third = await claims(store, 10)
    tokens = [claim.token for claim in second + third]
    assert tokens == sorted(set(tokens))
    assert tokens[0] > used


async def test_also_of_claims_behind_the_ends_of_others(path: Path, new_file: NewFile, tmp_path: Path) -> None:
    """They are what a process claims first."""
    store = SqliteStore(new_file())
    await store.insert([new_job() for _ in range(30)])
    first = await claims(store, 10)
    await store.insert([new_job()])
    copy(path, tmp_path / "kept")
    lost = await lost_claims(store, 10, path, tmp_path / "kept")
    again = SqliteStore(new_file())
    ended = [outcome(claim, "completed") for claim in first]
    settled, second = await again.settle_and_claim(ended, [REQUEST._replace(limit=10, number=1)])
    assert [one.accepted for one in settled] == [True] * 10
    assert {claim.id for claim in second} == {claim.id for claim in lost}
    assert min(claim.token for claim in second) > max(claim.token for claim in lost)


async def test_also_after_claims_that_went_beyond_a_reservation(
    path: Path, new_file: NewFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The power is lost after them, and takes back all that has not waited for the disk."""
    file = new_file()
    store = SqliteStore(file)
    await store.insert([new_job() for _ in range(30)])
    first = await claims(store, 5)
    write = file.write

    async def kept(call: Any) -> Any:
        answer = await write(call)
        copy(path, tmp_path / "kept")
        return answer

    monkeypatch.setattr(file, "write", kept)
    await file.write(lambda transaction: transaction.run("claim/use_tokens", (claim.TOKENS_PER_COMMIT - 15,)))
    lost = await lost_claims(store, 20, path, tmp_path / "kept")
    again = SqliteStore(new_file())
    second = await claims(again, 20)
    assert {claim.id for claim in second} == {claim.id for claim in lost}
    assert min(claim.token for claim in second) > max(claim.token for claim in [*first, *lost])
