"""Words that have no place in the sources."""

from collections.abc import Mapping

from tests.architecture.sources import files

# What names the console nevertheless, and why: file → the words themselves and the reason.
OF_THE_CONSOLE: Mapping[str, tuple[str, str]] = {
    "queue_core/errors.py": ("'jobconsole migrate'", "the sentence names the command that repairs a schema"),
    "queue_core/worker/heartbeat.py": ('version("jobconsole")', "the name of the distribution that both packages are"),
}


def test_the_queue_does_not_know_its_console() -> None:
    """Neither in code nor in sentences, docstrings and comments: its settings have names of their own."""
    wrong = {}
    for name, text in (found for suffix in (".py", ".sql", ".lua") for found in files(suffix)):
        if not name.startswith("queue_core/"):
            continue
        allowed, _ = OF_THE_CONSOLE.get(name, ("", ""))
        lines = [line for line in text.splitlines() if "jobconsole" in line.lower()]
        if unknown := [line for line in lines if not allowed or allowed not in line]:
            wrong[name] = unknown
        assert not allowed or lines, f"{name}: this exception is not needed any more"
    assert wrong == {}
