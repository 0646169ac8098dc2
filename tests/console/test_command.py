"""A pending change as a command: the parser takes it, and it means the same."""

from __future__ import annotations

import shlex

import pytest

from jobconsole.actions.command import changing, joined, looking
from jobconsole.actions.plan import Target, Verb, changeable_only, dead_of
from jobconsole.cli.rollout import options_and_rollout
from jobconsole.cli.root import parser_of
from jobconsole.cli.selection import selection_of
from jobconsole.format.words import WORDS
from queue_core.model.filters import Filter, parse, render
from queue_core.model.operation import UNCHANGED, ChangeOptions, Rollout

IDS = ("01a1fdb8-0000-7000-8000-00000000ff7d", "01a1fdb8-0000-7000-8000-000000001545")
HOSTILE = 'it\'s $(rm -rf /) "`x`" \\ ; & | > !'
WHERES = (
    dead_of("9f31c2aa04d1", Filter()),
    dead_of("9f31c2aa04d1", parse('queue:mail err:~"it\'s $HOME `x` !"')),
    parse('status:dead tag:"--all; rm -rf /"'),
)  # fmt: skip


def words_of(line: str) -> list[str]:
    """Return the words of a command as a shell reads them, without the program's name."""
    program, *words = shlex.split(line)
    assert program == "jobconsole"
    return words


def meant(line: str, verb: Verb, number: int = 10_000) -> tuple[object, ChangeOptions, Rollout, str]:
    """Return what a command line would act on and how."""
    options = parser_of().parse_args(words_of(line))
    assert options.verb == verb
    chosen = selection_of(options, *WORDS[verb].narrowed)
    changes, rollout = options_and_rollout(options, number)
    return chosen.ids or (chosen.where and frozenset(chosen.where.terms)), changes, rollout, options.why


@pytest.mark.parametrize("where", WHERES, ids=render)
@pytest.mark.parametrize("verb", ["retry", "delete"])
def test_a_filter_means_the_same(verb: Verb, where: Filter) -> None:
    line = joined(changing(verb, Target("x", wheres=(where,)), UNCHANGED, Rollout(), HOSTILE))
    what, _, _, why = meant(line, verb)
    assert what == frozenset(where.terms)
    assert why == HOSTILE


@pytest.mark.parametrize("verb", ["retry", "delete", "cancel", "move", "restore"])
def test_ids_mean_the_same(verb: Verb) -> None:
    options = ChangeOptions(queue="--other queue", priority=-5) if verb == "move" else UNCHANGED
    what, changes, *_ = meant(joined(changing(verb, Target("x", ids=IDS), options)), verb)
    assert what == IDS
    assert (changes.queue, changes.priority) == (options.queue, options.priority)


@pytest.mark.parametrize(
    ("options", "rollout"),
    [
        (UNCHANGED, Rollout()),
        (UNCHANGED, Rollout(10, 200.0, 20.0)),
        (ChangeOptions(90.0, 3600.0, "slow", -128), Rollout(0, 0.5, None)),
        (ChangeOptions(0.0, 1234567.0), Rollout(0, None, 12.5)),
    ],
)
def test_the_pace_means_the_same(options: ChangeOptions, rollout: Rollout) -> None:
    """Also where it is left out: a command of its own would spread so many jobs."""
    line = joined(changing("retry", Target("x", wheres=(WHERES[0],)), options, rollout))
    _, changes, pace, _ = meant(line, "retry")
    assert (changes, pace) == (options, rollout)


def test_several_signatures_are_several_commands() -> None:
    wheres = tuple(dead_of(signature, Filter()) for signature in ("aa00", "bb11"))
    line = joined(changing("delete", Target("x", wheres=wheres)), ["--context=prod"])
    first, second = line.split(" && ")
    for command, where in zip((first, second), wheres, strict=True):
        assert words_of(command)[0] == "--context=prod"
        assert meant(command, "delete")[0] == frozenset(where.terms)


def test_everything_that_waits_is_cancelled_by_its_filter() -> None:
    where = changeable_only("cancel", parse("queue:mail"))
    options = parser_of().parse_args(words_of(joined(changing("cancel", Target("x", wheres=(where,))))))
    assert (options.noun, options.verb) == ("job", "cancel")
    assert parse(options.filter) == where


def test_the_trash_is_restored_and_purged_by_its_filter() -> None:
    where = Filter((*parse("queue:mail").terms,), trash=True)
    for verb in ("restore", "purge"):
        options = parser_of().parse_args(words_of(joined(changing(verb, Target("x", wheres=(where,))))))  # type: ignore[arg-type]
        assert selection_of(options, *WORDS[verb].narrowed).where.trash  # type: ignore[index, union-attr]


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("triage", "queue:mail"), ("triage", ""), ("jobs", 'tag:"a b"'), ("job", IDS[0]), ("signature", "9f31"),
        ("live", ""), ("operations", ""), ("operation", "81"), ("schedules", ""), ("schedule", "x"), ("events", ""),
    ],
)  # fmt: skip
def test_a_list_is_a_command_that_the_parser_takes(place: str, value: str) -> None:
    assert parser_of().parse_args(words_of(joined([looking(place, value)]))).noun
