"""What is promised: it holds in every state and at every step, whatever happens."""

from __future__ import annotations

from tests.model.alike import spent
from tests.model.model import FINAL, JOBS, State, Step, Store


def broken(store: Store, before: State, step: Step, after: State) -> str:
    """Return which promise a step breaks; "" when all is well."""
    return after.broken or _of_step(before, step, after) or _of_state(store, after)


def _of_step(before: State, step: Step, after: State) -> str:
    for place in JOBS:
        was, job = before.jobs[place], after.jobs[place]
        if was.status in FINAL and job.status != was.status and step.name != "retry":
            return "a job that has ended runs again"
        asked = was.lease is not None and was.lease.cancel
        if asked and step.name.startswith("settle") and job.status in {"queued", "retrying"}:
            return "a job that was cancelled runs again"
    if step.name == "settle" and step.job is not None and not step.accepted:
        landed = before.jobs[step.job].endings
        if any(one.job == step.job and (one.token, one.phase) in landed for one in before.held[step.worker or 0]):
            return "an outcome that landed is refused"
    return ""


def _of_state(store: Store, state: State) -> str:
    for place in JOBS:
        job = state.jobs[place]
        if state.acknowledged[place] and job.status == "absent":
            return "an acknowledged job is lost"
        if (job.status == "running") != (job.lease is not None):
            return "a job runs without a lease"
        if job.crashes > state.seen_deaths[place]:
            return "a job is blamed for a death that no worker saw"
    for place, token, kind in state.seen_told:
        if (token, kind) not in state.jobs[place].endings:
            return "an acknowledged outcome is lost"
    for one in [one for held in state.held for one in held]:
        # Tried here, for exploring forgets such an attempt.
        if spent(state, one) and store.settle(state, one) != (state, False):
            return "a stale write landed"
    return ""


def done(state: State) -> bool:
    """Return whether all jobs are there and have ended."""
    return all(state.acknowledged) and all(job.status in FINAL for job in state.jobs)
