"""PostgreSQL before 17 subtracts nothing from an infinite time: statements compare such times, or bound them first."""

import re
from pathlib import Path

import queue_core.stores.postgres
from queue_core.blocks import blocks_of

FOLDER = Path(queue_core.stores.postgres.__file__).parent
# Columns with times that may be infinite, in any table.
INFINITE = ("next_at", "counted_at", "expires_at")
SUBTRACTED = re.compile(rf"\b({'|'.join(INFINITE)})\s*-(?!-)|-\s*(\w+\.)?({'|'.join(INFINITE)})\b")


def statements() -> dict[str, str]:
    """Return each block of the SQL files, and each file without blocks, without comments."""
    found: dict[str, str] = {}
    for path in sorted(FOLDER.rglob("*.sql")):
        name, text = str(path.relative_to(FOLDER)), path.read_text(encoding="utf-8")
        found |= {f"{name}:{block}": part for block, part in blocks_of(text).items()} or {name: text}
    return {name: re.sub(r"--.*", "", text) for name, text in found.items()}


def test_no_statement_subtracts_with_a_column_that_may_be_infinite() -> None:
    found = {name: match.group() for name, text in statements().items() if (match := SUBTRACTED.search(text))}
    assert found == {}


def test_an_infinite_time_is_written_only_to_these_columns() -> None:
    """Another one has to be looked at as above: those that write it are few, and each writes one of these columns."""
    writers = {name for name, text in statements().items() if "infinity'" in text}
    unknown = [name for name in writers if not any(column in statements()[name] for column in INFINITE)]
    assert writers
    assert unknown == []
