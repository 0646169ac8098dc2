"""PostgreSQL before 17 subtracts nothing from an infinite time: statements compare such times, or bound them first."""

import re
from pathlib import Path

import queue_core.stores.postgres

FOLDER = Path(queue_core.stores.postgres.__file__).parent
# Columns with times that may be infinite, in any table.
INFINITE = ("next_at", "counted_at", "expires_at")
SUBTRACTED = re.compile(rf"\b({'|'.join(INFINITE)})\s*-(?!-)|-\s*(\w+\.)?({'|'.join(INFINITE)})\b")


def statements() -> dict[str, str]:
    """Return what each SQL file says, without its comments."""
    files = sorted(FOLDER.rglob("*.sql"))
    return {str(path.relative_to(FOLDER)): re.sub(r"--.*", "", path.read_text(encoding="utf-8")) for path in files}


def test_no_statement_subtracts_with_a_column_that_may_be_infinite() -> None:
    found = {name: match.group() for name, text in statements().items() if (match := SUBTRACTED.search(text))}
    assert found == {}


def test_an_infinite_time_is_written_only_to_these_columns() -> None:
    """Another one has to be looked at as above: those that write it are few, and each writes one of these columns."""
    writers = {name for name, text in statements().items() if "infinity'" in text}
    unknown = [name for name in writers if not any(column in statements()[name] for column in INFINITE)]
    assert writers
    assert unknown == []
