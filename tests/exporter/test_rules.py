"""The rules and the dashboard: Prometheus's own tool reads and tests them; what they name is served."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from jobconsole.exporter import dashboard
from jobconsole.exporter.table import TABLE
from tests.cli.running import Cli

CASES = Path(__file__).with_name("rules_test.yml")
DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
RULES = [rule for group in yaml.safe_load(dashboard.RULES.read_text())["groups"] for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}
RECORDS = {rule["record"] for rule in RULES if "record" in rule}
PANELS: list[dict[str, Any]] = dashboard.dashboard()["panels"]
CHARTS = [panel for panel in PANELS if panel["type"] != "row"]


def promtool(*arguments: str, cwd: Path | None = None) -> None:
    if (tool := shutil.which("promtool")) is None:
        pytest.skip("promtool is not installed; it comes with Prometheus")
    done = subprocess.run([tool, *arguments], capture_output=True, text=True, cwd=cwd, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def names(expression: str) -> set[str]:
    """Return the metrics of an expression."""
    bare = re.sub(r'"[^"]*"|\{[^}]*\}|\b(?:by|without|on|ignoring)\s*\([^)]*\)|\[[^]]*\]', " ", expression)
    return {name for name in re.findall(r"[a-z][a-z0-9_:]*\b(?!\s*\()", bare) if "_" in name}


def served() -> Iterator[str]:
    for name, spec in TABLE.items():
        yield name
        if spec.kind == "histogram":
            yield from (f"{name}_{end}" for end in ("bucket", "sum", "count"))


def balanced(expression: str) -> bool:
    return all(expression.count(one) == expression.count(other) for one, other in ("()", "{}", "[]"))


class TestRules:
    @pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
    def test_what_a_rule_names_is_served(self, rule: dict[str, Any]) -> None:
        assert balanced(rule["expr"])
        assert names(rule["expr"])
        assert names(rule["expr"]) <= {*served(), *RECORDS}

    @pytest.mark.parametrize("alert", ALERTS.values(), ids=list(ALERTS))
    def test_an_alert_has_its_texts_and_a_case(self, alert: dict[str, Any]) -> None:
        assert alert["labels"]["severity"] in {"critical", "warning"}
        assert set(alert["annotations"]) == {"summary", "description"}
        cases = yaml.safe_load(CASES.read_text())["tests"]
        fires = [one for case in cases for one in case["alert_rule_test"] if one["alertname"] == alert["alert"]]
        assert any(one.get("exp_alerts") for one in fires)
        assert any(not one.get("exp_alerts") for one in fires)

    def test_prometheus_agrees_with_all_cases(self, tmp_path: Path) -> None:
        (tmp_path / "rules.yml").write_text(Cli({})("exporter", "--print-rules").out)
        (tmp_path / "cases.yml").write_text(CASES.read_text())
        promtool("check", "rules", "rules.yml", cwd=tmp_path)
        promtool("test", "rules", "cases.yml", cwd=tmp_path)

    def test_the_documentation_lists_the_alerts(self) -> None:
        rows = re.findall(r"^\| `(Job\w+)` \| (\w+) \|", DOCS.read_text(), re.MULTILINE)
        assert dict(rows) == {name: alert["labels"]["severity"] for name, alert in ALERTS.items()}


class TestDashboard:
    def test_the_file_is_what_the_script_makes(self) -> None:
        assert dashboard.FILE.read_text() == dashboard.text(), "run python -m jobconsole.exporter.dashboard"
        assert json.loads(Cli({})("exporter", "--print-dashboard").out) == dashboard.dashboard()

    @pytest.mark.parametrize("panel", CHARTS, ids=lambda panel: panel["title"])
    def test_a_panel_has_all_that_it_needs(self, panel: dict[str, Any]) -> None:
        assert panel["description"].endswith(".")
        assert panel["fieldConfig"]["defaults"]["unit"] in {"short", "s", "ops"}
        assert panel["datasource"]["uid"] == "${datasource}"
        for target in panel["targets"]:
            assert balanced(target["expr"])
            assert names(target["expr"]) <= set(served())
            assert "[$__rate_interval]" in target["expr"] or "rate(" not in target["expr"]

    def test_panels_do_not_overlap_and_have_ids_of_their_own(self) -> None:
        places = [
            (x, y)
            for panel in PANELS
            for place in [panel["gridPos"]]
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ]
        assert len(places) == len(set(places))
        assert max(x for x, _ in places) < 24
        assert len({panel["id"] for panel in PANELS}) == len(PANELS)

    def test_every_metric_is_drawn_or_alerted_on(self) -> None:
        drawn = {name for panel in CHARTS for target in panel["targets"] for name in names(target["expr"])}
        used = drawn | {name for rule in RULES for name in names(rule["expr"])}
        bare = {re.sub(r"_bucket$", "", name) for name in used}
        left_out = {"queue_claimed_ahead", "queue_process_time_seconds", "jobconsole_scrape_errors_total"}
        assert set(TABLE) - bare == left_out

    def test_prometheus_reads_every_expression(self, tmp_path: Path) -> None:
        expressions = [target["expr"] for panel in CHARTS for target in panel["targets"]]
        rules = [
            {"record": f"panel:{number}", "expr": one.replace("$__rate_interval", "5m").replace("$queue", ".*")}
            for number, one in enumerate(expressions)
        ]
        (tmp_path / "panels.yml").write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}))
        promtool("check", "rules", "panels.yml", cwd=tmp_path)
