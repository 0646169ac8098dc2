"""Operator verbs have facts in the model and words in the console, under the same keys."""

from typing import get_args

import pytest

from jobconsole.actions.plan import changeable_only
from jobconsole.format.words import IMMEDIATE, WORDS
from queue_core.model.filters import Filter, parse
from queue_core.model.operation import VERBS, MemberVerb
from queue_core.model.states import Status


def test_each_verb_on_jobs_has_words_and_none_has_words_alone() -> None:
    assert set(WORDS) == set(VERBS) == set(get_args(MemberVerb))


@pytest.mark.parametrize("verb", WORDS)
def test_the_words_of_a_verb_are_whole(verb: str) -> None:
    words = WORDS[verb]
    assert "" not in {words.title, words.button, words.past, words.summary}
    assert words.narrowed


@pytest.mark.parametrize("verb", WORDS)
def test_filters_are_narrowed_to_what_a_verb_acts_on(verb: MemberVerb) -> None:
    facts, narrowed = VERBS[verb], parse(" ".join(WORDS[verb].narrowed))
    # Completed jobs are run again only where they are asked for.
    states = facts.states - {Status.COMPLETED}
    assert narrowed.statuses() == states
    assert narrowed.trash == (facts.trash is True)
    assert changeable_only(verb, Filter()).statuses() == states


@pytest.mark.parametrize(("kind", "verb"), IMMEDIATE)
def test_what_asks_before_it_acts_says_what_happens_and_what_goes_on(kind: str, verb: str) -> None:
    words = next(words for key, words in IMMEDIATE.items() if key == (kind, verb))
    assert bool(words.title) == bool(words.consequence) == bool(words.button)
    assert words.becomes
