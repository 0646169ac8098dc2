"""Shells complete the names of queues, types and signatures that there are: brief, silent, harmless."""

from __future__ import annotations

import asyncio
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from jobconsole.cli import completion
from tests.cli.conftest import Shop
from tests.cli.running import Cli
from tests.conformance.world import World
from tests.tui.scenes import dead, smtp

STUB = """jobconsole() { printf '%s\\n' "$*" >> asked; printf '%s\\n' mail 'ma il' '$(touch harm)' other; }
"""


async def scene(world: World) -> None:
    """A dead job, and queues with strange names."""
    await dead(world, 1, smtp(), type="send_email", queue="mail")
    await world.insert(type="send_email", queue="ma il; x")


def test_names_are_printed_one_a_line_in_every_mode(shop: Shop) -> None:
    shop.play(scene)
    assert shop("completion", "--names", "queue").out == "ma il; x\nmail\n"
    assert shop("completion", "--names", "signature").out == "9f31c2aaaaaa\n"
    assert shop("completion", "--names", "type", "--json").body["names"] == []


def test_without_a_server_nothing_is_printed(alone: Cli) -> None:
    answer = alone("--redis-url", "redis://127.0.0.1:1/0", "completion", "--names", "queue")
    assert (answer.code, answer.out, answer.err) == (0, "", "")
    answer = alone("completion", "--names", "queue")
    assert (answer.code, answer.out, answer.err) == (0, "", "")


def test_a_slow_store_is_not_waited_for(file_shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(jobs: object, kind: str) -> list[str]:
        await asyncio.sleep(60)
        return ["late"]

    monkeypatch.setattr(completion, "_names", slow)
    monkeypatch.setattr(completion, "NAMES_SECONDS", 0.05)
    file_shop("job", "enqueue", "x", "{}")
    assert file_shop("completion", "--names", "queue").out == ""


def test_no_shell_is_a_mistake(alone: Cli) -> None:
    assert alone("completion").code == 2


def test_no_variable_has_a_name_that_zsh_gives_a_meaning(alone: Cli) -> None:
    """A local `path` is PATH there: no command would be found."""
    declared = re.findall(r"^ *local (.*)$", alone("completion", "zsh").out, re.MULTILINE)
    assert declared
    assert not re.search(r"(?<![\w$\"])(path|cdpath|fpath|manpath|status|prompt|argv|options)\b", "\n".join(declared))


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")
@pytest.mark.parametrize(
    ("words", "found", "asked"),
    [
        (("queue", "pause", "ma"), "mail\nma\\ il\n", "queue"),
        (("job", "list", "--queue", "o"), "other\n", "queue"),
        (("dlq", "retry", "--signature", "o"), "other\n", "signature"),
        (("type", "show", "o"), "other\n", "type"),
        (("--context", "prod", "job", "list", "--type", "o"), "other\n", "type --context prod"),
        (("job", "list", "--queue", "=", "$"), "\\$\\(touch\\ harm\\)\n", "queue"),
    ],
)
def test_bash_offers_them_quoted(alone: Cli, elsewhere: Path, words: tuple[str, ...], found: str, asked: str) -> None:
    script = alone("completion", "bash").out
    line = " ".join(f"'{word}'" for word in ("jobconsole", *words))
    ask = f"COMP_WORDS=({line}); COMP_CWORD={len(words)}; _jobconsole; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{STUB}\n{ask}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=elsewhere,
    )
    assert (done.stdout, done.stderr) == (found, "")
    assert (elsewhere / "asked").read_text() == f"completion --names {asked}\n"
    assert not (elsewhere / "harm").exists()


def test_fish_asks_the_same_way(alone: Cli) -> None:
    script = alone("completion", "fish").out
    assert "-l queue -x -a '(jobconsole completion --names queue 2>/dev/null </dev/null)'" in script
    assert "-a '(jobconsole completion --names type 2>/dev/null </dev/null)'" in script
