"""What a person is about to do, or looks at, as a command of the command line."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from jobconsole.actions.plan import Target, Verb
from queue_core.model.filters import Filter, Term, parse, render
from queue_core.model.operation import UNCHANGED, ChangeOptions, Rollout
from queue_core.model.states import Status

DEAD = Term("status", "=", Status.DEAD.value)
_OF_DEAD = frozenset({"retry", "delete", "restore", "purge"})
"""Verbs that narrow a filter to dead jobs, or to the trash, by themselves."""


def joined(commands: Sequence[Sequence[str]], options: Sequence[str] = ()) -> str:
    """Return commands as one line for a shell, each quoted; the next one runs where the one before succeeded.

    `options`: those that choose where the jobs are.
    """
    return " && ".join(shlex.join(["jobconsole", *options, *words]) for words in commands)


def changing(
    verb: Verb,
    target: Target,
    options: ChangeOptions = UNCHANGED,
    rollout: Rollout | None = None,
    why: str = "",
) -> list[list[str]]:
    """Return the words of the commands that do the same, without the program's name.

    One for the ids, and one for each of the filters: those of several signatures cannot be one filter. A filter matches
    the jobs of its own moment, and not exactly those that a sheet has frozen.
    """
    how = [*_options(verb, options, rollout), *([f"--why={why}"] if why else [])]
    commands = [[*_verb(verb, where), f"--filter={render(_narrowed(verb, where))}"] for where in target.wheres]
    if target.ids:
        commands.insert(0, [*(("dlq", "purge") if verb == "purge" else ("job", verb)), *target.ids])
    return [[*words, *how] for words in commands]


def _verb(verb: Verb, where: Filter) -> tuple[str, str]:
    completed = Term("status", "=", Status.COMPLETED.value) in where.terms
    dead = verb in _OF_DEAD or (verb == "move" and DEAD in where.terms)
    return ("dlq" if dead and not completed else "job", verb)


def _narrowed(verb: Verb, where: Filter) -> Filter:
    """Leave out what the command adds by itself, unless nothing would be left: a filter is never empty."""
    if _verb(verb, where)[0] == "job" or where.trash:
        return where
    return Filter(tuple(term for term in where.terms if term != DEAD) or where.terms, where.trash)


def _options(verb: Verb, options: ChangeOptions, rollout: Rollout | None) -> list[str]:
    words = []
    if options.queue is not None:
        words.append(f"--to-queue={options.queue}")
    if options.priority is not None:
        words.append(f"--priority={options.priority}")
    if verb != "retry":
        return words
    # Always written: what is left out would depend on how many jobs there are then.
    words.append(f"--spread={_number(options.spread)}")
    if options.delay:
        words.append(f"--delay={_number(options.delay)}")
    return words if rollout is None else [*words, *_pace(rollout)]


def _pace(rollout: Rollout) -> list[str]:
    words = [f"--canary={rollout.canary}"] if rollout.canary else []
    if rollout.rate is not None:
        words.append(f"--rate={_number(rollout.rate)}")
    if rollout.stop_percent is not None:
        words.append(f"--stop-if={_number(rollout.stop_percent)}")
    if rollout.first_failure:
        words.append("--canary-first-failure")
    if rollout.ramp:
        words.append(f"--ramp={','.join(map(str, rollout.ramp))}")
    if rollout.when_release is not None:
        words.append(f"--when-release={rollout.when_release}")
    if rollout.begin_at is not None:
        words.append(f"--begin-at={rollout.begin_at.isoformat()}")
    return words


def looking(place: str, value: str) -> list[str]:
    """Return the words of the command that shows a place of the console without a terminal."""
    # In one word with its option: what begins with a dash would be taken for another one.
    narrowed = [f"--filter={render(parse(value))}"] if place in {"jobs", "triage"} and value else []
    verbs = {
        "job": ["job", "show", value],
        "signature": ["dlq", "list", f"--signature={value}"],
        "jobs": ["job", "list", *narrowed],
        "triage": ["dlq", "groups", *narrowed],
        "live": ["queue", "list"],
        "schedules": ["schedule", "list"],
        "operations": ["op", "list"],
        "operation": ["op", "show", value],
        "schedule": ["schedule", "list"],
        "events": ["events"],
    }
    return verbs[place]


def _number(value: float) -> str:
    return f"{value:g}" if value == float(f"{value:g}") else f"{value:f}".rstrip("0").rstrip(".")
