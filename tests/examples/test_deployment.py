"""docs/deployment.md and the files in docs/deploy: what they start, ask and name is there."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.metrics_core import Metric

from jobconsole.cli.root import parser_of
from jobconsole.web.service import HealthPort, Scale, ServiceCollector
from queue_core.worker.options import ServiceOptions, ServiceReport
from queue_core.worker.supervisor import Service

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "deployment.md").read_text()
DEPLOY = DOCS / "deploy"
UNIT = (DEPLOY / "jobs-worker.service").read_text()
DOCKERFILE = (DEPLOY / "Dockerfile").read_text()
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
MANIFESTS = {
    (one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text())
}
PATHS = ("/healthz", "/readyz", "/metrics", "/scale/")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def options(words: list[str]) -> Any:
    """Parse a command of this program."""
    assert Path(words[0]).name == "jobconsole"
    found = parser_of().parse_args(words[1:])
    assert callable(found.run)
    return found


def containers() -> Iterator[dict[str, Any]]:
    for (kind, _), one in MANIFESTS.items():
        if kind in {"Deployment", "Job"}:
            yield from one["spec"]["template"]["spec"]["containers"]


def test_the_pages_commands() -> None:
    service, *asked = blocks("sh")[0].splitlines()
    found = options(shlex.split(service))
    for line in asked:
        url = shlex.split(line)[-1]
        assert url.startswith(f"http://127.0.0.1:{found.health_port}/")
        assert url.removeprefix(f"http://127.0.0.1:{found.health_port}").startswith(PATHS)
    assert [Path(word).name for word in shlex.split(blocks("sh")[1])][-1] == "jobs-worker.service"


def test_the_pages_table_of_metrics() -> None:
    rows = re.findall(r"^\| `(jobconsole_service_\w+)` \| (\w+) \| ([\w, ]+|–) \|", PAGE, re.MULTILINE)
    served: list[Metric] = list(ServiceCollector(ServiceReport((), False), {}).collect())
    names = {f"{one.name}_total" if one.type == "counter" else one.name: one.type for one in served}
    assert {name: kind for name, kind, _ in rows} == names


def test_the_pages_answer_of_scale() -> None:
    (example,) = blocks("json")
    body = json.loads(example)
    scale = Scale(*(body[name] for name in Scale._fields))
    assert body == {"version": 1, "value": scale.replicas, **scale._asdict()}
    least, most = scale.slots * (scale.replicas - 1), scale.slots * scale.replicas
    assert least < scale.running + scale.ready + scale.soon <= most


async def test_every_path_is_served() -> None:
    health = HealthPort(Service("app:jobs", ServiceOptions()), "127.0.0.1", 0)
    port = await asyncio.to_thread(health.start)
    for path in PATHS:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(f"GET {path}{'images' if path == '/scale/' else ''} HTTP/1.1\r\n\r\n".encode())
        assert (await reader.readline()).split()[1] in {b"200", b"503"}
        writer.close()
    await asyncio.to_thread(health.stop)


def test_the_unit(tmp_path: Path) -> None:
    command = shlex.split(re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)[0])
    found = options(command)
    stop = int(re.findall(r"^TimeoutStopSec=(\d+)$", UNIT, re.MULTILINE)[0])
    assert stop > found.grace + 10
    assert "Type=notify\nNotifyAccess=main\n" in UNIT
    if (verify := shutil.which("systemd-analyze")) is None:
        pytest.skip("systemd is not installed")
    file = tmp_path / "jobs-worker.service"
    program = Path(sys.executable).with_name("jobconsole")
    file.write_text(UNIT.replace(command[0], str(program)).replace("User=app", "User=root"))
    done = subprocess.run([verify, "verify", "--man=no", str(file)], capture_output=True, text=True, check=False)
    # Other units of the machine may be wrong as well.
    assert "jobs-worker.service" not in done.stderr


def test_the_dockerfile() -> None:
    words = [line.split()[0] for line in re.sub(r"\\\n\s*", "", DOCKERFILE).splitlines() if line and line[0] != "#"]
    assert words == ["FROM", "RUN", "WORKDIR", "RUN", "COPY", "USER", "EXPOSE", "HEALTHCHECK", "CMD"]
    *_, command = re.findall(r"^CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    found = options(json.loads(command))
    check = json.loads(re.findall(r"^  CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)[0])
    compile(check[-1], "healthcheck", "exec")
    assert f":{found.health_port}/healthz" in check[-1]
    assert f"EXPOSE {found.health_port}\n" in DOCKERFILE


def test_the_compose_file() -> None:
    services = COMPOSE["services"]
    for name in ("migrate", "exporter"):
        options(services[name]["command"])
    assert int(services["worker"]["stop_grace_period"].removesuffix("s")) > 40
    assert (
        f":{options(services['exporter']['command']).port}/healthz" in services["exporter"]["healthcheck"]["test"][-1]
    )
    needed = {other for one in services.values() for other in one.get("depends_on", {})}
    assert needed <= set(services)
    for one in services.values():
        for variable in one.get("environment", {}):
            assert variable.startswith(("JOBS__", "POSTGRES_"))
        assert {volume.split(":")[0] for volume in one.get("volumes", [])} <= set(COMPOSE["volumes"])


def test_the_manifests() -> None:
    for container in containers():
        found = options(container["command"])
        ports = {one["name"]: one["containerPort"] for one in container.get("ports", [])}
        assert list(ports.values()) in ([], [getattr(found, "health_port", None) or getattr(found, "port", None)])
        for probe in (one for name, one in container.items() if name.endswith("Probe")):
            (kind,) = {"httpGet", "tcpSocket"} & set(probe)
            assert probe[kind]["port"] in ports
            assert probe[kind].get("path", "/healthz") in PATHS
    worker = MANIFESTS["Deployment", "jobs-worker"]["spec"]["template"]
    assert worker["spec"]["terminationGracePeriodSeconds"] > 40
    for (kind, _), one in MANIFESTS.items():
        if kind == "Deployment":
            assert one["spec"]["selector"]["matchLabels"] == one["spec"]["template"]["metadata"]["labels"]
        if kind == "Service":
            assert one["spec"]["selector"] == worker["metadata"]["labels"]


def test_what_keda_asks_and_reads() -> None:
    spec = MANIFESTS["ScaledObject", "jobs-worker"]["spec"]
    assert ("Deployment", spec["scaleTargetRef"]["name"]) in MANIFESTS
    assert spec["minReplicaCount"] >= 1
    (trigger,) = spec["triggers"]
    host, path = re.fullmatch(r"http://([\w-]+):9809(/\S+)", trigger["metadata"]["url"]).groups()  # type: ignore[union-attr]
    assert ("Service", host) in MANIFESTS
    assert path.startswith("/scale/")
    assert trigger["metadata"]["valueLocation"] == "value"
