"""Measures this queue beside others, in turns on the same servers; see benchmarks/README.md."""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from benchmarks.compare.bars import Verdict, judge
from benchmarks.compare.contestants import CONTESTANTS, OWN, Contestant, PeerUnavailable, default_folder, python_of
from benchmarks.compare.measures import MEASURES, QUICK, RULES, Measurement, Sizes
from benchmarks.compare.results import Results
from benchmarks.compare.stage import Failed, Stage
from benchmarks.compare.table import TITLES, as_markdown, as_text, replace_in
from benchmarks.ground import stretch
from jobconsole.embedded.folders import EmbeddedError
from jobconsole.embedded.servers import EmbeddedServers

RULE_GROUP = "rules"
MISSED, FAILED = 1, 2
"""Exit codes; 0: all bars that were measured hold."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What is measured."""

    contestants: tuple[Contestant, ...]
    measures: tuple[str, ...]
    rounds: int
    sizes: Sizes
    venvs: Path


def chosen(only: Sequence[str]) -> tuple[tuple[Contestant, ...], tuple[str, ...]]:
    """Return the contestants and the measures that are named; all of a kind of which none is named.

    Raises:
        ValueError: a name is unknown.
    """
    names = {contestant.name for contestant in CONTESTANTS}
    wanted = {name for given in only for name in given.split(",")}
    if RULE_GROUP in wanted:
        wanted = wanted - {RULE_GROUP} | set(RULES)
    if unknown := wanted - names - {*MEASURES, *RULES}:
        known = ", ".join((*(each.name for each in CONTESTANTS), *MEASURES, RULE_GROUP, *RULES))
        raise ValueError(f"--only: {', '.join(sorted(unknown))} is none of {known}")
    measures = tuple(each for each in (*MEASURES, *RULES) if each in wanted or not wanted - names)
    measured = OWN if set(measures) <= set(RULES) else CONTESTANTS
    contestants = tuple(each for each in measured if each.name in wanted or not wanted & names)
    return contestants, measures


def measure(plan: Plan) -> Results:
    """Measure all contestants, in turns for each measure of each round."""
    results = Results()
    pythons = dict(_pythons(plan, results))
    with (
        tempfile.TemporaryDirectory(prefix="compare-") as scratch,
        EmbeddedServers.start(durable=True, redis_appendonly=True) as servers,
        closing(Stage(servers, Path(scratch), pythons)) as stage,
    ):
        results.machine = [_machine(), f"{stage.durability()}."]
        playing = _settings_chosen(plan, stage, pythons, results)
        try:
            for number in range(1, plan.rounds + 1):
                _round(f"round {number} of {plan.rounds}", plan.measures, playing, results)
        except KeyboardInterrupt:
            results.notes.append("The run was ended early.")
    return results


def _round(title: str, measures: Sequence[str], playing: Mapping[Contestant, Measurement], results: Results) -> None:
    """Take each measure of all contestants in turn."""
    results.stretches.append(stretch())
    for name in measures:
        for contestant, measurement in playing.items():
            if name in RULES and not contestant.own:
                continue
            _report(f"{title}: {name}, {contestant.name}")
            try:
                results.add(contestant.name, measurement.take(name))
            except Failed as problem:
                results.notes.append(f"{problem}.")
                results.add(contestant.name, dict.fromkeys(_figures_of(name)))
                _report(str(problem))


def _figures_of(name: str) -> tuple[str, ...]:
    """Return the figures of a measure: a round in which it failed has none of them."""
    several = {
        "drain1": ("bulk", "drain1", "worker_us", "servers_us", "cpu_us", "wal"),
        "latency": ("p50", "p99"),
    }
    return several.get(name, (name,))


def _pythons(plan: Plan, results: Results) -> Iterator[tuple[str, Path]]:
    for contestant in plan.contestants:
        try:
            python = python_of(contestant, plan.venvs)
        except PeerUnavailable as problem:
            results.notes.append(f"{contestant.name} is left out: {problem}.")
            _report(results.notes[-1])
        else:
            yield contestant.name, python


def _settings_chosen(
    plan: Plan, stage: Stage, pythons: Mapping[str, Path], results: Results
) -> dict[Contestant, Measurement]:
    playing = {}
    for contestant in plan.contestants:
        if contestant.name in pythons:
            measurement = Measurement(stage, contestant, plan.sizes)
            try:
                measurement.choose()
            except Failed as problem:
                results.notes.append(f"{contestant.name} is left out: {problem}.")
                _report(results.notes[-1])
                continue
            _report(f"settings of {contestant.name}: {json.dumps(dict(measurement.config))}")
            playing[contestant] = measurement
            results.labels[contestant.name] = contestant.label
    return playing


def _machine() -> str:
    return f"{os.cpu_count()} processors ({platform.machine()}), Python {platform.python_version()}."


def _report(sentence: str) -> None:
    sys.stderr.write(f"compare: {sentence}\n")
    sys.stderr.flush()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.compare", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="contestants, measures, or rules")
    parser.add_argument("--quick", action="store_true", help="few jobs, one round, no verdict: to try the program")
    parser.add_argument("--venvs", type=Path, default=default_folder(), help="where the peers are installed")
    parser.add_argument(
        "--from", dest="earlier", type=Path, nargs="+", help="measure nothing: use the rounds in these JSON files"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print all figures as one JSON object")
    form.add_argument("--markdown", metavar="FILE", help="put the tables between the marks of FILE; -: print them")
    return parser.parse_args()


def _results(options: argparse.Namespace) -> Results:
    if options.earlier:
        results = Results()
        for path in options.earlier:
            results.append(Results.from_json(path.read_text(encoding="utf-8")))
        return results
    contestants, measures = chosen(options.only)
    rounds, sizes = (1, QUICK) if options.quick else (max(1, options.rounds), Sizes())
    return measure(Plan(contestants, measures, rounds, sizes, options.venvs))


def _show(options: argparse.Namespace, results: Results) -> None:
    if options.json:
        print(results.to_json())
    elif options.markdown == "-":
        print(as_markdown(results), end="")
    elif options.markdown:
        replace_in(Path(options.markdown), as_markdown(results))
    else:
        print(as_text(results))


def main() -> int:
    """Measure and print; return the exit code."""
    options = _options()
    # An end by SIGTERM takes the way of Ctrl+C: workers and servers end, and what was measured is shown.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        results = _results(options)
        _show(options, results)
    except (EmbeddedError, Failed, OSError, ValueError) as problem:
        _report(str(problem))
        return FAILED
    except KeyboardInterrupt:
        return FAILED
    if options.quick:
        return 0
    judged = list(judge(results, TITLES))
    if not options.json and not options.markdown:
        print("\n".join(("", *(each.sentence for each in judged if each.verdict is not Verdict.MISSED))))
    missed = [each.sentence for each in judged if each.verdict is Verdict.MISSED]
    for sentence in missed:
        sys.stderr.write(f"missed: {sentence}\n")
    return MISSED if missed else 0


if __name__ == "__main__":
    sys.exit(main())
