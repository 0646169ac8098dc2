"""`python -m benchmarks.compare`: ratios round by round, verdicts, tables, and a run that is small."""

from __future__ import annotations

import json
import subprocess
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from benchmarks.compare.__main__ import chosen
from benchmarks.compare.bars import BARS, Bar, Judged, Verdict, judge
from benchmarks.compare.contestants import CONTESTANTS, OWN, PEERS, PeerUnavailable, python_of
from benchmarks.compare.measures import MEASURES, RULES, Sizes
from benchmarks.compare.results import Results, Spread
from benchmarks.compare.table import BEGIN, END, TITLES, as_markdown, as_text, replace_in

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def results() -> Results:
    """Three rounds of two contestants; the machine was twice as slow in the second one."""
    found = Results(
        machine=["2 processors."],
        notes=["awa is left out: it cannot be installed: no network."],
        labels={"postgres": "postgres", "pgqueuer": "pgqueuer 1.6.0"},
        stretches=[1.0, 2.0, 1.1],
    )
    for own, peer in ((3000.0, 2000.0), (1400.0, 1000.0), (3200.0, 2000.0)):
        found.add("postgres", {"bulk": own, "p50": 2.0, "wal": 900.4})
        found.add("pgqueuer", {"bulk": peer, "p50": 3.0, "wal": 1900.0})
    found.add("postgres", {"rate": 30.0})
    return found


def verdicts(results: Results) -> dict[str, Judged]:
    return {each.sentence.partition(":")[0]: each for each in judge(results, TITLES)}


class TestRatios:
    def test_are_taken_round_by_round(self, results: Results) -> None:
        assert results.ratio("bulk", "postgres", "pgqueuer") == Spread(1.5, 1.4, 1.6)

    def test_leave_out_rounds_in_which_one_failed(self, results: Results) -> None:
        results.figures["pgqueuer"]["bulk"][0] = None
        assert results.ratio("bulk", "postgres", "pgqueuer") == Spread(1.5, 1.4, 1.6)
        assert results.spread("pgqueuer", "bulk") == Spread(1500.0, 1000.0, 2000.0)

    def test_are_not_there_without_the_peer(self, results: Results) -> None:
        assert results.ratio("bulk", "postgres", "awa") is None


class TestSeveralRuns:
    def test_rounds_follow_each_other(self, results: Results) -> None:
        more = Results()
        more.add("postgres", {"bulk": 4000.0})
        more.add("postgres", {"key": 100.0})
        more.add("pgqueuer", {"bulk": 2000.0})
        results.append(Results.from_json(more.to_json()))
        assert results.rounds() == 4
        assert results.ratio("bulk", "postgres", "pgqueuer") == Spread(1.55, 1.4, 2.0)
        assert results.spread("postgres", "key") == Spread(100.0, 100.0, 100.0)

    def test_a_figure_that_one_run_lacks_shifts_no_round(self, results: Results) -> None:
        del results.figures["pgqueuer"]["bulk"]
        more = Results()
        more.add("postgres", {"bulk": 4000.0})
        more.add("pgqueuer", {"bulk": 2000.0})
        results.append(more)
        assert results.ratio("bulk", "postgres", "pgqueuer") == Spread(2.0, 2.0, 2.0)

    def test_something_else_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no figures"):
            Results.from_json("[]")


class TestBars:
    def test_a_ratio_that_is_reached_holds(self, results: Results) -> None:
        assert verdicts(results)["bulk/s, postgres ≥ 1.5 × pgqueuer"] == Judged(
            Verdict.HOLDS, "bulk/s, postgres ≥ 1.5 × pgqueuer: 1.50 (1.40–1.60), holds"
        )

    def test_what_is_above_the_most_is_missed(self, results: Results) -> None:
        found = verdicts(results)
        assert found["a rate's cost, %, postgres ≤ 20"].sentence.endswith(": 30 (30–30), MISSED")
        assert found["p50 ms, postgres ≤ 2.2"].verdict is Verdict.HOLDS

    def test_is_judged_by_the_figure_and_not_by_what_is_shown_of_it(self, results: Results) -> None:
        assert verdicts(results)["WAL B/job, postgres ≤ 900"].verdict is Verdict.MISSED

    def test_what_was_not_measured_is_open(self, results: Results) -> None:
        assert verdicts(results)["single/s, postgres ≥ 1 × pgqueuer"].verdict is Verdict.OPEN

    def test_a_mode_that_was_left_out_is_not_judged(self, results: Results) -> None:
        assert not [name for name in verdicts(results) if ", redis " in name]

    def test_each_names_contestants_and_a_figure_of_the_tables(self) -> None:
        assert {bar.mode for bar in BARS} == {each.name for each in OWN}
        assert {bar.peer for bar in BARS} - {None} <= {each.name for each in PEERS}
        assert {bar.figure for bar in BARS} <= set(TITLES)
        assert len({(bar.figure, bar.mode) for bar in BARS}) == len(BARS)
        assert Bar("bulk", "postgres", 1.5, "pgqueuer", least=True) in BARS


class TestTables:
    def test_text_has_figures_ratios_and_notes(self, results: Results) -> None:
        text = as_text(results)
        assert "3,000 (1,400–3,200)" in text
        assert "1.50 (1.40–1.60)" in text
        assert "a rate's cost, %" in text
        assert "2.00" in text
        assert "awa is left out" in text
        assert "1.10 times" in text

    def test_markdown_replaces_what_is_between_the_marks(self, results: Results, tmp_path: Path) -> None:
        document = tmp_path / "README.md"
        document.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
        replace_in(document, as_markdown(results))
        text = document.read_text(encoding="utf-8")
        assert text.startswith(f"before\n{BEGIN}\n")
        assert text.endswith(f"{END}\nafter\n")
        assert "old" not in text
        tables = [line for line in text.splitlines() if line.startswith("|")]
        assert tables[1] == "|---|---|---|---|"
        assert {line.count("|") for line in tables[:4]} == {5}

    def test_a_document_without_marks_is_refused(self, results: Results, tmp_path: Path) -> None:
        document = tmp_path / "README.md"
        document.write_text("text\n", encoding="utf-8")
        with pytest.raises(ValueError, match="has no lines"):
            replace_in(document, as_markdown(results))
        assert document.read_text(encoding="utf-8") == "text\n"

    def test_the_documented_table_can_be_replaced(self, results: Results, tmp_path: Path) -> None:
        document = tmp_path / "README.md"
        document.write_bytes((ROOT / "benchmarks" / "README.md").read_bytes())
        replace_in(document, as_markdown(results))
        assert "3,000 (1,400–3,200)" in document.read_text(encoding="utf-8")


class TestChoice:
    def test_nothing_named_is_everything(self) -> None:
        assert chosen([]) == (CONTESTANTS, (*MEASURES, *RULES))

    def test_names_of_both_kinds(self) -> None:
        contestants, measures = chosen(["redis,huey", "single", "rules"])
        assert [each.name for each in contestants] == ["redis", "huey"]
        assert measures == ("single", *RULES)

    def test_rules_are_of_this_queue_alone(self) -> None:
        assert chosen(["rules"]) == (OWN, RULES)

    def test_an_unknown_name_is_refused(self) -> None:
        with pytest.raises(ValueError, match="celery is none of postgres, "):
            chosen(["celery"])


class TestPeers:
    def test_one_that_cannot_be_installed_is_one_sentence(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        made: list[Path] = []
        monkeypatch.setattr(venv, "create", lambda place, with_pip: made.append(place))
        failed = subprocess.CompletedProcess([], 1, "", "trying\nERROR: No matching distribution found\n")
        monkeypatch.setattr(subprocess, "run", lambda *_arguments, **_options: failed)
        with pytest.raises(PeerUnavailable, match=r"^it cannot be installed: ERROR: No matching distribution found$"):
            python_of(PEERS[0], tmp_path)
        assert [place.parent for place in made] == [tmp_path]

    def test_one_that_is_installed_is_used_again(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        installed: list[list[str]] = []

        def create(place: Path, with_pip: bool) -> None:
            (place / "bin").mkdir(parents=True)
            (place / "bin" / "python").touch()

        def run(command: list[str], **_options: Any) -> subprocess.CompletedProcess[str]:
            installed.append(command)
            return subprocess.CompletedProcess(command, 0, "", "")

        monkeypatch.setattr(venv, "create", create)
        monkeypatch.setattr(subprocess, "run", run)
        assert python_of(PEERS[0], tmp_path) == python_of(PEERS[0], tmp_path)
        assert len(installed) == 1

    def test_a_label_names_the_release(self) -> None:
        assert [each.label for each in PEERS if each.name in ("awa", "dramatiq")] == ["awa-pg 0.6.9", "dramatiq 2.2.1"]


def test_a_drain_is_as_long_as_wanted() -> None:
    sizes = Sizes(drain_seconds=2.0, fewest=100, most=9000)
    assert [sizes.jobs(rate) for rate in (1.0, 1000.0, 1e6)] == [100, 2000, 9000]


def test_quick_form_of_one_mode() -> None:
    command = [sys.executable, "-m", "benchmarks.compare", "--quick", "--json", "--only", "redis,single,drain1,latency"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    results = Results.from_json(done.stdout)
    assert results.notes == []
    assert list(results.labels) == ["redis"]
    assert {figure for figure, values in results.figures["redis"].items() if values and values[0]} >= {
        "single",
        "bulk",
        "drain1",
        "p50",
        "p99",
    }
    assert "appendfsync everysec" in json.dumps(results.machine)
