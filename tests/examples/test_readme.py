"""README.md: its first five minutes, on real servers, and its other commands."""

from __future__ import annotations

import asyncio
import importlib
import re
import shlex
import sys
from asyncio.subprocess import PIPE
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobconsole.cli.root import parser_of
from tests.cli.running import Cli
from tests.conformance.working import PATIENCE, working
from tests.examples.blocks import DOCS

PAGE = (DOCS.parent / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def commands() -> list[list[str]]:
    """Return the words of each command of this program."""
    found = [shlex.split(line, comments=True) for block in blocks("sh") for line in block.splitlines()]
    joined = [shlex.split(part) for words in found for part in shlex.join(words).split(" '&&' ")]
    return [words for words in joined if Path(words[0]).name == "jobconsole"]


def test_its_commands_are_understood() -> None:
    found = commands()
    assert len(found) == 6
    for words in found:
        options = parser_of().parse_args(words[1:])
        assert callable(options.run) if words[1:] else not hasattr(options, "run")


@pytest.fixture
def shop(
    tmp_path: Path, postgres_url: str, redis_url: str, redis_prefix: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Any]:
    """The page's module, on these servers."""
    module, _ = blocks("python")
    for written, ours in (
        ("postgresql://app@localhost/app", postgres_url),
        ('redis://localhost:6379/0"', f'{redis_url}", prefix="{redis_prefix}"'),
    ):
        assert written in module
        module = module.replace(written, ours)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "shop.py").write_text(module)
    yield importlib.import_module("shop")
    del sys.modules["shop"]


async def test_the_first_five_minutes(
    shop: Any, tmp_path: Path, postgres_url: str, redis_url: str, redis_prefix: str
) -> None:
    """A job of the command line, and one of a program, which the page's worker runs."""
    environ = {"JOBS__QUEUE_BACKEND": "redis", "JOBS__POSTGRES__URL": postgres_url, "JOBS__REDIS__URL": redis_url}
    assert all(f"export {name}=" in PAGE for name in environ)
    (enqueue,) = (words for words in commands() if words[1:3] == ["job", "enqueue"])
    _, program = blocks("python")
    async with shop.jobs, working(shop.jobs):
        answer = await asyncio.to_thread(Cli(environ | {"JOBS__REDIS__PREFIX": redis_prefix}), *enqueue[1:])
        assert answer.code == 0, answer.err
        assert await shop.jobs.result(answer.out.strip(), PATIENCE) == {"made": "a.png@200"}
        ran = await asyncio.create_subprocess_exec(sys.executable, "-c", program, cwd=tmp_path, stdout=PIPE)
        out, _ = await ran.communicate()
    assert out.decode() == "{'made': 'a.png@100'}\n"
