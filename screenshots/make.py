"""Pictures of every screen at both sizes, from the real application over the demo's servers, workers and jobs.

    .venv/bin/python screenshots/make.py [--seconds 60] [--only triage]

Writes `<screen>-<columns>x<lines>.svg` here, and `.png` beside it where Chromium or cairosvg is found.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from jobconsole.core.connection import Connection, ContextInfo
from jobconsole.core.contexts import Places
from jobconsole.demo.options import DemoOptions
from jobconsole.demo.orders import BROKEN
from jobconsole.demo.releases import take_known
from jobconsole.demo.stage import Stage, open_stage
from jobconsole.embedded.servers import EmbeddedServers
from jobconsole.tui.app import ConsoleApp
from jobconsole.tui.base.host import Hint
from queue_core import JobQueue

HERE = Path(__file__).parent
SIZES = ((80, 24), (200, 50))
PATIENCE_SECONDS = 20.0
TRIES = 4
"""Of each picture: what it waits for may end while its keys are pressed."""
SETTLE_SECONDS = 2.5
"""Until the picture after the last key is whole, with a second read of everything."""
BAR = "━━"
"""Part of a progress bar: something is running."""
PNG_WIDTH = 1400
"""Pixels at most; a README shows them no wider."""
COLOURS = 255
"""In a PNG's palette: the screens use some twenty, the rest is for the edges of letters."""


@dataclass(frozen=True)
class Shot:
    """One picture: keys from the first screen on, and texts that must stand there."""

    name: str
    keys: tuple[str, ...]
    awaited: tuple[str, ...]


SHOTS = (
    Shot("triage", ("g",), ("Dead letters", "KeyError", "r2!", BAR)),
    Shot("breakdown", ("g", "f"), ("[Breakdown]", "address.state")),
    Shot("compare", ("g", "c"), ("[Compare]", "region")),
    Shot("when", ("g", "R", *("up",) * 8, "r", "3", "enter"), ("[r3]", "announces r3")),
    Shot("signature", ("enter",), ("Jobs",)),
    Shot("job", ("enter", "enter"), ("attempts", "ended")),
    Shot("retry", ("R",), ("exactly", "sample")),
    Shot("filter", ("slash", *"err:~error age:<1h"), ("age:<1h",)),
    Shot("live", ("2", "tab"), ("Queues", BAR)),
    Shot("full", ("f", "left_square_bracket"), ("[Traceback]",)),
    Shot("timeline", ("g", "enter", "enter", *["left_square_bracket"] * 3), ("[Timeline]", "enqueued")),
    Shot("diff", ("g", "enter", "enter", *["left_square_bracket"] * 2), ("[Diff]", "message")),
    Shot("stack", ("2", "tab", "L"), ("[Stack]", "in ")),
    Shot("state", ("g", "Z"), ("[4h]", "Silent")),
    Shot("contexts", ("0",), ("Contexts  3", "✓", "lost")),
    Shot("export", ("e",), ("Export jobs",)),
    Shot("types", ("2", "right_square_bracket"), ("Types", "P95")),
    Shot("schedules", ("5", "j"), ("Schedules", "by name")),
    Shot("schedule", ("5", "j", "enter", "tab"), ("Last ticks", "completed")),
    Shot("edit", ("E", "down", "end", "left", "left", "1"), ("Enqueue as a new job",)),
    Shot("move", ("M", "down", "tab", "right"), ("exactly", "reason")),
    Shot("events", ("6",), ("following", "claimed")),
    Shot("jobs", ("3", "j", "j", "space", "j", "space"), ("marked",)),
    Shot("help", ("question_mark",), ("Esc goes back",)),
    # Last: it retries what the others show.
    Shot("operations", ("asterisk", "R", "enter", "4"), ("Operation  #", "retry")),
)
SCHEDULES = (
    ("daily-report", "*/20 * * * * *", "Europe/Paris", "documents", "read_records", {"path": "/srv/reports/today.csv"}),
    ("hosts-archive", "*/15 * * * * *", "UTC", "files", "compress_file", {"path": "/etc/hosts"}),
    ("newsletter", "30 6 * * MON", "Europe/Paris", "documents", "read_document", {"path": "/srv/letters/monday.json"}),
    ("yearly-statement", "0 0 1 1 *", "America/New_York", "archives", "archive_folder", {"folder": "/srv/statements"}),
)
"""Name, expression, zone, queue, type and payload; the demo itself has none."""
LOST = Shot("lost", (), ("LOST since",))


def main() -> int:
    """Make the pictures; 0 when all are there."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long the demo works before the first picture")
    parser.add_argument("--only", default="", help="the name of one screen")
    options = parser.parse_args()
    shots = [shot for shot in SHOTS if options.only in {"", shot.name}]
    with EmbeddedServers.start() as servers:
        addresses = DemoOptions(postgres_url=servers.postgres_url, redis_url=servers.redis_url)
        with open_stage(addresses) as stage:
            asyncio.run(plan(stage))
            time.sleep(options.seconds / 2)
            asyncio.run(break_receipts(stage))
            time.sleep(options.seconds / 2)
            asyncio.run(shoot(stage, shots, servers if options.only in {"", LOST.name} else None))
    for picture in sorted(HERE.glob("*.svg")):
        convert(picture)
    return 0


async def plan(stage: Stage) -> None:
    """Give the demo schedules; its workers look after them."""
    async with JobQueue.from_settings(stage.settings) as jobs:
        for name, cron, tz, queue, type_, payload in SCHEDULES:
            jobs.schedule(name, cron, type_, payload, tz=tz, queue=queue)
        await jobs.schedules.announce()
        await jobs.schedules.pause("newsletter")


async def break_receipts(stage: Stage) -> None:
    """Give the failures so far their owners, and deploy the release that breaks receipts."""
    async with JobQueue.from_settings(stage.settings) as jobs:
        await take_known(jobs)
    await stage.workers.deploy(BROKEN)


async def shoot(stage: Stage, shots: list[Shot], servers: EmbeddedServers | None) -> None:
    """Take all pictures at all sizes, the one without PostgreSQL last, where `servers` are given to take it from."""
    for shot in shots:
        for size in SIZES:
            await take_again(stage, shot, size)
    if servers is not None:
        for size in SIZES:
            servers.postgres.start()
            await take(stage, LOST, size, before=servers.postgres.kill)
        servers.postgres.start()


async def take_again(stage: Stage, shot: Shot, size: tuple[int, int]) -> None:
    """Take one picture, with a few tries.

    Raises:
        TimeoutError: what it waits for did not come in any of them.
    """
    for left in reversed(range(TRIES)):
        try:
            return await take(stage, shot, size)
        except TimeoutError:
            if not left:
                raise


async def take(stage: Stage, shot: Shot, size: tuple[int, int], before: Callable[[], None] | None = None) -> None:
    """Open a console of this size, press the keys, write the picture."""
    hints = [Hint.parse(hint) for hint in stage.hints]
    connection = Connection(lambda: JobQueue.from_settings(stage.settings))
    app = ConsoleApp(connection, context="demo", hints=hints, places=contexts(stage))
    async with app.run_test(size=size) as pilot:
        await until(lambda: app.model.snapshot is not None, shot)
        await asyncio.sleep(SETTLE_SECONDS)
        if before is not None:
            await asyncio.to_thread(before)
        for key in shot.keys:
            await pilot.press(key)
            await pilot.pause(0.3)
        await asyncio.sleep(SETTLE_SECONDS)
        await until(lambda: all(text in text_of(app) for text in shot.awaited), shot)
        target = HERE / f"{shot.name}-{size[0]}x{size[1]}.svg"
        target.write_text(cleaned(app.export_screenshot(title="jobconsole")), encoding="utf-8")
        sys.stdout.write(f"{target.name}\n")


def contexts(stage: Stage) -> Places:
    """Return the demo as a context beside an empty one, and one whose server is away."""
    openers = {
        "demo": lambda: JobQueue.from_settings(stage.settings),
        "staging": lambda: JobQueue(memory=True),
        "standby": lambda: JobQueue(redis="redis://127.0.0.1:1/0"),
    }
    found = {name: (ContextInfo(name, name), opener) for name, opener in openers.items()}
    return Places(lambda: found, len(found))


async def until(condition: Callable[[], bool], shot: Shot) -> None:
    """Wait until a condition holds.

    Raises:
        TimeoutError: it did not come true.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{shot.name}: {shot.awaited} did not come")
        await asyncio.sleep(0.1)


def text_of(app: ConsoleApp) -> str:
    """Return the text of the screen."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


def cleaned(svg: str) -> str:
    """Return the picture without addresses of fonts elsewhere, and with names that do not change at each run."""
    svg = re.sub(r',\s*url\("https?://[^)]*\)\s*format\("woff2?"\)', "", svg)
    return re.sub(r"terminal-\d+", "terminal", svg)


def convert(picture: Path) -> None:
    """Write a small PNG beside an SVG, where there is a program for it."""
    target = picture.with_suffix(".png")
    programs = ("chromium", "chromium-browser", "google-chrome")
    chromium = next((found for name in programs if (found := shutil.which(name))), "")
    if chromium:
        by_chromium(chromium, picture, target)
    else:
        by_cairo(picture, target)
    if target.exists():
        shrink(target)


def by_chromium(program: str, picture: Path, target: Path) -> None:
    """Let Chromium draw it: it places letters best."""
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', picture.read_text(encoding="utf-8"))
    if box is None:
        return
    width, height = (int(float(side) + 1) for side in box.groups())
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                f"--user-data-dir={profile}", f"--window-size={width},{height}", f"--screenshot={target}",
                picture.as_uri(),
            ],
            check=False, capture_output=True, timeout=120,
        )  # fmt: skip


def by_cairo(picture: Path, target: Path) -> None:
    """Let cairosvg draw it, where it is installed."""
    try:
        import cairosvg
    except ImportError:
        return
    cairosvg.svg2png(url=str(picture), write_to=str(target))


def shrink(target: Path) -> None:
    """Make the picture small in bytes: no wider than needed, with a palette."""
    from PIL import Image

    with Image.open(target) as image:
        picture = image.convert("RGB")
    if picture.width > PNG_WIDTH:
        height = round(picture.height * PNG_WIDTH / picture.width)
        picture = picture.resize((PNG_WIDTH, height), Image.Resampling.LANCZOS)
    # By coverage: the few orange letters must not become grey.
    picture.quantize(COLOURS, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(target, optimize=True)


if __name__ == "__main__":
    raise SystemExit(main())
