"""Everything a person can get wrong before a server is asked: one sentence, exit code 2, nothing on standard output."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import psycopg
import pytest

from jobconsole.cli import failures
from jobconsole.cli.parser import Parser
from jobconsole.cli.rollout import begin_at
from jobconsole.cli.root import parser_of
from queue_core.model.settings import SCHEMA
from queue_core.stores.postgres.dialect import load
from queue_core.stores.postgres.migrate import KNOWN
from queue_core.stores.sql.migrations import FIRST_VERSION
from tests.cli.running import Cli

NOWHERE = {"JOBS__POSTGRES__URL": "postgresql://app:hunter2@127.0.0.1:1/app"} | {
    "JOBS__REDIS__URL": "redis://:hunter2@127.0.0.1:1/0"
}
ENQUEUE = "see 'jobconsole job enqueue --help'"

WRONG = {
    "lst": "no command 'lst'; one of: bench, completion, contexts, demo, dlq, doctor, events, exporter, filter, "
    "health, job, migrate, op, open, queue, schedule, top, type, ui, worker",
    "jobs list": "no command 'jobs'; did you mean 'job'?",
    "job lst": "no verb 'lst'; did you mean 'list'?",
    "job": "the following arguments are required: VERB; see 'jobconsole job --help'",
    "--nosuch value job list": "unrecognized arguments: --nosuch; see 'jobconsole --help'",
    "job list --nosuch": "unrecognized arguments: --nosuch; see 'jobconsole --help'",
    "dlq retry --all --ramp 100,10": "argument --ramp: each step of a ramp has more jobs than the one before, as "
    "1,10,100 have, not 100,10; see 'jobconsole dlq retry --help'",
    "dlq retry --all --ramp 1,10,10": "argument --ramp: each step of a ramp has more jobs than the one before, as "
    "1,10,100 have, not 1,10,10; see 'jobconsole dlq retry --help'",
    "job retry --all --ramp 10,1 --dry-run": "argument --ramp: each step of a ramp has more jobs than the one before, "
    "as 1,10,100 have, not 10,1; see 'jobconsole job retry --help'",
    "job list --limit 0": "argument --limit: '0' is not a whole number from 1 to 10,000; "
    "see 'jobconsole job list --help'",
    "job list --older-than soon": "argument --older-than: 'soon' is no duration; write seconds, or for example 500ms, "
    "5s, 5m, 1h, 7d; see 'jobconsole job list --help'",
    "job list --status foo": "argument --status: no status 'foo'; one of: scheduled, queued, running, retrying, "
    "completed, cancelled, dead, pending, processing, failed, dlq",
    "job list --filter err:": "filter, character 5: 'err' has no value",
    "job list --filter :": "filter, character 1: no field before ':'; put quotes around words to search for them",
    "dlq retry --filter payload.=1": "filter, character 1: no field 'payload.'; did you mean 'payload.<path>'?",
    "job list --log-format xml": "--log-format cannot be 'xml'; one of: json, text",
    "job retry": "which jobs? give ids, a filter such as --signature or --type, or --all",
    "job retry --all 0197": "give either ids or filters, not both",
    "job retry --all --rate fast": "argument --rate: 'fast' is no rate; write for example 100/s, 90/m or 1000/h; "
    "see 'jobconsole job retry --help'",
    "dlq retry --all --begin-at 0001-01-01T00:00+14:00": "argument --begin-at: '0001-01-01T00:00+14:00' is no time; "
    "write it as in 2030-01-31T09:00:00+01:00; see 'jobconsole dlq retry --help'",
    "job retry --all --rate 0": "argument --rate: a rate is more than 0: 0.0; see 'jobconsole job retry --help'",
    "job retry --all --stop-if 101": "argument --stop-if: '101' is not a percentage from 0 to 100; "
    "see 'jobconsole job retry --help'",
    "job retry --all --canary some": "argument --canary: 'some' is not a whole number from 0 to 1,000,000; "
    "see 'jobconsole job retry --help'",
    "dlq move --all --priority 200": "argument --priority: priority must be a whole number from -128 to 127, or low, "
    "normal, high or urgent; see 'jobconsole dlq move --help'",
    "dlq move --all --to-queue a{b}": "argument --to-queue: the queue's name cannot hold braces, unseen characters or "
    "spaces at its ends: 'a{b}'; see 'jobconsole dlq move --help'",
    "worker run shop:jobs --queues ,": "argument --queues: the queue's name is a text that is not empty, not ''; "
    "see 'jobconsole worker run --help'",
    "job move --all": "where to? give --to-queue, --priority, or both",
    "op show first": "argument N: 'first' is not a whole number from 1 to 9,007,199,254,740,992; "
    "see 'jobconsole op show --help'",
    "op cancel": "the following arguments are required: N; see 'jobconsole op cancel --help'",
    "job enqueue": f"the following arguments are required: TYPE; {ENQUEUE}",
    "job enqueue t {": "the payload is not JSON: Expecting property name enclosed in double quotes at line 1 column 2",
    'job enqueue t {"a":1,"a":2}': "the payload: the key 'a' is there twice in one object, and only one value would be "
    "kept",
    'job enqueue t {"a":[{"b":1,"b":2}]}': "the payload: the key 'b' is there twice in one object, and only one value "
    "would be kept",
    "job enqueue t [1]": "the payload must be a JSON object of parameter names, not an array",
    "job enqueue t null": "the payload must be a JSON object of parameter names, not null",
    'job enqueue t {"a":NaN}': "the payload is not JSON: NaN has no JSON form",
    'job enqueue t {"a":-Infinity}': "the payload is not JSON: -Infinity has no JSON form",
    'job enqueue t {"a":1e999}': "the payload holds a number that is too large: 1e999",
    'job enqueue t {"a":[-1.5e100000]}': "the payload holds a number that is too large: -1.5e100000",
    f'job enqueue t {{"a":{"9" * 6000}}}': "the payload holds a number of more than 4,300 digits",
    r'job enqueue t {"a":"\u0000"}': "the payload holds a NUL character, which PostgreSQL cannot store",
    r'job enqueue t {"a":"\ud800"}': "the payload holds a lone surrogate, which is no Unicode text",
    "job enqueue t --at 2030-01-01T00:00:00": "run_at 2030-01-01T00:00:00 has no time zone; two machines would read it "
    "differently",
    "job enqueue t --at tomorrow": "'tomorrow' is no time; write it as in 2030-01-31T09:00:00+01:00",
    "job enqueue t --delay -5": "delay: a duration cannot be negative or infinite: '-5'",
    "job enqueue t --delay 5 --at 2030-01-01T00:00:00Z": "give either delay or run_at, not both",
    "job enqueue t --priority 200": "priority must be a whole number from -128 to 127, or low, normal, high or urgent",
    "job enqueue t --priority -129": "priority must be a whole number from -128 to 127, or low, normal, high or urgent",
    "job enqueue t --max-retries -1": f"argument --max-retries: '-1' is not a whole number from 0 to 1,000; {ENQUEUE}",
    "dlq retry --all --to-queue *": "argument --to-queue: a queue cannot be named '*', under which rules for all "
    "queues are given; see 'jobconsole dlq retry --help'",
    "job enqueue t --queue a{b}": "the queue's name cannot hold braces, unseen characters or spaces at its ends: "
    "'a{b}'",
    "exporter --port 99999": "argument --port: '99999' is not a whole number from 0 to 65,535; "
    "see 'jobconsole exporter --help'",
    "job list --postgres-url mysql://a:hunter2@h": "command line: jobs.postgres.url: a PostgreSQL URL begins with "
    "postgresql:// or postgres://, not with mysql://",
    "--redis-url redis://:hunter2@h:x job list": "command line: jobs.redis.url: the port of the Redis URL must be a "
    "number from 1 to 65535",
    "job list --prefix a{": "command line: jobs.redis.prefix: a prefix cannot contain { or }: the queue's name stands "
    "in braces, as the hash tag",
    "job list --config nosuch.yaml": "the configuration: cannot read nosuch.yaml: No such file or directory",
    "job list --context prod": "there is no context 'prod': no configuration file was found",
    "ui": "the console needs a terminal; 'jobconsole dlq groups' and 'jobconsole job list' do not",
    "": "the console needs a terminal; 'jobconsole dlq groups' and 'jobconsole job list' do not",
    "top": "the console needs a terminal; 'jobconsole top --inline' and 'jobconsole top --json' do not",
    "completion nosuch": "no shell 'nosuch'; one of: bash, fish, zsh",
    "dlq mute a1b2 --until-growth abc": "argument --until-growth: 'abc' is no number; write how many times as many, "
    "as in 10; see 'jobconsole dlq mute --help'",
    "demo --seconds never": "argument --seconds: 'never' is no duration; write seconds, or for example 500ms, 5s, 5m, "
    "1h, 7d; see 'jobconsole demo --help'",
}


@pytest.mark.parametrize(("line", "sentence"), WRONG.items(), ids=list(WRONG))
def test_a_mistake_is_one_sentence_and_exit_code_2(line: str, sentence: str) -> None:
    answer = Cli(NOWHERE)(*line.split(" ") if line else ())
    assert (answer.code, answer.out, answer.err) == (2, "", f"jobconsole: {sentence}\n")


@pytest.mark.parametrize("text", ["2030-01-01", "20300101", "2030-W01-1", "2030-01-01 09:00", "2030-01-01T09:00:00.5"])
def test_the_advice_about_a_time_without_a_zone_can_be_taken(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match=" has no time zone; add one, as in ") as refused:
        begin_at(text)
    advised = str(refused.value).rpartition(" as in ")[2]
    assert begin_at(advised).replace(tzinfo=None) == datetime.fromisoformat(text)


def test_an_empty_name_and_one_that_a_terminal_would_obey(alone: Cli) -> None:
    cli = Cli(NOWHERE)
    assert cli("job", "enqueue", "").err == f"jobconsole: argument TYPE: it needs a value, and '' is none; {ENQUEUE}\n"
    answer = cli("job", "enqueue", "t", "--queue", "a\x1b[2Jb")
    assert (answer.code, "\x1b" in answer.err) == (2, False)


@pytest.mark.parametrize("blank", ["", "  "])
@pytest.mark.parametrize(
    "line",
    ["exporter --type", "exporter --host", "dlq delete --yes --filter", "queue list --context", "events --queue"],
)
def test_a_variable_that_is_not_set_does_not_choose_everything(line: str, blank: str) -> None:
    answer = Cli(NOWHERE)(*line.split(" "), blank)
    option = line.rpartition(" ")[2]
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"jobconsole: argument {option}: it needs a value, and '{blank}' is none; see ")


def parsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield a parser and those of its nouns and verbs."""
    yield parser
    if isinstance(parser, Parser):
        parser.declare()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                yield from parsers(one)


def test_no_option_of_any_verb_takes_an_empty_value_but_these() -> None:
    """Those with a type of their own read it themselves, and refuse it."""
    taken: set[str] = set()
    for parser in parsers(parser_of()):
        for action in parser._actions:
            if action.nargs == 0 or action.choices is not None:
                continue
            try:
                parser._get_value(action, "")
                taken.add(action.dest)
            except argparse.ArgumentError:
                pass
    assert taken == {"why"}


def test_every_command_takes_the_option_that_an_internal_error_advises() -> None:
    runs = [one for one in parsers(parser_of()) if one.get_default("run") is not None]
    assert len(runs) > 50
    assert [one.prog for one in runs if "--debug" not in one._option_string_actions] == []


def test_a_payload_that_is_too_large_is_refused_with_the_sizes() -> None:
    answer = Cli(NOWHERE)("job", "enqueue", "t", "-", stdin='{"a":"%s"}' % ("x" * 1_100_000))
    assert answer.code == 2
    assert answer.err == "jobconsole: the payload has 1,100,008 bytes; the limit is 1,048,576\n"
    answer = Cli(NOWHERE)("job", "enqueue", "t", "-", stdin="x" * 7_000_000)
    assert answer.err == "jobconsole: the payload has more than 6,291,456 bytes; the limit is 1,048,576\n"
    answer = Cli(NOWHERE)("job", "enqueue", "t", "-", stdin="[" * 200_000)
    assert answer.err == "jobconsole: the payload is not JSON: it is nested too deeply\n"


def test_without_servers_it_says_how_to_name_them(alone: Cli) -> None:
    for line in (["job", "list"], ["doctor"], ["exporter"]):
        answer = alone(*line)
        assert answer.code == 2
        assert answer.err.startswith("jobconsole: no servers are configured: give --postgres-url and --redis-url, ")
    assert alone("migrate").err.startswith("jobconsole: no PostgreSQL is configured: give --postgres-url, ")


def test_a_variable_that_is_almost_a_setting_is_named(elsewhere: Path) -> None:
    """As a process, which sends warnings where a program sends them that has set up no log."""
    environ = {"JOBS_POSTGRES_URL": "postgresql://app:hunter2@db/app", "JOBS__SQLITE__PATH": str(elsewhere / "jobs.db")}
    answer = Cli(environ).process("migrate", "--dry-run")
    assert (answer.code, answer.err) == (
        0,
        "jobconsole: warning: environment: JOBS_POSTGRES_URL is not read; did you mean JOBS__POSTGRES__URL?\n",
    )


def test_the_memory_of_another_process_cannot_be_reached() -> None:
    answer = Cli({"JOBS__QUEUE_BACKEND": "memory"})("job", "list")
    assert answer.code == 2
    assert "lives inside one process" in answer.err


def test_a_typo_in_the_file_names_file_key_and_the_nearest(elsewhere: Path, alone: Cli) -> None:
    (elsewhere / "jobconsole.yaml").write_text("jobs: {redis: {ulr: 'redis://:hunter2@h'}}")
    answer = alone("job", "list")
    assert (answer.code, answer.err) == (
        2,
        "jobconsole: jobconsole.yaml: jobs.redis.ulr: unknown key; did you mean 'url'?\n",
    )


@pytest.mark.parametrize(
    "line", ["job list", "job enqueue t", "migrate", "doctor", "worker run m:jobs", "exporter", "ui"]
)
def test_a_heartbeat_that_comes_too_late_for_the_lease_is_refused_by_every_command(alone: Cli, line: str) -> None:
    environ = {"JOBS__QUEUE_BACKEND": "sqlite", "JOBS__DEFAULTS__LEASE": "5m", "JOBS__DEFAULTS__HEARTBEAT": "10m"}
    answer = Cli(alone.environ | environ)(*line.split(" "))
    sentence = "the heartbeat (600 s) must be at most half of jobs.defaults.lease (300 s)"
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"jobconsole: environment: JOBS__DEFAULTS__HEARTBEAT: {sentence}\n"


REFUSED = {
    "dlq delete --all": "refused to delete jobs without --yes, since standard input is no terminal to ask at",
    "dlq purge --all": "refused to purge jobs without --yes, since standard input is no terminal to ask at",
    "job cancel --type t": "refused to cancel jobs without --yes, since standard input is no terminal to ask at",
    "worker stop w": "refused to stop workers without --yes, since standard input is no terminal to ask at",
    "--read-only job enqueue t": "'job enqueue' was refused: this connection is read-only",
    "dlq retry --all --read-only": "'dlq retry' was refused: this connection is read-only",
    "queue pause q --read-only": "'queue pause' was refused: this connection is read-only",
    "worker quiet w --read-only": "'worker quiet' was refused: this connection is read-only",
    "worker run m:jobs --read-only": "'worker run' was refused: this connection is read-only",
    "migrate --read-only": "'migrate' was refused: this connection is read-only",
}


@pytest.mark.parametrize(("line", "sentence"), REFUSED.items(), ids=list(REFUSED))
def test_what_is_refused_is_exit_code_5(line: str, sentence: str) -> None:
    answer = Cli(NOWHERE)(*line.split(" "))
    assert (answer.code, answer.out, answer.err) == (5, "", f"jobconsole: {sentence}\n")


@pytest.mark.parametrize(
    "line",
    ["job list", "job enqueue t", "dlq groups", "dlq retry --all", "queue list", "worker list", "migrate", "events"],
)
def test_servers_that_are_down_are_exit_code_3(line: str) -> None:
    answer = Cli(NOWHERE)(*line.split(" "))
    assert (answer.code, answer.out) == (3, "")
    assert answer.err.startswith("jobconsole: postgres cannot be reached: ")
    assert answer.err.count("\n") == 1
    assert "hunter2" not in answer.err
    assert "Traceback" not in answer.err


def test_redis_alone_being_down_stops_only_what_needs_it(cli: Cli) -> None:
    down = Cli(cli.environ | {"JOBS__REDIS__URL": NOWHERE["JOBS__REDIS__URL"]})
    assert down("job", "enqueue", "t").code == 0
    assert len(down("job", "list", "--json").body["jobs"]) == 1
    answer = down("events")
    assert (answer.code, answer.err.startswith("jobconsole: redis cannot be reached: ")) == (3, True)


class TestSchema:
    def test_a_missing_schema_says_what_to_run(self, empty_postgres_url: str, redis_url: str) -> None:
        cli = Cli({"JOBS__POSTGRES__URL": empty_postgres_url, "JOBS__REDIS__URL": redis_url})
        for line in (["job", "list"], ["job", "enqueue", "t"], ["queue", "list"]):
            answer = cli(*line)
            assert (answer.code, answer.out) == (3, "")
            assert answer.err == "jobconsole: the database has no schema 'jobconsole'; run 'jobconsole migrate'\n"
        assert cli("migrate", "--dry-run", "--read-only").out == f"would make the schema, version {KNOWN}\n"
        pending = list(range(FIRST_VERSION, KNOWN + 1))
        body = {"version": 1, "dry_run": True, "pending": pending, "schema": 0}
        assert cli("migrate", "--dry-run", "--json").body == body
        assert cli("migrate").out == f"made the schema, version {KNOWN}\n"
        assert cli("migrate", "--dry-run").out == f"nothing to do; the schema is {KNOWN}\n"
        assert cli("migrate").out == f"nothing to do; the schema is {KNOWN}\n"
        assert cli("migrate", "--json").body == {"version": 1, "applied": [], "schema": KNOWN}
        assert cli("job", "list").code == 0

    def test_a_wrong_name_is_named_with_the_schemas_that_are_there(self, cli: Cli, postgres_url: str) -> None:
        sentence = "the database has no schema 'jobconsol', but 'jobconsole'"
        advice = "correct jobs.postgres.schema (--schema), or make another store with 'jobconsole migrate'"
        for line in ("job list", "job enqueue t", "queue pause mail --yes"):
            answer = cli("--schema", "jobconsol", *line.split())
            assert answer.code == 3, line
            assert f"{sentence}; {advice}\n" in answer.err, line
        answer = cli("--schema", "jobconsol", "health", "--json")
        assert (answer.code, answer.body["reason"]) == (1, f"{sentence}; {advice}")
        checks = cli("--schema", "jobconsol", "doctor", "--json").body["checks"]
        assert [(one["said"], one["advice"]) for one in checks if one["name"] == "schema"] == [(sentence, advice)]
        with psycopg.connect(postgres_url) as hand:
            assert hand.execute("SELECT to_regnamespace('jobconsol')").fetchall() == [(None,)]

    def test_a_schema_beside_others_is_made_and_they_are_named(self, cli: Cli, postgres_url: str) -> None:
        sentence = (
            "jobconsole: warning: the database holds other schemas of this program, too: 'jobconsole'; "
            "if one was meant, correct --schema\n"
        )
        answer = cli("--schema", "jobconsol", "migrate", "--dry-run")
        assert (answer.code, answer.out, answer.err) == (0, f"would make the schema, version {KNOWN}\n", sentence)
        assert cli("--schema", "jobconsol", "migrate", "--dry-run", "--json").body["others"] == ["jobconsole"]
        answer = cli("--schema", "jobconsol", "migrate")
        assert (answer.code, answer.out, answer.err) == (0, f"made the schema, version {KNOWN}\n", sentence)
        answer = cli("--schema", "third", "migrate", "--json")
        assert (answer.code, answer.body["others"]) == (0, ["jobconsol", "jobconsole"])
        for schema in ("jobconsol", "jobconsole"):
            answer = cli("--schema", schema, "migrate")
            assert (answer.code, answer.err) == (0, ""), "what is there already was meant"

    def test_a_newer_schema_is_refused(self, cli: Cli, postgres_url: str) -> None:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(load("migrate/record", SCHEMA), {"version": 99, "name": "from_the_future"})
        answer = cli("job", "list")
        assert answer.code == cli("migrate", "--dry-run").code == 5
        assert answer.err == (
            f"jobconsole: the database has schema 99, newer than {KNOWN} known here; upgrade this program\n"
        )


@pytest.mark.parametrize("line", [["job", "list"], ["dlq", "groups"], []], ids=" ".join)
def test_what_is_unknown_is_named_and_not_at_its_length(line: list[str]) -> None:
    answer = Cli(NOWHERE)(*line, "--nosuch" + "x" * 10_000)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("jobconsole: unrecognized arguments: --nosuchxxx")
    assert "; see 'jobconsole --help'" in answer.err
    assert len(answer.err) < 200
    answer = Cli(NOWHERE)(*line, *(f"--x{number}" for number in range(1_000)))
    assert answer.err == "jobconsole: unrecognized arguments: --x0 --x1 --x2 --x3 --x4 …; see 'jobconsole --help'\n"


def test_messages_have_neither_passwords_nor_control_characters() -> None:
    found = failures.harmless("cannot reach postgresql://app:secret@db/app\x1b[2J")
    assert "secret" not in found
    assert "\x1b" not in found
    assert found.startswith("cannot reach postgresql://app:")
