"""`dlq show`, `dlq compare` and `job compare`."""

import json
from collections.abc import Callable

import pytest

from tests.cli.conftest import Cli
from tests.cli.scenes import Scene
from tests.cli.test_looking import golden, job_id
from tests.conformance.making import failure
from tests.conformance.world import World

SIGNATURE = "9f31c2aa04d1"


async def scene(world: World) -> None:
    for number in range(8):
        payload = {"region": "eu" if number else "us", "to": ["a@x"], "n": number, "\x1b[31mkey": "\x1b[0m"}
        cause = failure("smtp", signature=SIGNATURE, title="TimeoutError: smtp <host>")
        given = {"type": "send", "queue": "mail", "worker": "mx-7:11:aaaaaa", "payload": json.dumps(payload)}
        await world.ended("dead", {"failure": cause}, id=job_id(number + 1), **given)
        given |= {"worker": "mx-2:12:bbbbbb", "payload": json.dumps({"region": "us", "to": ["b@x"], "n": number})}
        await world.ended("completed", {}, id=job_id(number + 11), **given)


@pytest.fixture
def died(cli: Cli, play: Callable[[Scene], None]) -> Cli:
    play(scene)
    return cli


def test_a_signature_with_its_breakdown(died: Cli) -> None:
    answer = died("dlq", "show", SIGNATURE[:4])
    assert (answer.code, answer.err) == (0, "")
    golden("dlq_show", answer.still)
    body = died("dlq", "show", SIGNATURE, "--json").body
    assert (body["group"]["count"], body["breakdown"]["sampled"]) == (8, 8)
    fields = {one["name"]: one["values"] for one in body["breakdown"]["fields"]}
    region = fields["payload.region"][0]
    assert region == {"value": "eu", "dead": 0.875, "completed": 0.0, "where": "payload.region=eu"}
    assert len(died("dlq", "list", "--filter", f"sig:{SIGNATURE} {region['where']}", "--json").body["jobs"]) == 7


def test_payloads_side_by_side(died: Cli) -> None:
    answer = died("dlq", "compare", SIGNATURE)
    assert (answer.code, answer.err) == (0, "")
    golden("dlq_compare", answer.still)
    body = died("job", "compare", job_id(8), "--json", "--back", "7").body
    assert {one["sign"] + one["path"] for one in body["fields"]} == {"~region", "~to.0", "~n", "+\x1b[31mkey"}
    best = [one["name"].removeprefix("payload.") for one in body["contrasts"]]
    assert [one["path"] for one in body["fields"]][: len(best)] == best
    assert (body["equal"], body["older"], body["completed"]["payload"]["n"]) == (0, False, 0)
    assert "equal" not in died("job", "compare", job_id(1), "--back", "7", "--equal").out


def test_what_cannot_be_shown(died: Cli) -> None:
    assert died("dlq", "show", "a41c").code == 4
    assert died("dlq", "show", "zz").code == 2
    assert died("dlq", "compare", "a41c").code == 4
    assert died("job", "compare", job_id(99)).code == 4
    assert died("dlq", "compare", SIGNATURE, "--back", "50").code == 2
