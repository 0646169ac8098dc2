"""States that differ in names only are one: numbers are given anew, and what nothing refers to is forgotten."""

from __future__ import annotations

from tests.model.model import Attempt, Job, Message, State, Token


def renamed(state: State, fenced: bool) -> State:
    """Return the state with the lowest numbers that keep the order of tokens, and without what is over.

    An attempt is over when no lease has its token and none can have it again. Where a token is what a write needs, and
    only there, nothing can come of it any more.
    """
    if not state.faults:
        # No crash comes any more.
        state = state._replace(disk=(state.jobs, state.number))
    held = [[_less(state, one) for one in ones if not (fenced and spent(state, one))] for ones in state.held]
    state = state._replace(held=tuple(map(frozenset, held)))
    if fenced and any(one.attempt is not None and spent(state, one.attempt) for one in state.wire):
        wire = [one for one in state.wire if one.attempt is None or not spent(state, one.attempt)]
        state = state._replace(wire=frozenset(wire))
    attempts = [one for held in state.held for one in held]
    attempts += [message.attempt for message in state.wire if message.attempt is not None]
    told = frozenset(one for one in state.seen_told if (one[1], one[2]) not in state.disk[0][one[0]].endings)
    asked = {(one.job, one.token) for one in attempts} | {(place, token) for place, token, _ in told}
    rows = (*state.jobs, *state.disk[0])
    leases = [job.lease for job in rows if job.lease is not None]
    endings = [
        frozenset(one for one in job.endings if (place % len(state.jobs), one[0]) in asked)
        for place, job in enumerate(rows)
    ]
    tokens = {lease.token for lease in leases} | {token for _, token in asked}
    tokens |= {(state.epoch, state.number), (state.epoch, state.disk[1])}
    epochs = {one: place for place, one in enumerate(sorted({token[0] for token in tokens}))}
    numbers = {one: place for place, one in enumerate(sorted({token[1] for token in tokens}))}
    names = {one.seen_attempt for one in attempts} | {lease.seen_attempt for lease in leases}
    called = {one: place for place, one in enumerate(sorted(names), 1)}
    claims = {lease.claim for lease in leases} | {*state.doubts} | {one.claim for one in state.wire} | {0}
    asking = {one: place for place, one in enumerate(sorted(claims))}

    def token(one: Token) -> Token:
        return epochs[one[0]], numbers[one[1]]

    def job(place: int, one: Job) -> Job:
        lease = one.lease
        if lease is None and not one.endings:
            return one
        ended = frozenset([(token(which), kind) for which, kind in endings[place]]) if endings[place] else NONE
        if lease is not None:
            lease = lease._replace(
                token=token(lease.token), claim=asking[lease.claim], seen_attempt=called[lease.seen_attempt]
            )
        return one._replace(lease=lease, endings=ended)

    def attempt(one: Attempt) -> Attempt:
        return one._replace(token=token(one.token), seen_attempt=called[one.seen_attempt])

    def message(one: Message) -> Message:
        return one._replace(attempt=one.attempt and attempt(one.attempt), claim=asking[one.claim])

    places = range(len(state.jobs))
    return state._replace(
        jobs=tuple([job(place, state.jobs[place]) for place in places]),
        disk=(
            tuple([job(len(places) + place, state.disk[0][place]) for place in places]),
            numbers[state.disk[1]],
        ),
        number=numbers[state.number],
        epoch=epochs[state.epoch],
        held=tuple([frozenset([attempt(one) for one in held]) for held in state.held]),
        doubts=tuple([asking[one] for one in state.doubts]),
        wire=frozenset([message(one) for one in state.wire]),
        claims=len(asking) - 1,
        seen_attempts=len(called),
        seen_started=frozenset([called[one] for one in state.seen_started if one in called]),
        seen_told=frozenset([(place, token(which), kind) for place, which, kind in told]),
    )


NONE: frozenset[tuple[Token, str]] = frozenset()


def spent(state: State, one: Attempt) -> bool:
    """Return whether no lease has this token, and none can have it again."""
    if one.token > (state.epoch, state.disk[1]):
        return False
    for rows in (state.jobs, state.disk[0]):
        job = rows[one.job]
        if (job.lease is not None and job.lease.token == one.token) or (one.token, one.phase) in job.endings:
            return False
    return True


def _less(state: State, one: Attempt) -> Attempt:
    return one._replace(losses=min(one.losses, 1) if state.faults else 0)
