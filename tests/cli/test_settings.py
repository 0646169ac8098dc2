"""Contexts: a named place with its own servers, colour and word, perhaps to be looked at only."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobconsole.settings import read_settings
from queue_core.errors import ConfigurationError

FILE = """
jobs: {redis: {prefix: dev}}
contexts:
  staging:
  prod: {read_only: true, colour: red, jobs: {redis: {prefix: prod}}}
  other: {word: "the other one"}
"""


@pytest.fixture(autouse=True)
def file(elsewhere: Path) -> Path:
    path = elsewhere / "jobconsole.yaml"
    path.write_text(FILE)
    return path


def test_without_a_context() -> None:
    settings = read_settings(environ={})
    assert (settings.context, settings.word, settings.read_only, settings.jobs.redis.prefix) == (
        None,
        "",
        False,
        "dev:",
    )
    assert sorted(settings.contexts) == ["other", "prod", "staging"]


def test_a_context_by_flag_or_by_variable() -> None:
    for settings in (read_settings(environ={}, context="prod"), read_settings(environ={"JOBCONSOLE_CONTEXT": "prod"})):
        assert (settings.context, settings.word, settings.colour) == ("prod", "PROD", "red")
        assert settings.read_only
        assert settings.jobs.redis.prefix == "prod:"


def test_a_flag_wins_over_the_context() -> None:
    settings = read_settings(environ={}, overrides={"jobs": {"redis": {"prefix": "x"}}}, context="prod")
    assert settings.jobs.redis.prefix == "x:"
    assert read_settings(environ={}, context="staging", read_only=True).read_only
    assert read_settings(environ={}, context="other").word == "the other one"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("contexts: {prod: {alerts: {dead: 0}}}", "contexts.prod.alerts.dead: must be greater than or equal to 1"),
        (
            "contexts: {prod: {alerts: {oldest: soon}}}",
            "contexts.prod.alerts.oldest: 'soon' is no duration; write seconds, or for example 500ms, 5s, 5m, 1h, 7d",
        ),
        ("contexts: {prod: {color: red}}", "contexts.prod.color: unknown key; did you mean 'colour'?"),
        ("contexts: {prod: {read_only: perhaps}}", "contexts.prod.read_only: must be true or false"),
        ("contexts: {prod: 3}", "contexts.prod: must be a block of keys, not a single value"),
    ],
)
def test_a_mistake_in_a_context_is_one_sentence(file: Path, text: str, sentence: str) -> None:
    file.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_settings(environ={})
    assert str(caught.value) == f"jobconsole.yaml: {sentence}"


def test_a_mistake_in_the_servers_of_the_chosen_context(file: Path) -> None:
    file.write_text("contexts: {prod: {jobs: {redis: {url: 'http://:hunter2@x'}}}}")
    with pytest.raises(ConfigurationError) as caught:
        read_settings(environ={}, context="prod")
    assert str(caught.value) == (
        "jobconsole.yaml: context 'prod': jobs.redis.url: a Redis URL begins with redis://, rediss://, unix://, "
        "redis+sentinel:// or redis+cluster://, "
        "not with http://"
    )
