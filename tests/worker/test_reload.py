"""`worker run --reload`: changed sources run, and what cannot be imported waits for the next change."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from jobconsole.cli import reload
from queue_core import JobQueue
from tests.waiting import until

APP = """
from queue_core import JobQueue

jobs = JobQueue(sqlite="jobs.db")


@jobs.task
async def version() -> int:
    return {version}
"""


def test_changed_sources_run(tmp_path: Path) -> None:
    source, log = tmp_path / "app.py", tmp_path / "log"
    source.write_text(APP.format(version=1))
    with log.open("ab") as output:
        command = [sys.executable, "-m", "jobconsole", "worker", "run", "app:jobs", "--reload"]
        service = subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        with JobQueue(sqlite=tmp_path / "jobs.db").blocking() as queue:
            assert queue.enqueue("version").result(timeout=60) == 1
            source.write_text(APP.format(version="2 +"))
            assert until(lambda: "the next change of the sources starts it again" in log.read_text()), log.read_text()
            assert "importing 'app' failed: SyntaxError" in log.read_text()
            assert service.poll() is None
            source.write_text(APP.format(version=22))
            assert queue.enqueue("version").result(timeout=60) == 22
        service.send_signal(signal.SIGTERM)
        assert service.wait(timeout=60) == 0, log.read_text()
    finally:
        service.kill()
        service.wait()


def test_files_are_compared_where_the_package_is_not_installed(tmp_path: Path) -> None:
    for name in ("a.py", ".hidden/b.py", "venv/c.py", "venv/pyvenv.cfg", "pkg/d.py", "pkg/e.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1")
    assert {os.path.relpath(path, tmp_path) for path in reload.times(tmp_path)} == {"a.py", "pkg/d.py"}
    changed = threading.Event()
    watching = threading.Thread(target=reload._poll, args=(changed.set, tmp_path, 4))
    watching.start()
    assert not changed.wait(0.2)
    (tmp_path / "pkg" / "d.py").write_text("22")
    assert changed.wait(30)
    watching.join()
