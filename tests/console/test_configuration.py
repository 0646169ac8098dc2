"""The console's own names for settings, above those of programs, and what it hands down to programs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from jobconsole.configuration import ConsoleConfiguration, load, without_settings
from jobconsole.settings import read_settings
from queue_core import configuration
from queue_core.errors import ConfigurationError
from tests.architecture.sources import ROOT

YAML = """
jobs:
  postgres: {url: "postgresql://app:hunter2@db/app"}
  redis: {url: "redis://localhost:6379/0", prefix: site}
  defaults: {timeout: 1m}
queue: {maxRetries: 5, retryDelay: 2s, retryBackoff: 3}
contexts:
  prod: {read_only: true, jobs: {redis: {prefix: prod}}}
"""
NOWHERE = {"XDG_CONFIG_HOME": "/nonexistent"}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def read(text: str | None = None, environ: Mapping[str, str] | None = None, **options: Any) -> ConsoleConfiguration:
    """Load a file with this text, and nothing of this machine's own environment or folders."""
    path = None
    if text is not None:
        path = Path("c.yaml")
        path.write_text(text)
    return load(path, NOWHERE | dict(environ or {}), **options)


def refusal(*arguments: Any, **options: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read(*arguments, **options)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert "hunter2" not in sentence
    return sentence


class TestSources:
    @pytest.mark.parametrize("prefix", ["JOBS__", "JOBCONSOLE_JOBS__"])
    def test_an_argument_wins_over_the_environment_and_that_over_the_file(self, prefix: str) -> None:
        environ = {f"{prefix}REDIS__PREFIX": "env", f"{prefix}DEFAULTS__LEASE": "7s"}
        assert read(YAML, environ).settings.redis.prefix == "env:"
        settings = read(YAML, environ, overrides={"jobs": {"redis": {"prefix": "flag"}}}).settings
        assert settings.redis.prefix == "flag:"
        assert settings.defaults.lease == 7
        assert settings.defaults.timeout == 60

    @pytest.mark.parametrize("name", ["MAXRETRIES", "MAX_RETRIES"])
    def test_the_environment_knows_the_short_block_too(self, name: str) -> None:
        assert read(YAML, {f"JOBCONSOLE_QUEUE__{name}": "9"}).settings.defaults.max_retries == 9

    def test_the_consoles_variable_wins_over_the_programs(self) -> None:
        environ = {"JOBS__REDIS__PREFIX": "programs", "JOBS__DEFAULTS__LEASE": "7s"}
        settings = read(environ=environ | {"JOBCONSOLE_JOBS__REDIS__PREFIX": "console"}).settings
        assert (settings.redis.prefix, settings.defaults.lease) == ("console:", 7)

    def test_an_empty_variable_is_not_set(self) -> None:
        environ = {"JOBS__REDIS__PREFIX": "programs", "JOBCONSOLE_JOBS__REDIS__PREFIX": ""}
        assert read(environ=environ).settings.redis.prefix == "programs:"
        assert read(YAML, {"JOBCONSOLE_JOBS__REDIS__PREFIX": ""}).settings.redis.prefix == "site:"

    def test_variables_that_kubernetes_makes_are_left_alone(self) -> None:
        read(environ={"JOBCONSOLE_PORT": "tcp://10.0.0.1:80", "JOBCONSOLE_SERVICE_HOST": "10.0.0.1"})

    @pytest.mark.parametrize("prefix", ["JOBS__", "JOBCONSOLE_JOBS__"])
    def test_a_context_wins_over_the_environment(self, prefix: str) -> None:
        loaded = read(YAML, {f"{prefix}REDIS__PREFIX": "env"}, context="prod")
        assert loaded.settings.redis.prefix == "prod:"
        assert loaded.contexts["prod"]["read_only"] is True
        assert read(YAML, {"JOBCONSOLE_CONTEXT": "prod"}).settings.redis.prefix == "prod:"

    def test_a_context_is_in_the_file_alone(self) -> None:
        assert read("contexts:\n").contexts == read("contexts: []").contexts == {}


class TestFiles:
    def test_the_consoles_file_is_on_top_of_the_programs(self, elsewhere: Path) -> None:
        (elsewhere / "jobs.yaml").write_text("jobs: {redis: {prefix: programs}}\nqueue: {maxRetries: 2}")
        assert load(environ=NOWHERE).settings.redis.prefix == "programs:"
        assert load(environ=NOWHERE).source is None
        (elsewhere / "jobconsole.yaml").write_text("jobs: {redis: {prefix: console}}\ncontexts: {prod: {}}")
        loaded = load(environ=NOWHERE)
        assert (loaded.settings.redis.prefix, loaded.settings.defaults.max_retries) == ("console:", 2)
        assert (loaded.source, sorted(loaded.contexts)) == (Path("jobconsole.yaml"), ["prod"])
        assert load(environ=NOWHERE | {"JOBS__REDIS__PREFIX": "env"}).settings.redis.prefix == "env:"
        assert configuration.load(environ=NOWHERE).settings.redis.prefix == "programs:", "a program knows only its own"

    def test_the_file_that_a_variable_names_for_programs(self, elsewhere: Path) -> None:
        (elsewhere / "jobs.yaml").write_text("jobs: {nonsense: 1}")
        (elsewhere / "other.yaml").write_text("jobs: {redis: {prefix: other}}")
        assert load(environ=NOWHERE | {"JOBS_CONFIG": "other.yaml"}).settings.redis.prefix == "other:"

    def test_the_file_is_looked_for_here_and_then_in_the_users_folder(self, tmp_path: Path) -> None:
        home = tmp_path / "config"
        (home / "jobconsole").mkdir(parents=True)
        (home / "jobconsole" / "jobconsole.toml").write_text("[queue]\nmaxRetries = 1\n")
        environ = {"XDG_CONFIG_HOME": str(home)}
        assert load(environ=environ).settings.defaults.max_retries == 1
        Path("jobconsole.yaml").write_text("queue: {maxRetries: 2}")
        assert load(environ=environ).settings.defaults.max_retries == 2
        Path("named.yaml").write_text("queue: {maxRetries: 4}")
        assert load(environ=environ | {"JOBCONSOLE_CONFIG": "named.yaml"}).settings.defaults.max_retries == 4

    @pytest.mark.parametrize("how", ["flag", "variable"])
    def test_a_file_that_is_named_is_read_without_the_programs(self, elsewhere: Path, how: str) -> None:
        (elsewhere / "jobs.yaml").write_text("jobs: {redis: {url: 'redis://programs'}}")
        (elsewhere / "named.yaml").write_text("jobs: {postgres: {url: 'postgresql://named/x'}}")
        environ = NOWHERE | {"JOBS_CONFIG": "jobs.yaml"}
        named = (
            load("named.yaml", environ)
            if how == "flag"
            else load(environ=environ | {"JOBCONSOLE_CONFIG": "named.yaml"})
        )
        assert named.settings.mode == "postgres"
        assert named.settings.redis.url is None

    def test_two_files_in_one_folder(self) -> None:
        for name in ("jobconsole.yaml", "jobconsole.toml"):
            Path(name).write_text("")
        assert refusal() == "jobconsole.yaml and jobconsole.toml are both there; keep one of them"

    def test_a_secret_may_stand_in_a_file_beside_the_configuration(self, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("postgresql://app:hunter2@db/app\n")
        path = tmp_path / "c.yaml"
        path.write_text("contexts: {prod: {jobs: {postgres: {url_file: secret}}}}")
        url = load(path, {}, context="prod").settings.postgres.url
        assert url is not None
        assert url.get_secret_value() == "postgresql://app:hunter2@db/app"


class TestSecrets:
    def test_nothing_shows_a_password(self) -> None:
        loaded = read(YAML)
        assert "hunter2" not in repr(loaded) + str(loaded.settings.masked())


class TestMistakes:
    @pytest.mark.parametrize(
        ("name", "sentence"),
        [
            ("JOBCONSOLE_JOBS__REDIS__ULR", "unknown key; did you mean 'JOBCONSOLE_JOBS__REDIS__URL'?"),
            ("JOBS__REDIS__ULR", "unknown key; did you mean 'JOBS__REDIS__URL'?"),
            ("JOBCONSOLE_JBOS__REDIS__URL", "unknown key; did you mean 'JOBCONSOLE_JOBS__REDIS__URL'?"),
            ("JOBCONSOLE_REDIS__URL", "unknown key; did you mean 'JOBCONSOLE_JOBS__REDIS__URL'?"),
            ("JOBCONSOLE_JOBS__DEFAULTS__MAX_RETRIES", "must be a whole number"),
            ("JOBCONSOLE_QUEUE__MAXRETRIES", "must be a whole number"),
            ("JOBS__DEFAULTS__MAXRETRIES", "must be a whole number"),
        ],
    )
    def test_a_variable_is_named_as_it_was_given(self, name: str, sentence: str) -> None:
        said = refusal(YAML, {name: "x"})
        assert said == f"environment: {name}: {sentence}"

    @pytest.mark.parametrize("name", ["JOBCONSOLE_REDIS_URL", "JOBCONSOLE_JOBS_REDIS_URL"])
    def test_a_variable_that_is_almost_a_setting_is_named_in_a_warning(
        self, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.setattr(configuration, "_warned", set())
        read(YAML, {name: "redis://:hunter2@h"})
        (record,) = caplog.records
        assert record.getMessage() == f"environment: {name} is not read; did you mean JOBCONSOLE_JOBS__REDIS__URL?"

    def test_of_two_variables_the_one_that_counts_is_named(self) -> None:
        environ = {"JOBS__DEFAULTS__LEASE": "soon", "JOBCONSOLE_JOBS__DEFAULTS__LEASE": "later"}
        assert refusal(environ=environ).startswith("environment: JOBCONSOLE_JOBS__DEFAULTS__LEASE: 'later' is no")
        assert read(environ=environ | {"JOBCONSOLE_JOBS__DEFAULTS__LEASE": "1s"}).settings.defaults.lease == 1

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("contexts: [a]", "c.yaml: contexts: must be a block of named contexts"),
            ("'1': {}", "c.yaml: 1: unknown key; known here: contexts, jobs, queue"),
            ("postgres: {url: x}", "c.yaml: postgres: unknown key; did you mean 'jobs.postgres'?"),
            ("quue: {}", "c.yaml: quue: unknown key; did you mean 'queue'?"),
            ("jobs: {redis: {ulr: x}}", "c.yaml: jobs.redis.ulr: unknown key; did you mean 'url'?"),
            ("queue: {maxRetries: 1, max_retries: 2}", "c.yaml: queue.max_retries: is given twice: 'max_retries' "
             "stands in this block already"),
        ],
    )  # fmt: skip
    def test_a_file_that_cannot_be_understood_says_where(self, text: str, sentence: str) -> None:
        assert refusal(text) == sentence

    @pytest.mark.parametrize(
        ("block", "sentence"),
        [
            ("redis: {url: x}", "redis: unknown key; did you mean 'jobs.redis'?"),
            ("colors: red", "colors: unknown key; did you mean 'colour'?"),
            ("x: 1", "x: unknown key; known here: alerts, colour, jobs, read_only, word"),
        ],
    )
    def test_a_mistake_in_a_context_says_where(self, elsewhere: Path, block: str, sentence: str) -> None:
        (elsewhere / "jobconsole.yaml").write_text(f"contexts: {{prod: {{{block}}}}}")
        with pytest.raises(ConfigurationError) as caught:
            read_settings(environ={})
        assert str(caught.value) == f"jobconsole.yaml: contexts.prod.{sentence}"

    def test_a_mistake_in_the_programs_file_names_that(self, elsewhere: Path) -> None:
        (elsewhere / "jobs.yaml").write_text("contexts: {}")
        (elsewhere / "jobconsole.yaml").write_text("contexts: {}")
        assert refusal() == "jobs.yaml: contexts: unknown key; known here: jobs, queue"

    def test_a_context_that_is_not_there(self) -> None:
        assert refusal(YAML, context="prd") == "c.yaml has no context 'prd'; did you mean 'prod'?"
        assert refusal(context="prd") == "there is no context 'prd': no configuration file was found"


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "postgres": st.fixed_dictionaries({}, optional={
        "url": st.sampled_from(["postgresql://app:p%20w@db/app", "postgresql://a,b/c?sslmode=require"]),
        "listen_url": st.sampled_from([None, "postgresql://direct/app"]),
        "timeout": st.sampled_from([3, 0.00001, "5s", "1.5h"]), "prepare": st.booleans(),
    }),
    "redis": st.fixed_dictionaries({}, optional={
        "url": st.sampled_from([None, "redis://:x@h/0", "unix:///r.sock?db=1"]),
        "prefix": st.sampled_from(["", ":", "a", "a:b:", 7]),
    }),
    "retention": st.fixed_dictionaries({}, optional={
        name: st.sampled_from([None, "never", "30d", 60, 1e-05])
        for name in ("completed", "dead", "trash", "results", "operations")
    }),
    "defaults": st.fixed_dictionaries({}, optional={
        "max_retries": st.integers(0, 9), "retry_jitter": st.floats(0, 1), "children": st.sampled_from([None, 3]),
    }),
    "queues": st.dictionaries(
        st.sampled_from(["mail", "Images", "a.b", "a__b", "größe 😀", "it's \"one\""]),
        st.fixed_dictionaries({}, optional={
            "limit": st.sampled_from([None, 0, 3]), "rate": st.sampled_from([None, "9/s", 0.001]),
            "band_limits": st.sampled_from([{}, {"high": 1}]), "fifo": st.booleans(),
        }),
    ),
}  # fmt: skip


class TestHandingDown:
    def test_a_program_reads_its_own_names_by_itself(self, elsewhere: Path) -> None:
        (elsewhere / "jobs.yaml").write_text("jobs: {redis: {prefix: programs}}")
        (elsewhere / "jobconsole.yaml").write_text("contexts: {prod: {colour: red}}")
        flags: dict[str, Any] = {"jobs": {"postgres": {}, "redis": {}}}
        assert load(environ=NOWHERE | {"JOBS__DEFAULTS__LEASE": "1s"}, overrides=flags).handed_down is None

    def test_what_only_the_console_knows_is_handed_down(self, elsewhere: Path) -> None:
        (elsewhere / "jobs.yaml").write_text("jobs: {redis: {prefix: programs, timeout: 3s}}")
        (elsewhere / "jobconsole.yaml").write_text("contexts: {prod: {jobs: {redis: {prefix: prod}}}}")
        assert load(environ=NOWHERE | {"JOBS__DEFAULTS__LEASE": "1s"}, context="prod").handed_down == {
            "JOBS_CONFIG": os.devnull,
            "JOBS__REDIS__PREFIX": "prod",
            "JOBS__REDIS__TIMEOUT": "3s",
            "JOBS__DEFAULTS__LEASE": "1s",
        }

    def test_a_named_file_keeps_programs_from_theirs(self, elsewhere: Path) -> None:
        (elsewhere / "jobs.yaml").write_text("jobs: {redis: {prefix: programs}}")
        assert read("").handed_down == {"JOBS_CONFIG": os.devnull}

    def test_a_secret_is_handed_down_by_the_path_of_its_file(self, tmp_path: Path) -> None:
        """The service replaces its processes; a password that was changed meanwhile is read by the new ones."""
        (tmp_path / "secret").write_text("postgresql://app:hunter2@db/app\n")
        path = tmp_path / "c.yaml"
        path.write_text("jobs: {postgres: {url_file: secret, listen_url: 'postgresql://direct/app'}}")
        assert load(path, NOWHERE).handed_down == {
            "JOBS_CONFIG": os.devnull,
            "JOBS__POSTGRES__URL_FILE": str(tmp_path / "secret"),
            "JOBS__POSTGRES__LISTEN_URL": "postgresql://direct/app",
        }
        flag = load(path, NOWHERE, {"jobs": {"postgres": {"url": "postgresql://flag/x"}}}).handed_down
        assert flag is not None
        assert flag["JOBS__POSTGRES__URL"] == "postgresql://flag/x"
        assert "JOBS__POSTGRES__URL_FILE" not in flag

    @given(jobs=st.fixed_dictionaries({}, optional=VALUES), flags=st.fixed_dictionaries({}, optional=VALUES))
    def test_a_program_reads_the_same_settings(self, jobs: dict[str, Any], flags: dict[str, Any]) -> None:
        Path("c.yaml").write_text(yaml.safe_dump({"jobs": jobs}))
        loaded = load("c.yaml", NOWHERE, {"jobs": flags})
        assert loaded.handed_down is not None
        assert configuration.load(environ=loaded.handed_down).settings == loaded.settings


def test_an_environment_without_settings() -> None:
    names = {
        "JOBS_CONFIG",
        "JOBS__REDIS__URL",
        "JOBCONSOLE_CONFIG",
        "JOBCONSOLE_CONTEXT",
        "JOBCONSOLE_JOBS__REDIS__URL",
    }
    others = {"PATH": "/bin", "JOBS_PORT": "tcp://10.0.0.1:80"}
    assert without_settings(dict.fromkeys(names, "x") | others) == others


@pytest.mark.parametrize("block", ["postgres", "redis"])
def test_a_server_that_is_named_is_not_replaced_by_a_local_file(block: str) -> None:
    """A change that was meant for it would go to the file otherwise."""
    environ = {"JOBS__QUEUE_BACKEND": "sqlite", "JOBS__SQLITE__PATH": "jobs.db"}
    named = {"jobs": {block: {"url": "postgresql://db/app" if block == "postgres" else "redis://cache/0"}}}
    with pytest.raises(ConfigurationError, match=r"was given, and jobs\.queue_backend is 'sqlite', which uses none"):
        read_settings(environ=environ, overrides=named)
    assert read_settings(environ=environ, overrides={"jobs": {block: {}}}).jobs.mode == "sqlite"


def test_the_files_of_the_documentation_are_understood() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text()
    ours, console, *_ = re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    Path("jobs.yaml").write_text(ours)
    Path("jobconsole.yaml").write_text(console)
    programs = configuration.load(environ=NOWHERE).settings
    assert (programs.mode, programs.redis.prefix, programs.queues["images"].rate) == ("postgres+redis", "jobs:", 100)
    assert (programs.rules["mail"].band_limits.low, programs.rules["images"].retry_after) == (50, 60)
    settings = load(environ=NOWHERE).settings
    assert (settings.redis.timeout, settings.queues) == (5, programs.queues)
    assert load(environ=NOWHERE, context="prod").contexts["prod"]["word"] == "PRODUCTION"
