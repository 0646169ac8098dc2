"""Each patch still fits, and some are seen; `python -m tests.mutations` runs all of them."""

from __future__ import annotations

import ast
from random import Random

import pytest

from tests.architecture.sources import ROOT
from tests.faults.plant import SEED
from tests.mutations.mutant import Mutant, PatchError
from tests.mutations.running import Copy
from tests.mutations.table import MUTANTS

COUNT = 3


def test_there_are_enough_of_each_kind() -> None:
    assert len(MUTANTS) >= 40
    endings = {one.file.rpartition(".")[2] for one in MUTANTS.values()}
    assert endings == {"sql", "lua", "py"}


@pytest.mark.parametrize("mutant", MUTANTS.values(), ids=MUTANTS)
def test_each_patch_fits(mutant: Mutant) -> None:
    text = mutant.apply(ROOT)
    assert text != (ROOT / mutant.file).read_text(encoding="utf-8")
    if mutant.file.endswith(".py"):
        ast.parse(text)
    assert [test for test in mutant.tests if not (ROOT / "tests" / test).exists()] == []


def test_a_patch_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(PatchError, match="0 times"):
        Mutant("m", "queue_core/errors.py", (("no such text", ""),), ()).apply(ROOT)


@pytest.mark.timeout(600)
def test_some_are_seen() -> None:
    """Those that take no servers of their own."""
    quick = sorted(name for name, one in MUTANTS.items() if all(test.startswith("conformance/") for test in one.tests))
    with Copy() as copy:
        found = [copy.run(MUTANTS[name]) for name in Random(SEED).sample(quick, COUNT)]
    assert [one for one in found if not one.killed] == []
