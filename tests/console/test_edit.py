"""An edited payload is checked, told apart from what it was, and becomes a new job; nothing else in it changes."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobconsole.actions import edit
from jobconsole.actions.edit import Draft, Known, check, diff, draft_of, read_known, refusal, submit_edit
from jobconsole.actions.json import NotJson, compact, escaped, oddities, pretty, value_of
from jobconsole.core.connection import Connection
from queue_core import JobQueue
from queue_core.client.tasks import EnqueueOptions
from queue_core.errors import InvalidJob, QueueFull, ReadOnly, StoreUnavailable
from queue_core.model.job import Job
from queue_core.model.operation import Author
from queue_core.model.rules import QueueRules
from queue_core.model.settings import JobsSettings
from queue_core.model.states import FINAL, Status
from queue_core.model.text import safe
from tests.conformance.world import World

ME = Author("ada", "console-1")
MANY = 1 << 20
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


async def dead(jobs: JobQueue, world: World, payload: str = '{"to":"a"}', **given: Any) -> Job:
    """Return a dead job with this stored payload."""
    return await jobs.get((await world.ended("dead", payload=payload, **given)).id)


def sentences(draft: Draft, job: Job, known: Known | None = None, limit: int = MANY) -> list[str]:
    """Return what a check says, each behind how bad it is."""
    found = check(draft, job, Known() if known is None else known, limit)
    return [f"{problem.severity}: {problem.sentence}" for problem in found]


async def _made() -> Job:
    async with JobQueue(memory=True) as jobs:
        return await dead(jobs, World(jobs.store, jobs.inspector, asyncio.sleep, operations=jobs._backend.operations))


_JOB = asyncio.run(_made())


class TestTheText:
    @given(VALUES)
    def test_spreading_over_lines_and_packing_again_change_no_value(self, value: Any) -> None:
        stored = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        assert value_of(pretty(stored)) == value
        assert compact(pretty(stored)) == stored

    @given(VALUES)
    def test_nothing_unseen_reaches_the_screen(self, value: Any) -> None:
        shown = pretty(json.dumps(value, ensure_ascii=False))
        assert safe(shown, len(shown), newlines=True) == shown

    @pytest.mark.parametrize(
        "number", ["1.10", "1e400", "-1E+2", "12345678901234567890", "0.1000000000000000055", "-0"]
    )
    def test_numbers_stay_as_they_are_written(self, number: str) -> None:
        assert compact(pretty(f'{{"n": {number}}}')) == f'{{"n":{number}}}'

    def test_keys_that_stand_twice_stay_and_are_told(self) -> None:
        text = '{"a":1,"b":{"a":2},"a":3}'
        assert compact(pretty(text)) == text
        assert [(odd.at, odd.text) for odd in oddities(text)] == [
            (19, "the key 'a' stands twice here; the last one counts")
        ]

    def test_a_number_that_no_float_holds_is_told(self) -> None:
        assert [odd.at for odd in oddities('{"e400": "1e400", "n": [1, 1.5, -1e400]}')] == [32]

    def test_what_a_terminal_obeys_is_escaped_and_comes_back(self) -> None:
        stored = json.dumps({"x": "\u202e\x9b31m\x7f\u2028\U000e0101é"}, ensure_ascii=False, separators=(",", ":"))
        assert pretty(stored) == '{\n  "x": "\\u202e\\u009b31m\\u007f\\u2028\\udb40\\udd01é"\n}'
        assert compact(pretty(stored)) == stored

    def test_what_is_pasted_keeps_its_lines(self) -> None:
        assert escaped('{\n\t"a": "\u200b"}') == '{\n\t"a": "\\u200b"}'

    @pytest.mark.parametrize(
        ("text", "at"),
        [("{", 1), ('{"a": }', 6), ('{"a": 1,}', 8), ('{"a": [1, NaN]}', 10), ('{"a": "\n"}', 7), ("", 0)],
    )
    def test_a_mistake_has_a_place(self, text: str, at: int) -> None:
        with pytest.raises(NotJson) as caught:
            value_of(text)
        # Python 3.13 points at a comma that 3.11 points behind.
        assert caught.value.at in {at, at - 1}

    @pytest.mark.parametrize("text", ["[" * 100_000, "9" * 5_000])
    def test_what_python_does_not_read_has_none(self, text: str) -> None:
        with pytest.raises(NotJson) as caught:
            value_of(f'{{"a": {text}')
        assert caught.value.at is None


class TestADraft:
    async def test_it_is_the_job_as_it_is(self, jobs: JobQueue, world: World) -> None:
        job = await dead(jobs, world, '{"to":"a","n":1.10}', tags=("night",), priority=7, max_retries=2)
        assert draft_of(job) == Draft('{\n  "to": "a",\n  "n": 1.10\n}', "work", 7, 2, ("night",))

    async def test_a_payload_that_is_no_json_comes_with_a_remark(self, jobs: JobQueue, world: World) -> None:
        draft = draft_of(replace(await dead(jobs, world), payload=None, payload_text="<x>\x1b[31m\nend"))
        assert draft.text == "<x>␛[31m\nend"
        assert draft.remark == "the stored payload is no JSON: a value is expected"

    @pytest.mark.parametrize("status", list(Status))
    def test_jobs_that_have_ended_are_edited(self, status: Status) -> None:
        assert (refusal(status) == "") == (status in FINAL)


class TestACheck:
    @pytest.mark.parametrize(
        ("text", "said"),
        [
            (
                '{"to":\n "b",}',
                "error: line 2 column {}: the payload is not JSON: {}",
            ),
            ('{"to": NaN}', "error: line 1 column 8: the payload is not JSON: NaN has no JSON form"),
            (f'{{"to": {"9" * 5000}}}', "error: the payload is not JSON: it holds a number of more than 4,300 digits"),
            ("[1]", "error: a payload is a dict of parameter names, not list"),
            ('{"to": "\\u0000"}', "error: the payload holds a NUL character, which PostgreSQL cannot store"),
            ('{"to": "\\ud800"}', "error: the payload holds a lone surrogate, which is no Unicode text"),
            (f'{{"to": {"[" * 101}{"]" * 101}}}', "error: the payload is nested deeper than 100 levels"),
            ('{ "to":  "a" }', "error: nothing is changed; R retries the job as it is"),
        ],
    )
    async def test_one_sentence_says_what_is_wrong(self, jobs: JobQueue, world: World, text: str, said: str) -> None:
        job = await dead(jobs, world)
        (sentence,) = sentences(replace(draft_of(job), text=text), job)
        wanted = "a key between double quotes is expected"
        # As the version of Python puts it.
        ways = [(5, wanted), (6, wanted), (5, "a comma stands before the closing brace")]
        assert sentence in ({said.format(*way) for way in ways} if "{}" in said else {said})

    async def test_a_payload_over_the_limit_is_refused_by_its_bytes(self, jobs: JobQueue, world: World) -> None:
        job = await dead(jobs, world)
        draft = replace(draft_of(job), text='{ "to":  "éé" }')
        assert sentences(draft, job, limit=13) == []
        (sentence,) = sentences(draft, job, limit=12)
        assert "the limit is 12" in sentence

    async def test_the_schema_that_workers_announced_is_held_against_it(self, jobs: JobQueue, world: World) -> None:
        job = await dead(jobs, world)
        schema = {"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}
        await world.beat()
        await world.store.register_types({"task": schema})
        known = await read_known(jobs.inspector, job.type, job.queue)
        assert sentences(replace(draft_of(job), text='{"to": "b"}'), job, known) == []
        assert sentences(replace(draft_of(job), text='{"to": 1}'), job, known) == [
            "error: parameter 'to' must be string, not integer"
        ]

    async def test_what_need_not_keep_one_from_it_is_a_warning(self, jobs: JobQueue, world: World) -> None:
        job = await dead(jobs, world)
        known = replace(await read_known(jobs.inspector, job.type, job.queue), schema={"type": "no such type"})
        nobody, unusable, twice, endless = sorted(
            sentences(replace(draft_of(job), text='{"to": 1e999, "to": 1}'), job, known),
            key=lambda said: ("no live worker" not in said, "schema" not in said, said),
        )
        assert nobody.startswith("warning: no live worker of queue 'work' announces the type 'task'")
        assert unusable.startswith("warning: the schema announced for the type 'task' cannot be used")
        assert sorted((twice, endless)) == [
            "warning: line 1 column 15: the key 'to' stands twice here; the last one counts",
            "warning: line 1 column 8: 1e999 is more than a float can hold; Python reads it as infinity",
        ]

    async def test_another_queue_is_a_change(self, jobs: JobQueue, world: World) -> None:
        job = await dead(jobs, world)
        assert sentences(replace(draft_of(job), queue="other"), job) == []

    @given(text=st.text(alphabet='{}[]",:0123456789.eE+-\\ tfn\n\u202eé', max_size=40))
    def test_no_text_breaks_it(self, text: str) -> None:
        job = _JOB
        for problem in check(replace(draft_of(job), text=text), job, Known(), MANY):
            assert problem.line is None or 1 <= problem.line <= text.count("\n") + 1
        diff(draft_of(job).text, text)


class TestTheDifference:
    def test_only_what_differs_and_what_is_around_it(self) -> None:
        before = {f"k{n}": n for n in range(9)}
        lines = diff(json.dumps(before), json.dumps(before | {"k4": "x"}))
        assert lines == [
            '    "k2": 2,',
            '    "k3": 3,',
            '-   "k4": 4,',
            '+   "k4": "x",',
            '    "k5": 5,',
            '    "k6": 6,',
        ]

    def test_another_layout_is_no_difference(self) -> None:
        assert diff('{"a": [1, 2]}', '{\n"a":[1,2]}') == []

    def test_two_that_share_nothing_are_only_counted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(edit, "COMPARED_LINES", 5)
        assert diff(json.dumps(list(range(9))), json.dumps(list("abcdefg"))) == [
            "- 11 lines that differ",
            "+ 9 lines that differ",
        ]
        assert diff(json.dumps(list(range(9))), "7")[1] == "+ 1 line that differs"

    def test_a_small_change_of_a_large_payload_is_found(self) -> None:
        large = list(range(100_000))
        changed = diff(json.dumps(large), json.dumps([*large, 7]))
        assert changed == ["    99997,", "    99998,", "-   99999", "+   99999,", "+   7", "  ]"]

    def test_nothing_unseen_is_in_it(self) -> None:
        assert diff("{}", "\x1b[2J\u202e") == ["- {}", "+ ␛[2J\\u202e"]


class TestSubmitting:
    async def test_a_new_job_with_the_rest_of_the_old_one(self, jobs: JobQueue, world: World) -> None:
        job = await dead(
            jobs, world, tags=("night",), priority=7, max_retries=2, ordering_key="customer-1", unique_key="task:u"
        )
        edited = await submit_edit(jobs, job, replace(draft_of(job), text='{"to": 1.10}'), ME, "wrong address")
        new = await jobs.get(edited.id)
        assert (new.payload_text, new.status, new.type, new.queue) == ('{"to":1.10}', "queued", "task", "work")
        assert (new.priority, new.max_retries, new.tags, new.ordering_key) == (7, 2, ("night",), "customer-1")
        assert new.unique_key is None
        assert await jobs.get(job.id) == job

    async def test_every_option_is_copied_or_left_out_for_a_reason(
        self, jobs: JobQueue, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One that is new, and forgotten here, would be lost without a word."""
        left_out = {"delay", "run_at", "unique", "unique_for", "connection"}  # it runs at once, beside the old one
        given: set[str] = set()
        enqueue = jobs.enqueue

        async def noting(type_: str, payload: Any, **options: Any) -> Any:
            given.update(options)
            return await enqueue(type_, payload, **options)

        monkeypatch.setattr(jobs, "enqueue", noting)
        job = await dead(jobs, world)
        await submit_edit(jobs, job, draft_of(job), ME)
        assert given | left_out == set(EnqueueOptions.__annotations__)

    async def test_each_of_the_two_names_the_other(self, jobs: JobQueue, world: World) -> None:
        job = await dead(jobs, world)
        edited = await submit_edit(jobs, job, replace(draft_of(job), text='{"to":"b"}'), ME, "wrong address")
        (left,), (came,) = await jobs.operations.list_for_job(job.id), await jobs.operations.list_for_job(edited.id)
        assert (left.request.verb, left.request.author, left.request.why, left.note) == (
            "edit",
            ME,
            "wrong address",
            edited.id,
        )
        assert (came.request.verb, came.note, came.state) == ("edit", f"made from {job.id}", "done")

    async def test_what_cannot_be_a_job_leaves_nothing(self, jobs: JobQueue, world: World) -> None:
        job = await dead(jobs, world)
        for text in ("{", "[]", '{"a": "\\u0000"}'):
            with pytest.raises(InvalidJob):
                await submit_edit(jobs, job, replace(draft_of(job), text=text), ME)
        assert await jobs.operations.list_operations() == []
        assert len((await jobs.list()).jobs) == 1

    async def test_a_full_queue_refuses_and_nothing_is_noted(self) -> None:
        settings = JobsSettings.model_validate({"queue_backend": "memory", "queues": {"work": {"limit": 1}}})
        async with JobQueue(settings=settings) as jobs:
            world = World(jobs.store, jobs.inspector, asyncio.sleep, operations=jobs._backend.operations)
            job = await dead(jobs, world)
            await jobs.enqueue("task", queue="work")
            with pytest.raises(QueueFull):
                await submit_edit(jobs, job, replace(draft_of(job), text="{}"), ME)
            assert await jobs.operations.list_operations() == []

    async def test_a_read_only_connection_changes_nothing(self, jobs: JobQueue, world: World) -> None:
        job = await dead(jobs, world)
        connection = Connection(jobs, read_only=True)
        await connection.check()
        with pytest.raises(ReadOnly):
            await submit_edit(jobs, job, replace(draft_of(job), text="{}"), ME, operations=connection.operations)
        assert len((await jobs.list()).jobs) == 1

    async def test_the_job_counts_although_its_note_is_lost(
        self, jobs: JobQueue, world: World, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        job = await dead(jobs, world)
        noted, calls = jobs.operations.record, 0

        async def once(*given: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls > 1:
                raise StoreUnavailable("memory", "gone")
            return await noted(*given)

        monkeypatch.setattr(jobs.operations, "record", once)
        edited = await submit_edit(jobs, job, replace(draft_of(job), text="{}"), ME)
        assert (await jobs.get(edited.id)).status == "queued"
        assert "no note of where it came from: memory cannot be reached" in edited.problem

    async def test_a_job_of_a_shard_stays_in_it(self) -> None:
        rules = QueueRules(shards=4)
        for key in ("customer-1", "customer-2", "customer-3", "shard-3", "shard-9"):
            assert rules.key_of(rules.key_of(key)) == rules.key_of(key)
