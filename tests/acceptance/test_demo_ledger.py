"""The demo's ledger: what a kill leaves of it, and how it is put together."""

import os
from pathlib import Path

from jobconsole.demo.ledger import Ledger, LedgerWriter, read_ledger


def written(folder: Path, text: str) -> Ledger:
    (folder / "1.ledger").write_text(text)
    return read_ledger(folder)


def test_what_one_process_wrote_is_read_back(tmp_path: Path) -> None:
    writer = LedgerWriter(tmp_path)
    writer.batch("demo-1", 2)
    writer.enqueued("demo-1", ["a", "b"])
    writer.start("a", 7, "host:12 of 3")
    writer.fail("a", 7, "ValueError")
    writer.start("a", 9, "host:13")
    writer.end("a", 9)
    writer.refused("a", 7)

    ledger = read_ledger(tmp_path)

    assert ledger.enqueued == {"a", "b"}
    assert not ledger.open_batches
    assert ledger.starts == {"a": {7: "host:12 of 3", 9: "host:13"}}
    assert ledger.highest("a") == 9
    assert ledger.highest("b") == 0
    assert ledger.ends == {("a", 9)}
    assert ledger.refusals == {("a", 7)}
    assert ledger.failures == {"ValueError": 1}


def test_a_batch_without_its_answer_stays_open(tmp_path: Path) -> None:
    ledger = written(tmp_path, "batch demo-1 2\nenqueued demo-1 a b\nbatch demo-2 3\n")
    assert ledger.open_batches == {"demo-2"}
    assert ledger.enqueued == {"a", "b"}


def test_a_line_cut_by_a_kill_counts_for_nothing(tmp_path: Path) -> None:
    ledger = written(tmp_path, "batch demo-1 2\nenqueued demo-1 a 0197c")
    assert ledger.open_batches == {"demo-1"}
    assert not ledger.enqueued


def test_a_job_that_a_handler_has_started_was_enqueued_by_somebody(tmp_path: Path) -> None:
    assert written(tmp_path, "start x 3 w\n").known() == {"x"}


def test_every_process_writes_its_own_file_also_after_a_fork(tmp_path: Path) -> None:
    writer = LedgerWriter(tmp_path)
    writer.start("a", 1, "parent")
    child = os.fork()
    if child == 0:
        writer.start("b", 2, "child")
        os._exit(0)
    os.waitpid(child, 0)
    writer.end("a", 1)

    assert (tmp_path / f"{os.getpid()}.ledger").read_text() == "start a 1 parent\nend a 1\n"
    assert (tmp_path / f"{child}.ledger").read_text() == "start b 2 child\n"
