"""docs/metrics.md: its blocks beside its commands and its table, which the command line's tests read."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import urllib.request
from pathlib import Path

import pytest
import yaml

from jobconsole.exporter.server import Exporter
from queue_core.model.settings import JobsSettings
from tests.cli.running import Cli
from tests.conformance.modes import settings_of
from tests.examples.blocks import blocks, run
from tests.exporter.test_server import serving

PAGE = "metrics.md"
PATIENCE = 30.0


@pytest.fixture
def stored(request: pytest.FixtureRequest) -> JobsSettings:
    return settings_of("postgres+redis", request)


def health(exporter: Exporter) -> dict[str, object]:
    """Return what the exporter answers to a probe."""
    url = exporter.url.replace("/metrics", "/healthz")
    with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
        found: dict[str, object] = json.loads(answer.read())
    return found


def types(value: object) -> object:
    """Return the shape of an answer."""
    return {name: types(one) for name, one in value.items()} if isinstance(value, dict) else type(value)


def test_the_answer_to_a_probe_is_as_shown(stored: JobsSettings) -> None:
    (shown,) = (json.loads(block) for block in blocks(PAGE, language="json"))
    with serving(stored) as exporter:
        found = health(exporter)
    assert types(found) == types(shown)
    assert {name: found[name] for name in ("version", "status", "healthy", "mode")} == {
        name: shown[name] for name in ("version", "status", "healthy", "mode")
    }


def test_a_line_of_the_file_of_passwords(tmp_path: Path) -> None:
    make, serve = blocks(PAGE, "## TLS and passwords", "sh")[0].splitlines()
    words = shlex.split(make, comments=True)
    assert words[:4] == ["printf", r"%s\n", "$PASSWORD", "|"]
    answer = Cli({})(*words[words.index("jobconsole") + 1 : words.index("tee") - 1], stdin="secret\n")
    assert answer.out.startswith("prometheus:scrypt$")
    assert {"--auth-file", "--tls-cert", "--tls-key"} <= {*shlex.split(serve)}


def test_prometheus_understands_its_side(tmp_path: Path) -> None:
    (block,) = blocks(PAGE, "## TLS and passwords", "yaml")
    (job,) = yaml.safe_load(block)["scrape_configs"]
    assert job["scheme"] == "https"
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed")
    (tmp_path / "password").write_text("secret")
    path = tmp_path / "prometheus.yml"
    path.write_text(block.replace("/etc/prometheus/jobconsole.password", str(tmp_path / "password")))
    command = [promtool, "check", "config", str(path)]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert answer.returncode == 0, answer.stderr


async def test_in_another_program(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("JOBS__QUEUE_BACKEND", "memory")
    (block,) = blocks(PAGE, "## In another program")
    await run(block, {})
    assert capsys.readouterr().out.startswith("http://127.0.0.1:")
