"""How a run is printed."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from tests.faults.chaos.run import Outcome

SHOWN = 30


def lines_of(outcome: Outcome) -> Iterator[str]:
    """Yield the lines of a run's table."""
    plan, verdict = outcome.plan, outcome.verdict
    where = plan.mode if plan.topology == "single" else f"{plan.mode} ({plan.topology})"
    yield f"seed {plan.seed}, {where}, {outcome.seconds / 60:.1f} min, {len(outcome.faults)} faults"
    yield ""
    yield f"{'fault':<28}{'times':>6}{'back after s: median':>22}{'max':>7}{'runs explained':>16}"
    names = sorted({fault.name for fault in outcome.faults})
    for name in names:
        times = sum(fault.name == name for fault in outcome.faults)
        back = outcome.back.get(name, [])
        numbers = f"{median(back):>22.1f}{max(back):>7.1f}" if back else f"{'':>29}"
        yield f"{name:<28}{times:>6}{numbers}{verdict.extra[name]:>16}"
    yield ""
    every = [seconds for ones in outcome.back.values() for seconds in ones]
    yield f"jobs acknowledged      {verdict.acknowledged} ({verdict.jobs} in the store)"
    yield f"lost                   {len(verdict.lost)}"
    yield f"runs                   {verdict.runs}"
    yield f"extra runs             {verdict.extra.total()} explained, {len(verdict.unexplained)} not explained"
    yield f"stale writes           {verdict.stale_refused} refused, {len(verdict.stale_writes)} landed"
    if every:
        yield f"time to recover        median {median(every):.1f} s, max {max(every):.1f} s"
    if outcome.baseline:
        part = outcome.rate / outcome.baseline
        yield f"rate ÷ baseline        {outcome.rate:.1f}/s ÷ {outcome.baseline:.1f}/s = {part:.2f}"
    for reason in outcome.left_out:
        yield f"left out               {reason}"
    yield f"problems               {len(verdict.problems)}"
    yield from (f"  {problem}" for problem in verdict.problems[:SHOWN])
