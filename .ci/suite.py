"""Runs the tests: all of them on the servers of the wheels, in two passes, then the servers' parts on older releases.

    python .ci/suite.py SECONDS [pytest's arguments]

With arguments there is one pass with these. What fails runs once more, alone. The last lines, behind pytest's closing
line, name the tests that needed that and the passes that were left out. Exits with pytest's code.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from pythons import Python, Unusable, environment, other_pythons, with_oldest_packages
from releases import Missing, find_postgres, find_redis, is_required

FAILED, UNUSABLE, BROKEN_OFF = 1, 2, 3
ROOT = Path(__file__).resolve().parent.parent
OLDER = (15, 16, 17)
"""Releases of PostgreSQL behind the one of the wheel; the first is paired with the oldest Redis."""
OLDEST_REDIS = 7
PARALLEL = 16
"""The one that plans in parallel, as for large tables: the last release where that must not begin a subtransaction."""
ENOUGH = {15: 0.7, 16: 0.6, 17: 0.6}
"""The most that a pass on an older release takes, with the environment that it makes, as a part of the first pass."""
ENOUGH_FOR_SLOW = 1.3
"""The same of the slow tests; it was 1.1, half of it for ten thousand simulated schedules."""
SHOWN = 50


@dataclass
class Suite:
    """What was run so far, and until when there is time."""

    # seconds of time.monotonic
    ends: float
    repeated: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)

    def run(self, name: str, arguments: list[str], python: str = sys.executable) -> int:
        """Run pytest; what failed runs once more, alone."""
        # Of its own for each pass: "what failed" is what failed in this one.
        cache = ROOT / ".pytest_cache" / name.replace(" ", "-")
        shutil.rmtree(cache, ignore_errors=True)
        command = [python, "-m", "pytest", "-q", "-o", f"cache_dir={cache}", *arguments]
        code = self._within_time(command)
        if code == BROKEN_OFF:
            # Python 3.11 can fail in reading the source of a traceback, which ends pytest in the middle of the tests.
            write("It broke off in pytest itself. Once more, all of it:")
            self.repeated.append(f"all of it ({name})")
            code = self._within_time(command)
        failed = _last_failed(cache) if code == FAILED else []
        if not failed:
            return code
        # A busy neighbour can starve one of thousands of tests on real servers; a fault of ours fails twice.
        write("Once more, alone, what failed:")
        # Chosen tests: all of them, whatever a selection would leave out of these few.
        code = self._within_time([*command, "--numprocesses=0", "--slow=all", "--last-failed"])
        self.repeated += [f"{test} ({name})" for test in failed]
        return code

    def older(self, release: int, folder: Path, python: Python | None) -> int:
        """Run the servers' parts on an older PostgreSQL, with the oldest Redis beside the oldest of them.

        In an environment of its own where there is one, with the parts that this could break: what another release of
        Python does otherwise beside the oldest, what older packages do otherwise beside them.
        """
        parts, chosen, names, interpreter = ["on_postgres"], [], [], sys.executable
        try:
            postgres = find_postgres(release, folder)
        except Missing as missing:
            self.missing.append(str(missing))
            return FAILED if is_required(release) else 0
        chosen.append(f"--postgres-bin={postgres.path}")
        names.append(f"PostgreSQL {postgres.version}")
        if release == OLDER[0]:
            try:
                redis = find_redis(OLDEST_REDIS, folder)
                chosen.append(f"--redis-bin={redis.path}")
                names.append(f"Redis {redis.version}")
                parts.append("on_redis")
            except Missing as missing:
                self.missing.append(str(missing))
            parts.append("on_python")
        else:
            # Freezing at each statement takes minutes: it is done on the newest and the oldest release.
            chosen.append("--ignore=tests/postgres/frozen")
        if release == PARALLEL:
            chosen.append("--parallel-plans")
            names.append("parallel plans")
        if python is not None:
            try:
                interpreter = str(environment(python, folder))
                names.append(python.name)
                parts += ["on_packages"] if python.old else []
            except Unusable as reason:
                self.missing.append(f"{python.name}: {reason}")
        name = " and ".join(names)
        write(f"The parts of these on {name}:")
        return self.run(name, ["-m", " or ".join(parts), "--slow=some", *chosen], interpreter)

    def has_time(self, name: str, seconds: float) -> bool:
        """Return whether a pass can still end in time; one that cannot is left out and named: it would show nothing."""
        if self.ends - time.monotonic() >= seconds:
            return True
        self.missing.append(f"{name}: no time was left for it")
        return False

    def _within_time(self, command: list[str]) -> int:
        """Run a command for at most what is left of the time; SIGINT lets pytest still print what it has found."""
        left = self.ends - time.monotonic()
        if left <= 0:
            write("No time is left.")
            return UNUSABLE
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        try:
            return process.wait(left)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        write("The time is over.")
        return UNUSABLE

    def report(self) -> None:
        """Print what a reader of the last lines has to know."""
        if self.repeated:
            more = f" and {len(self.repeated) - SHOWN} more" if len(self.repeated) > SHOWN else ""
            write(f"Needed a second run: {', '.join(self.repeated[:SHOWN])}{more}")
        if self.missing:
            write("Passes that were left out, with servers that could not be had or for which no time was left:")
            for reason in self.missing:
                write(f"  {reason}")


def write(text: str) -> None:
    """Write a line where pytest writes."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _last_failed(cache: Path) -> list[str]:
    try:
        found: dict[str, bool] = json.loads((cache / "v" / "cache" / "lastfailed").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return list(found)


def main(seconds: float, arguments: list[str]) -> int:
    """Run all passes and return the exit code: of the first that failed, or 0."""
    suite = Suite(time.monotonic() + seconds)
    started = time.monotonic()
    code = suite.run("the wheels", arguments)
    took = time.monotonic() - started
    if code == 0 and not arguments and suite.has_time("the slow tests", ENOUGH_FOR_SLOW * took):
        write("The slow tests that a run of everything leaves out (tests/slow.py):")
        code = suite.run("the slow ones", ["--slow", "rest"])
    if code == 0 and not arguments:
        # Readable for the user as whom PostgreSQL runs when root starts it.
        folder = Path(tempfile.mkdtemp(prefix="releases-"))
        folder.chmod(0o755)
        try:
            possible = (one for one in OLDER if suite.has_time(f"PostgreSQL {one}", ENOUGH[one] * took))
            others = other_pythons()
            # The newest release of Python meets the oldest servers.
            newest, next_to_it = [*others, None, None][:2]
            pythons = dict(zip(OLDER, (newest, next_to_it, with_oldest_packages(others)), strict=False))
            codes = [suite.older(release, folder, pythons[release]) for release in possible]
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        code = next((one for one in codes if one), 0)
    suite.report()
    return code


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
