"""A dry run gives the answer of the real run: what that refuses is refused, with the same sentence and exit code."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Shop
from tests.cli.running import untargeted
from tests.conformance.making import failure
from tests.conformance.world import World

SIGNATURE = "aaaaaaaaaaaa"
FAR = "2090-01-31T09:00:00Z"


async def scene(world: World) -> None:
    """Two waiting jobs in `work`, one in `slow`, and a dead one."""
    claim = await world.claim_job(await world.insert())
    await world.settle(claim, "dead", failure=failure(signature=SIGNATURE))
    await world.insert_many(2)
    await world.insert(queue="slow")


@pytest.fixture
def stocked(shop: Shop) -> Shop:
    shop.play(scene)
    return shop


def written(shop: Shop) -> list[int]:
    return [one["number"] for one in shop("op", "list", "--json").body["operations"]]


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (2, ["queue", "drain", "work", "--move-to", "work"]),
        (4, ["queue", "drain", "nosuch"]),
        (2, ["dlq", "own", SIGNATURE, "--to", "a\nb"]),
        (2, ["dlq", "own", SIGNATURE, "--to", "none"]),
        (2, ["dlq", "note", SIGNATURE, "x", "--link", "javascript:x"]),
        (2, ["dlq", "mute", SIGNATURE, "--until", "2020-01-31T09:00:00+01:00"]),
        (2, ["dlq", "mute", SIGNATURE, "--until-growth", "0.5"]),
        (2, ["dlq", "resolve", SIGNATURE, "--in", "a\nb"]),
        (2, ["filter", "save", "a b", "queue:mail"]),
        (4, ["schedule", "trigger", "nosuch"]),
        (4, ["schedule", "pause", "nosuch"]),
        (4, ["queue", "pause", "nosuch"]),
        (4, ["filter", "remove", "nosuch"]),
    ],
    ids=lambda value: " ".join(value).replace("\n", " ") if isinstance(value, list) else "",
)
def test_what_is_refused_is_refused_alike_and_leaves_no_record(stocked: Shop, code: int, words: list[str]) -> None:
    dry, real = stocked(*words, "--dry-run"), stocked(*words)
    assert (dry.code, dry.out, dry.err) == (code, "", untargeted(real.err))
    assert (real.code, real.out) == (code, "")
    assert dry.err.count("\n") == 1
    assert written(stocked) == []


@pytest.mark.parametrize(
    "words",
    [
        ["queue", "drain", "work", "--move-to", "slow"],
        ["dlq", "own", SIGNATURE, "--to", "ana"],
        ["dlq", "note", SIGNATURE, "x", "--link", "https://example.org/1"],
        ["dlq", "mute", SIGNATURE, "--until", FAR],
        ["dlq", "resolve", SIGNATURE, "--off"],
        ["filter", "save", "a", "queue:mail"],
    ],
    ids=" ".join,
)
def test_what_would_be_done_is_not(stocked: Shop, words: list[str]) -> None:
    for more in ((), ("--read-only",)):
        answer = stocked(*words, "--dry-run", *more)
        assert (answer.code, answer.err) == (0, "")
        assert answer.out.startswith("would ")
    assert written(stocked) == []
    assert stocked("filter", "list", "--json").body["filters"] == []
    (group,) = stocked("dlq", "groups", "--json").body["groups"]
    assert (group["state"], group["owner"], group["note"], group["muted_until"]) == ("new", None, None, None)


@pytest.mark.parametrize("verb", ["pause", "resume", "cancel"])
def test_operations_that_are_done_or_are_so_already(stocked: Shop, verb: str) -> None:
    assert stocked("dlq", "retry", "--all", "--detach", "--rate", "5/s").code == 0
    assert stocked("dlq", "own", SIGNATURE).code == 0
    if verb != "resume":
        assert stocked("op", verb, "1", "--dry-run").out == f"would {verb} #1\n"
        assert stocked("op", verb, "1").code == 0
    before = written(stocked)
    dry, real = stocked("op", verb, "1", "2", "--dry-run"), stocked("op", verb, "1", "2")
    assert (dry.code, dry.out, dry.err) == (1, real.out, untargeted(real.err))
    assert "#1 was " in dry.out
    assert "operation #2 is done; it cannot be " in dry.err
    assert written(stocked) == before


def test_undoing_what_was_changed_since(stocked: Shop) -> None:
    stocked("dlq", "own", SIGNATURE, "--to", "ana")
    assert "would undo #1" in stocked("op", "undo", "1", "--dry-run").out
    stocked("dlq", "own", SIGNATURE, "--to", "ben")
    stocked("filter", "save", "a", "queue:mail")
    stocked("filter", "save", "a", "queue:work")
    stocked("queue", "drain", "work", "--detach")
    assert "would undo #5" in stocked("op", "undo", "5", "--dry-run").out
    stocked("queue", "resume", "work")
    before = written(stocked)
    for number in ("1", "3", "5"):
        dry, real = stocked("op", "undo", number, "--dry-run"), stocked("op", "undo", number)
        assert (dry.code, dry.out, dry.err) == (1, "", untargeted(real.err)), number
        assert (real.code, real.out) == (1, "")
    assert written(stocked) == before
