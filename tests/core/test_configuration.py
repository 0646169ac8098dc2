"""Where the settings of programs come from, which place wins, and what a mistake says."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from queue_core import configuration
from queue_core.configuration import LoadedSettings, load
from queue_core.errors import ConfigurationError

YAML = """
jobs:
  postgres: {url: "postgresql://app:hunter2@db/app"}
  redis: {url: "redis://localhost:6379/0", prefix: site}
  defaults: {timeout: 1m}
queue: {maxRetries: 5, retryDelay: 2s, retryBackoff: 3}
"""

PROGRAM = """
from queue_core import JobQueue
settings = JobQueue.from_settings().settings
print(settings.mode, settings.sqlite.path, settings.defaults.lease)
"""


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def read(
    text: str | None = None, environ: Mapping[str, str] | None = None, name: str = "c.yaml", **options: Any
) -> LoadedSettings:
    """Load a file with this text, and nothing of this machine's own environment or folders."""
    path = None
    if text is not None:
        path = Path(name)
        path.write_text(text)
    nowhere = {"XDG_CONFIG_HOME": "/nonexistent"}
    return load(path=path, environ=nowhere | dict(environ or {}), **options)


def refusal(*arguments: Any, **options: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        read(*arguments, **options)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert "hunter2" not in sentence
    return sentence


class TestSources:
    def test_without_any_the_defaults_hold(self) -> None:
        loaded = read()
        assert loaded.source is None
        assert loaded.settings.mode == "postgres"
        assert loaded.settings.defaults.max_retries == 3

    def test_a_file_is_read(self) -> None:
        settings = read(YAML).settings
        assert settings.mode == "postgres+redis"
        assert settings.redis.prefix == "site:"
        assert settings.defaults.timeout == 60
        assert settings.defaults.max_retries == 5
        assert settings.defaults.retry_delay == 2
        assert settings.defaults.retry_backoff == 3

    def test_toml_says_the_same(self) -> None:
        text = '[jobs.redis]\nurl = "unix:///r.sock?db=1"\n[queue]\nmaxRetries = 1\n'
        settings = read(text, name="c.toml").settings
        assert settings.queue_backend == "redis"
        assert settings.defaults.max_retries == 1

    def test_the_environment_wins_over_the_file(self) -> None:
        settings = read(YAML, {"JOBS__REDIS__PREFIX": "env", "JOBS__DEFAULTS__LEASE": "7s"}).settings
        assert settings.redis.prefix == "env:"
        assert settings.defaults.lease == 7
        assert settings.defaults.timeout == 60

    @pytest.mark.parametrize("name", ["MAXRETRIES", "MAX_RETRIES"])
    def test_the_environment_knows_both_spellings(self, name: str) -> None:
        assert read(YAML, {f"JOBS__DEFAULTS__{name}": "9"}).settings.defaults.max_retries == 9

    def test_a_variable_may_hold_the_rules_of_all_queues(self) -> None:
        rules = read(environ={"JOBS__QUEUES": '{"Images.big": {"limit": 3}, "mail": {"rate": "9/s"}}'}).settings.queues
        assert (rules["Images.big"].limit, rules["mail"].rate) == (3, 9)
        assert read(environ={"JOBS__QUEUES__MAIL__LIMIT": "4"}).settings.queues["mail"].limit == 4

    def test_the_names_of_other_programs_are_not_read(self) -> None:
        environ = {"JOBSTER_JOBS__REDIS__URL": "redis://x", "QUEUE__MAXRETRIES": "7", "JOBS_REDIS__URL": "redis://x"}
        assert read(environ=environ).settings == read().settings

    def test_an_empty_variable_is_not_set(self) -> None:
        assert read(YAML, {"JOBS__REDIS__PREFIX": ""}).settings.redis.prefix == "site:"

    def test_variables_that_kubernetes_makes_are_left_alone(self) -> None:
        read(environ={"JOBS_PORT": "tcp://10.0.0.1:80", "JOBS_SERVICE_HOST": "10.0.0.1"})

    def test_the_file_is_looked_for_here_and_then_in_the_users_folder(self, tmp_path: Path) -> None:
        home = tmp_path / "config"
        (home / "jobs").mkdir(parents=True)
        (home / "jobs" / "jobs.toml").write_text("[queue]\nmaxRetries = 1\n")
        environ = {"XDG_CONFIG_HOME": str(home)}
        assert load(environ=environ).settings.defaults.max_retries == 1
        Path("jobs.yaml").write_text("queue: {maxRetries: 2}")
        assert load(environ=environ).settings.defaults.max_retries == 2
        Path("named.yaml").write_text("queue: {maxRetries: 4}")
        assert load(environ=environ | {"JOBS_CONFIG": "named.yaml"}).settings.defaults.max_retries == 4

    def test_a_secret_may_stand_in_a_file_beside_the_configuration(self, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("postgresql://app:hunter2@db/app\n")
        path = tmp_path / "c.yaml"
        path.write_text("jobs: {postgres: {url_file: secret}}")
        url = load(path=path, environ={}).settings.postgres.url
        assert url is not None
        assert url.get_secret_value() == "postgresql://app:hunter2@db/app"
        environ = {"JOBS__POSTGRES__URL_FILE": str(tmp_path / "secret")}
        assert read(environ=environ).settings.postgres.url == url

    def test_an_empty_file_and_empty_blocks_are_nothing(self) -> None:
        assert read("").settings == read("jobs:\n  redis:\nqueue:\n").settings == read().settings

    @pytest.mark.parametrize("variable", [True, False])
    def test_a_program_that_uses_a_queue_without_the_console(self, elsewhere: Path, variable: bool) -> None:
        """As a process, beside settings of the console, which are not its own."""
        names = {"XDG_CONFIG_HOME": "/nonexistent", "JOBS__DEFAULTS__LEASE": "7s"}
        (elsewhere / ("named.yaml" if variable else "jobs.yaml")).write_text("jobs: {sqlite: {path: here.db}}")
        (elsewhere / "jobconsole.yaml").write_text("jobs: {sqlite: {path: console.db}, nonsense: 1}")
        names |= {"JOBCONSOLE_JOBS__DEFAULTS__LEASE": "1s", "JOBCONSOLE_CONFIG": "jobconsole.yaml"}
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=os.environ | names | ({"JOBS_CONFIG": "named.yaml"} if variable else {}),
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "sqlite here.db 7.0\n"


class TestSecrets:
    def test_nothing_shows_a_password(self) -> None:
        loaded = read(YAML)
        assert "hunter2" not in repr(loaded) + str(loaded.settings.masked())
        assert loaded.settings.masked()["postgres"]["url"] == "postgresql://app:***@db/app"


class TestNamesThatAreNotRead:
    """A warning, and no error: what begins with JOBS_ may be another program's."""

    @pytest.fixture(autouse=True)
    def first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """As in a process that has read no settings yet."""
        monkeypatch.setattr(configuration, "_warned", set())

    @pytest.mark.parametrize(
        ("name", "meant"),
        [
            ("JOBS_POSTGRES_URL", "JOBS__POSTGRES__URL"),
            ("JOBS_REDIS_URL", "JOBS__REDIS__URL"),
            ("JOBS_REDIS__URL", "JOBS__REDIS__URL"),
            ("JOBS_REDIS_URL_FILE", "JOBS__REDIS__URL_FILE"),
            ("JOBS_QUEUE_BACKEND", "JOBS__QUEUE_BACKEND"),
            ("JOBS_DEFAULTS_MAX_RETRIES", "JOBS__DEFAULTS__MAX_RETRIES"),
            ("jobs__redis__url", "JOBS__REDIS__URL"),
        ],
    )
    def test_one_that_is_almost_a_setting_is_named_once(
        self, name: str, meant: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        for _ in range(2):
            assert read(environ={name: "redis://:hunter2@h"}).settings == read().settings
        assert [record.getMessage() for record in caplog.records] == [
            f"environment: {name} is not read; did you mean {meant}?"
        ]

    def test_those_of_others_and_of_settings_that_are_given_properly_are_not(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        others = ("PORT", "SERVICE_HOST", "REDIS_PORT", "REDIS_SERVICE_HOST", "URL", "NONSENSE", "CONFIG")
        read(environ={f"JOBS_{name}": "/dev/null" for name in others} | {"JOBS_REDIS_URL": ""})
        read(environ={"JOBS_REDIS_URL": "redis://old", "JOBS__REDIS__URL": "redis://h"})
        assert not caplog.records


class TestMistakes:
    def test_an_unknown_key_names_file_key_and_the_nearest(self) -> None:
        assert refusal("jobs: {redis: {ulr: x}}") == "c.yaml: jobs.redis.ulr: unknown key; did you mean 'url'?"
        assert refusal("quue: {}") == "c.yaml: quue: unknown key; did you mean 'queue'?"
        sentence = refusal(environ={"JOBS__REDIS__ULR": "x"})
        assert sentence == "environment: JOBS__REDIS__ULR: unknown key; did you mean 'JOBS__REDIS__URL'?"
        assert refusal("contexts: {prod: {}}") == "c.yaml: contexts: unknown key; known here: jobs, queue"
        assert refusal("1: {}") == "c.yaml, line 1: the key 1 is no text for YAML; put it in quotes"

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("{images: {limti: 3}}", "jobs.queues.images.limti: unknown key; did you mean 'limit'?"),
            ("{a.b: {band_limits: {hihg: 3}}}", "jobs.queues.a.b.band_limits.hihg: unknown key; did you mean 'high'?"),
            ("{images: 3}", "jobs.queues.images: must be a block of keys, not a single value"),
            ("{images: {limit: many}}", "jobs.queues.images.limit: must be a whole number"),
            ("{images: {rate: fast}}", "jobs.queues.images.rate: 'fast' is no rate; write for example 100/s, 90/m or "
             "1000/h"),
            ("{'a{b': {limit: 1}}", "jobs.queues.a{b: the queue's name cannot hold braces, unseen characters or "
             "spaces at its ends: 'a{b'"),
        ],
    )  # fmt: skip
    def test_within_the_rules_of_a_queue(self, text: str, sentence: str) -> None:
        assert refusal(f"jobs: {{queue_backend: memory, queues: {text}}}") == f"c.yaml: {sentence}"

    def test_the_rules_of_a_queue_in_their_spellings(self) -> None:
        rules = read("jobs: {queue_backend: memory, queues: {Images: {bandLimits: {high: 1}, DEAD_BLOCKS_KEY: true}}}")
        assert rules.settings.queues["Images"].band_limits.high == 1
        assert rules.settings.queues["Images"].dead_blocks_key

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("jobs: {defaults: {max_retries: many}}", "jobs.defaults.max_retries: must be a whole number"),
            ("queue: {retryDelay: soon}", "jobs.defaults.retry_delay: 'soon' is no duration; write seconds, or for "
             "example 500ms, 5s, 5m, 1h, 7d"),
            ("queue: {retryDelay: -5s}", "jobs.defaults.retry_delay: a duration cannot be negative or infinite: '-5s'"),
            ("queue: {maxRetries: -1}", "jobs.defaults.max_retries: must be greater than or equal to 0"),
            ("jobs: {queue_backend: mongo}", "jobs.queue_backend: must be 'redis', 'postgres', 'sqlite' or 'memory'"),
            ("jobs: 3", "jobs: must be a block of keys, not a single value"),
            ("jobs: {postgres: {url: 'mysql://a:hunter2@h'}}", "jobs.postgres.url: a PostgreSQL URL begins with "
             "postgresql:// or postgres://, not with mysql://"),
            ("jobs: {postgres: {url: 7}}", "jobs.postgres.url: must be text"),
            ("jobs: {redis: {prefix: 'a{b'}}", "jobs.redis.prefix: a prefix cannot contain { or }: the queue's name "
             "stands in braces, as the hash tag"),
            ('jobs: {redis: {prefix: "a\\nb"}}', "jobs.redis.prefix: a prefix cannot contain unseen characters, nor "
             "begin or end with a blank"),
            ("jobs: {redis: {prefix: ' '}}", "jobs.redis.prefix: a prefix cannot contain unseen characters, nor "
             "begin or end with a blank"),
            ("jobs: {redis: {timeout: 0}}", "jobs.redis.timeout: must be greater than 0"),
            ("jobs: {postgres: {timeout: 0s}}", "jobs.postgres.timeout: must be greater than 0"),
            ("jobs: {sqlite: {timeout: 0}}", "jobs.sqlite.timeout: must be greater than 0"),
            ("jobs: {defaults: {lease: 9999999999}}", "jobs.defaults.lease: must be less than or equal to 3162240000"),
            (
                "jobs: {retention: {completed: 3500000d}}",
                "jobs.retention.completed: '3500000d' is more than 100 years; write never",
            ),
            (
                "jobs: {queues: {a: {concurrency: 3000000000}}}",
                "jobs.queues.a.concurrency: must be less than or equal to 2147483647",
            ),
            (
                "jobs: {queues: {a: {bandLimits: {high: 3000000000}}}}",
                "jobs.queues.a.band_limits.high: must be less than or equal to 2147483647",
            ),
        ],
    )  # fmt: skip
    def test_a_value_that_does_not_fit_names_its_source_and_key(self, text: str, sentence: str) -> None:
        assert refusal(text) == f"c.yaml: {sentence}"

    def test_a_value_of_the_environment_is_named_by_its_variable(self) -> None:
        sentence = refusal(YAML, {"JOBS__DEFAULTS__MAX_RETRIES": "many"})
        assert sentence == "environment: JOBS__DEFAULTS__MAX_RETRIES: must be a whole number"
        sentence = refusal(YAML, {"JOBS__DEFAULTS__MAXRETRIES": "many"})
        assert sentence == "environment: JOBS__DEFAULTS__MAXRETRIES: must be a whole number", "as it was written"

    @pytest.mark.parametrize(
        ("text", "variables", "sentence"),
        [
            ("{lease: 5m, heartbeat: 10m}", {}, "c.yaml: jobs.defaults.heartbeat: the heartbeat (600 s) must be at "
             "most half of jobs.defaults.lease (300 s)"),
            ("{heartbeat: 10m}", {}, "c.yaml: jobs.defaults.heartbeat: the heartbeat (600 s) must be at most half of "
             "jobs.defaults.lease (300 s)"),
            ("{heartbeat: 10s}", {"LEASE": "15s"}, "c.yaml: jobs.defaults.heartbeat: the heartbeat (10 s) must be at "
             "most half of jobs.defaults.lease (15 s)"),
            ("{lease: 10m}", {"HEARTBEAT": "6m"}, "environment: JOBS__DEFAULTS__HEARTBEAT: the heartbeat (360 s) must "
             "be at most half of jobs.defaults.lease (600 s)"),
            ("{lease: 500ms}", {}, "c.yaml: jobs.defaults.lease: must be greater than or equal to 1"),
            ("{heartbeat: 0}", {}, "c.yaml: jobs.defaults.heartbeat: must be greater than 0"),
        ],
    )  # fmt: skip
    def test_a_heartbeat_that_comes_too_late_for_the_lease(
        self, text: str, variables: dict[str, str], sentence: str
    ) -> None:
        environ = {f"JOBS__DEFAULTS__{name}": value for name, value in variables.items()}
        assert refusal(f"jobs: {{defaults: {text}}}", environ) == sentence

    def test_a_heartbeat_that_is_left_out_follows_the_lease(self) -> None:
        assert read("jobs: {defaults: {lease: 10s}}").settings.defaults.heartbeat == 2
        assert read("jobs: {defaults: {lease: 10s, heartbeat: 5s}}").settings.defaults.heartbeat == 5
        assert read().settings.defaults.heartbeat == 60

    def test_a_secret_of_a_file_is_named_by_the_variable_of_the_file(self, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("mysql://app:hunter2@db/app\n")
        sentence = refusal(environ={"JOBS__POSTGRES__URL_FILE": str(tmp_path / "secret")})
        assert sentence.startswith("environment: JOBS__POSTGRES__URL_FILE: a PostgreSQL URL begins with ")

    @pytest.mark.parametrize(
        ("environ", "sentence"),
        [
            ({"REDIS": "x"}, "JOBS__REDIS: must be a block of keys, not a single value"),
            ({"REDIS": "x", "REDIS__URL": "y"}, "JOBS__REDIS__URL goes on below a variable that is a value itself"),
            ({"DEFAULTS__MAXRETRIES": "1", "DEFAULTS__MAX_RETRIES": "1"}, "JOBS__DEFAULTS__MAX_RETRIES: is given "
             "twice: 'max_retries' stands in this block already"),
            ({"POSTGRES__URL": "x", "POSTGRES__URL_FILE": "y"}, "JOBS__POSTGRES__URL_FILE: is given twice: 'url' "
             "stands in this block already"),
            ({"REDIS_URL": "redis://h"}, "JOBS__REDIS_URL: unknown key; did you mean 'JOBS__REDIS__URL'?"),
            ({"POSTGERS__URL": "x"}, "JOBS__POSTGERS__URL: unknown key; did you mean 'JOBS__POSTGRES__URL'?"),
            ({"QUEUES__MAIL__BAND_LIMITS__HIHG": "1"}, "JOBS__QUEUES__MAIL__BAND_LIMITS__HIHG: unknown key; did you "
             "mean 'JOBS__QUEUES__MAIL__BAND_LIMITS__HIGH'?"),
            ({"DEFAULTS__FOO": "1"}, "JOBS__DEFAULTS__FOO: unknown key; known here: children, heartbeat, lease, "
             "max_losses, max_retries, retry_backoff, retry_cap, retry_delay, retry_jitter, stall, timeout"),
            ({"": "x"}, "JOBS__: unknown key; known here: defaults, limits, postgres, queue_backend, queues, redis, "
             "release, retention, sqlite, triage"),
            ({"QUEUES": "many"}, "JOBS__QUEUES: must be a valid dictionary"),
            ({"QUEUES": "{"}, "JOBS__QUEUES, line 1: not valid YAML: expected the node content, but found "
             "'<stream end>'"),
            ({"QUEUES": "{a: {}, a: {}}"}, "JOBS__QUEUES, line 1: the key 'a' stands twice in one block"),
            ({"QUEUES": "{Mail: {limti: 3}}"}, "JOBS__QUEUES: Mail.limti: unknown key; did you mean 'limit'?"),
            ({"QUEUES": "{Mail: {limit: many}}"}, "JOBS__QUEUES: Mail.limit: must be a whole number"),
            ({"QUEUES__MAIL__LIMIT": "many"}, "JOBS__QUEUES__MAIL__LIMIT: must be a whole number"),
            ({"POSTGRES__TIMEOUT": "99999999999"}, "JOBS__POSTGRES__TIMEOUT: must be less than or equal to 86400"),
            ({"REDIS__TIMEOUT": "2d"}, "JOBS__REDIS__TIMEOUT: must be less than or equal to 86400"),
            ({"SQLITE__TIMEOUT": "2d"}, "JOBS__SQLITE__TIMEOUT: must be less than or equal to 86400"),
        ],
    )  # fmt: skip
    def test_a_mistake_in_the_environment_names_the_variable(self, environ: dict[str, str], sentence: str) -> None:
        said = refusal(environ={f"JOBS__{name}": value for name, value in environ.items()})
        assert said == f"environment: {sentence}"

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("jobs: {a: 1", "c.yaml, line 1: not valid YAML: expected ',' or '}', but got '<stream end>'"),
            ("- 1", "c.yaml: must hold a block of keys, such as 'jobs:'"),
            ("queue:\n  maxRetries: 1\n  maxRetries: 2\n", "c.yaml, line 3: the key 'maxRetries' stands twice in one "
             "block"),
            ("jobs:\n  queues:\n    yes: {limit: 1}\n", "c.yaml, line 3: the key yes is no text for YAML; put "
             "it in quotes"),
            ("jobs: {queues: {012: {limit: 1}}}", "c.yaml, line 1: the key 012 is no text for YAML; put "
             "it in quotes"),
            ("jobs: {queues: {2026-01-01: {limit: 1}}}", "c.yaml, line 1: the key 2026-01-01 is no text for YAML; "
             "put it in quotes"),
            ("queue: {maxRetries: 1, max_retries: 2}", "c.yaml: queue.max_retries: is given twice: 'max_retries' "
             "stands in this block already"),
            ("queue: {maxRetries: 1}\njobs: {defaults: {max_retries: 2}}", "c.yaml: queue.max_retries: is given under "
             "jobs.defaults as well; keep one of them"),
        ],
    )  # fmt: skip
    def test_a_file_that_cannot_be_understood_says_where(self, text: str, sentence: str) -> None:
        assert refusal(text) == sentence

    def test_files_that_cannot_be_read(self, elsewhere: Path) -> None:
        with pytest.raises(ConfigurationError, match=r"cannot read nosuch\.yaml: No such file"):
            load(path="nosuch.yaml", environ={})
        with pytest.raises(ConfigurationError, match="Is a directory"):
            load(path=elsewhere, environ={})
        assert "not valid TOML" in refusal("[jobs.redis]\nurl=", name="c.toml")
        sentence = refusal("jobs: {postgres: {url_file: /nosuch}}")
        assert sentence == "c.yaml: jobs.postgres.url_file: cannot read /nosuch: No such file or directory"
        Path("latin.yaml").write_bytes(b"queue: \xe4")
        with pytest.raises(ConfigurationError, match="is not UTF-8 text"):
            load(path="latin.yaml", environ={})

    def test_a_current_directory_that_is_gone_is_named(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (gone := tmp_path / "gone").mkdir()
        monkeypatch.chdir(gone)
        gone.rmdir()
        with pytest.raises(ConfigurationError, match="the current directory cannot be used: No such file or directory"):
            load(environ={"JOBS__QUEUE_BACKEND": "redis"})

    def test_two_files_in_one_folder(self) -> None:
        for name in ("jobs.yaml", "jobs.toml"):
            Path(name).write_text("")
        assert refusal() == "jobs.yaml and jobs.toml are both there; keep one of them"


@pytest.mark.parametrize("end", ["", "  # ours", "\r"])
def test_a_prefix_may_end_in_a_colon_without_quotes(end: str) -> None:
    """As prefixes of Redis are written elsewhere; YAML itself refuses it."""
    jobs = f"""
jobs:
  queue_backend: redis
  redis:
    url: redis://localhost:6379/0
    prefix: silo:jobs:{end}
    timeout: 3s
"""
    settings = read(jobs).settings
    assert settings.queue_backend == "redis"
    assert settings.redis.prefix == read(jobs.replace("silo:jobs:", '"silo:jobs:"')).settings.redis.prefix
    assert settings.redis.prefix.startswith("silo:jobs")
    assert settings.redis.timeout == 3.0


@pytest.mark.parametrize("line", ["prefix: a: b", "timeout: 3s:", "prefix: [a:"])
def test_other_colons_are_still_a_mistake(line: str) -> None:
    with pytest.raises(ConfigurationError, match="not valid YAML"):
        read(f"jobs:\n  queue_backend: redis\n  redis:\n    {line}\n")


@pytest.mark.parametrize(
    ("places", "days"),
    [
        ("redis: {url: redis://h}", 1),
        ("redis: {url: redis://h}\n  retention: {completed: 3d}", 3),
        ("redis: {url: redis://h}\n  postgres: {url: postgresql://h/db}", 7),
        ("sqlite: {path: jobs.db}", 7),
    ],
)
def test_how_long_finished_jobs_are_kept(places: str, days: int) -> None:
    """In mode redis, which keeps all of them in memory, for a day unless something else is set."""
    backend = places.partition(":")[0]
    retention = read(f"jobs:\n  queue_backend: {backend}\n  {places}\n").settings.retention
    day = 86400.0
    kept = (retention.completed, retention.dead, retention.trash, retention.results, retention.operations)
    assert kept == (days * day, None, 30 * day, day, 90 * day)
