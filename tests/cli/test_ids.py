"""Ids by their beginning, and as the console shows them with the middle left out; in every mode."""

from __future__ import annotations

import argparse

import pytest

from jobconsole.cli import selection
from jobconsole.cli.commands import launch
from jobconsole.tui.base.links import Link
from tests.cli.conftest import Shop
from tests.conformance.world import World

IDS = (
    "01a1fdb8-0000-7000-8000-00000000ff7d",
    "01a1fdb8-0000-7000-8000-000000001545",
    "01a1fdb9-1111-7000-8000-00000000ff7d",
    "02b2aaaa-0000-7000-8000-000000000001",
)


async def buried(world: World) -> None:
    """Four dead jobs, one of them in the trash."""
    for job_id in IDS:
        await world.ended("dead", id=job_id)
    await world.operations.change("delete", IDS[3:])


@pytest.fixture
def four(shop: Shop) -> Shop:
    """A store with them."""
    shop.play(buried)
    return shop


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("01a1fdb9", IDS[2]), ("01A1FDB91111", IDS[2]), ("01a1fdb9-11", IDS[2]), ("01a1fdb8…ff7d", IDS[0]),
        ("01a1fdb8...1545", IDS[1]), ("01a1fdb8~1545", IDS[1]), ("02b2", IDS[3]), (IDS[0], IDS[0]),
    ],
)  # fmt: skip
def test_a_part_that_one_id_has_finds_its_job(four: Shop, given: str, found: str) -> None:
    answer = four("job", "show", given, "--json")
    assert answer.body["job"]["id"] == found


def test_a_part_that_several_ids_have_names_them(four: Shop) -> None:
    answer = four("job", "show", "01a1fdb8")
    assert answer.code == 2
    assert answer.err.startswith("jobconsole: '01a1fdb8' is part of several ids: ")
    assert all(one in answer.err for one in IDS[:2])
    assert answer.err.count("\n") == 1


@pytest.mark.parametrize("given", ["01a1fdb8…0000", "03c3", "01a", "nothing", "…ff7d"])
def test_what_no_id_has_is_not_found(four: Shop, given: str) -> None:
    assert four("job", "show", given).code == 4


def test_verbs_take_parts_and_change_one_job_for_each(four: Shop) -> None:
    answer = four("job", "retry", "01a1fdb8…ff7d", "01a1fdb9", IDS[2], "--json")
    assert sorted(answer.body["ids"]) == sorted([IDS[0], IDS[2]])
    answer = four("job", "delete", "01a1fdb8", "--yes")
    assert answer.code == 2, "nothing is changed where it is not one"


def test_the_search_for_a_tail_is_bounded(four: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "PAGE_JOBS", 1)
    monkeypatch.setattr(selection, "MAX_PAGES", 1)
    answer = four("job", "show", "01a1…0000")
    assert (answer.code, answer.err) == (2, "jobconsole: more than 1 ids begin like '01a1…0000'; give more of it\n")


@pytest.mark.parametrize("given", ["01a1fdb9", "01a1fdb8…ff7d", "01A1FDB8~ff7d", "01a1fdb8%E2%80%A6ff7d", IDS[0]])
def test_a_link_takes_a_part_of_an_id(four: Shop, given: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Link | None] = []

    def show(options: argparse.Namespace, link: Link | None) -> int:
        opened.append(link)
        return 0

    monkeypatch.setattr(launch, "show_console", show)
    monkeypatch.setattr(launch, "_check_terminal", lambda: None)
    body = four("open", f"jobconsole:///job/{given}", "--json").body
    assert four(*body["command"][1:], "--json").body["job"]["id"] in IDS
    assert four("open", f"jobconsole:///job/{given}").code == 0
    assert opened == [Link("job", IDS[2] if given == "01a1fdb9" else IDS[0])]


@pytest.mark.parametrize(
    ("given", "code", "sentence"),
    [
        ("01a1fdb8", 2, "'01a1fdb8' is part of several ids: "),
        ("03c3", 4, "no job with id 03c3"),
        ("01a", 2, "the link names no job: after job/ comes its id or a part of it"),
        ("nothing", 2, "the link names no job"),
    ],
)
def test_a_link_to_what_is_no_job(
    four: Shop, given: str, code: int, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch, "_check_terminal", lambda: None)
    answer = four("open", f"jobconsole:///job/{given}")
    assert (answer.code, answer.out) == (code, "")
    assert answer.err.startswith(f"jobconsole: {sentence}")
    assert answer.err.count("\n") == 1
