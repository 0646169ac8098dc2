"""Rules that give signatures an owner, a runbook and a link: which one wins, and what they refuse."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobconsole.configuration import load as load_console
from jobconsole.present.signature import rule_sentence, state_body
from queue_core import JobQueue
from queue_core.configuration import load
from queue_core.errors import ConfigurationError, InvalidArgument
from queue_core.model.report import SignatureInfo
from queue_core.model.triage.checks import check_link
from queue_core.model.triage.rules import NO_BOOK, RUNBOOK_KEY, RuleBook, TriageSettings, runbook_in
from queue_core.model.triage.signatures import (
    NO_RULE,
    UNTOUCHED,
    Ruled,
    SignatureFacts,
    SignatureState,
    changed,
    grown_out,
    undone,
)

MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
GROUP = SignatureInfo(
    "9f31c2aa04d1", "TimeoutError: x", 3, 0, (), MOMENT, MOMENT, (("send", 2), ("copy", 1)), ("mail", "bulk"), "id"
)
TRIAGE = """
jobs:
  queue_backend: memory
  triage:
    signatures: {"9f31": {owner: four}, "9f31c2": {link: "https://six.example"}}
    types: {copy: {owner: copier, runbook: copies}, send: {runbook: sends}}
    queues: {bulk: {owner: bulk}, "*": {owner: all, link: "http://all.example"}}
"""


def settings(text: str, tmp_path: Path) -> TriageSettings:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    return load(path=path, environ={}).settings.triage


def test_the_rule_for_the_narrower_wins_one_value_at_a_time(tmp_path: Path) -> None:
    book = RuleBook(settings(TRIAGE, tmp_path), {"send": "own"})
    rule = book.of(GROUP)
    assert (rule.owner, rule.runbook, rule.link) == (
        Ruled("four", "signature 9f31"),
        Ruled("sends", "type send"),
        Ruled("https://six.example", "signature 9f31c2"),
    )
    other = replace(GROUP, signature="000000000000", types=(("copy", 5),))
    assert book.of(other).owner == Ruled("copier", "type copy")
    assert book.of(other).link == Ruled("http://all.example", "all queues")
    assert book.of(replace(other, types=(("x", 1),))).owner == Ruled("bulk", "queue bulk")
    assert book.of(replace(other, types=(("x", 1),), queues=("mail",))).owner == Ruled("all", "all queues")
    assert RuleBook(runbooks={"copy": "own"}).of(GROUP).runbook == Ruled("own", "task copy")
    assert NO_BOOK.of(GROUP) == NO_RULE
    assert (
        rule_sentence(rule)
        == "signature 9f31: four; type send: runbook sends; signature 9f31c2: link https://six.example"
    )


def test_what_a_person_has_set_wins(tmp_path: Path) -> None:
    rule = RuleBook(settings(TRIAGE, tmp_path)).of(GROUP)
    state = SignatureState(GROUP.signature, rule=rule)
    assert (state.owner, state.link, state.runbook) == ("four", "https://six.example", "sends")
    taken = replace(state, facts=SignatureFacts(owner="ana", link="mine"))
    assert (taken.owner, taken.link, taken.runbook) == ("ana", "mine", "sends")
    body = state_body(taken)
    assert (body["owner"], body["runbook"], body["rule"]["owner"]) == (
        "ana", "sends", {"value": "four", "by": "signature 9f31"}
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{type: {}}", "triage.type: unknown key; did you mean 'types'?"),
        ("{types: {x: {ownr: a}}}", "triage.types.x.ownr: unknown key; did you mean 'owner'?"),
        ("{types: {x: 3}}", "triage.types.x: must be a block of keys, not a single value"),
        ('{types: {x: {owner: "a\\eb"}}}', "triage.types.x.owner: an owner cannot hold line ends, control characters "
         "or unseen ones: a␛b"),
        ("{queues: {x: {runbook: 7}}}", "triage.queues.x.runbook: a runbook is a text, not 7"),
        ("{types: {x: {link: 'javascript:alert(1)'}}}", "triage.types.x.link: a link is an address, https://…, "
         "http://… or mailto:…, not javascript:alert(1)"),
        ("{signatures: {xyz: {owner: a}}}", "triage.signatures.xyz: 'xyz' is no signature: 4 to 12 hexadecimal digits, "
         "its beginning is enough"),
    ],
)  # fmt: skip
def test_a_rule_that_cannot_be_is_refused_with_one_sentence(text: str, sentence: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        settings(f"jobs: {{queue_backend: memory, triage: {text}}}", tmp_path)
    assert str(caught.value) == f"{tmp_path}/c.yaml: jobs.{sentence}"


def test_workers_of_a_console_are_given_the_rules(tmp_path: Path) -> None:
    path = tmp_path / "jobconsole.yaml"
    path.write_text(TRIAGE)
    loaded = load_console(path, environ={})
    assert loaded.handed_down is not None
    assert load(environ=loaded.handed_down).settings.triage == loaded.settings.triage


def test_the_runbook_of_a_task_is_announced_with_its_schema() -> None:
    jobs = JobQueue(memory=True)

    @jobs.task(runbook=" https://run.example.org/smtp ")
    async def send(region: str) -> None: ...

    @jobs.task
    async def copy() -> None: ...

    announced = jobs.tasks.schemas()
    assert announced["send"] == {**send.schema(), RUNBOOK_KEY: "https://run.example.org/smtp"}
    assert RUNBOOK_KEY not in announced["copy"]
    assert runbook_in(announced["send"]) == "https://run.example.org/smtp"
    with pytest.raises(ConfigurationError, match="task 'bad': runbook: a runbook cannot hold line ends"):
        jobs.task(name="bad", runbook="a\nb")(copy.definition.function)


@pytest.mark.parametrize("hostile", ["a\x1b[31mb", "x" * 501, "a\u202eb", 7, None, ["x"], ""], ids=repr)
def test_a_runbook_that_cannot_be_shown_is_none(hostile: object) -> None:
    assert runbook_in({RUNBOOK_KEY: hostile}) == ""


@pytest.mark.parametrize("link", ["https://x.example/81?a=b#c", " HTTP://x", "mailto:ops@x.example?subject=81", ""])
def test_a_link_is_an_address_that_a_browser_or_a_mail_program_opens(link: str) -> None:
    assert check_link(link) == link.strip()


@pytest.mark.parametrize(
    "link", ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "www.x.example", "https://", "http:x",
             "https:///path", "mailto:nobody", "https://x y", "see https://x"],
)  # fmt: skip
def test_no_other_text_is_a_link(link: str) -> None:
    with pytest.raises(InvalidArgument, match="a link is an address, https://…, http://… or mailto:…, not "):
        check_link(link)


def test_the_last_ten_changes_of_a_signature_can_be_undone() -> None:
    facts = UNTOUCHED
    for number in range(1, 13):
        facts = changed(facts, number, owner="ana" if number % 2 else "ben", note=f"note {number}")
    assert [number for number, _, _ in facts.changes] == list(range(3, 13))
    assert undone(facts, 2, 13) is None
    found = undone(facts, 12, 13)
    assert found is not None
    assert (found.owner, found.note, found.changed_by) == ("ana", "note 11", 13)


def test_a_mute_of_what_has_no_dead_job_grows_from_one() -> None:
    facts = SignatureFacts("muted", factor=3.0, at_count=0)
    assert [grown_out(facts, count) for count in range(5)] == [False, False, False, True, True]
