"""Operator verbs have facts in the model and words in the console, under the same keys."""

from typing import get_args

import pytest

from jobconsole.format.words import IMMEDIATE, WORDS
from queue_core.model.operation import VERBS, MemberVerb


def test_each_verb_on_jobs_has_words_and_none_has_words_alone() -> None:
    assert set(WORDS) == set(VERBS) == set(get_args(MemberVerb))


@pytest.mark.parametrize("verb", WORDS)
def test_the_words_of_a_verb_are_whole(verb: str) -> None:
    words = WORDS[verb]
    assert "" not in {words.title, words.button, words.past, words.summary}
    assert words.narrowed


@pytest.mark.parametrize(("kind", "verb"), IMMEDIATE)
def test_what_asks_before_it_acts_says_what_happens_and_what_goes_on(kind: str, verb: str) -> None:
    words = next(words for key, words in IMMEDIATE.items() if key == (kind, verb))
    assert bool(words.title) == bool(words.consequence) == bool(words.button)
    assert words.becomes
