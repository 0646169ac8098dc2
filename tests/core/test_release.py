"""Names of releases, and the one order of deploys, rollbacks and hotfixes."""

import pytest
from pydantic import ValidationError

from queue_core.errors import ConfigurationError, InvalidArgument
from queue_core.model.operation import Rollout
from queue_core.model.settings import JobsSettings, with_release
from queue_core.model.triage.checks import check_mended
from queue_core.model.triage.release import parse_release, place_among, version_of
from queue_core.model.validation import check_rollout

ORDERS = (
    ("r9", "r10", "r124"),
    ("1.4.9", "1.5.0", "v1.10", "2"),
    ("1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.0.1+build.7"),
    ("1.0.dev3", "1.0a1.dev1", "1.0a1", "1.0rc2", "1.0", "1.0.post1.dev1", "1.0.post1", "1!0.1"),
    ("2026-11-22", "2026-11-22T1200", "2026-11-23"),
    ("20261122", "20261123"),
    ("release-12", "release-13"),
    ("2024.9", "2024.10"),
)


@pytest.mark.parametrize("names", ORDERS, ids=lambda names: names[0])
def test_versions_have_an_order(names: tuple[str, ...]) -> None:
    found = [version_of(name) for name in names]
    for place, one in enumerate(found):
        assert one is not None
        assert [one.exceeds(other) for other in found if other] == [place > n for n in range(len(found))]


@pytest.mark.parametrize("name", ["4820193", "1e3f5a7", "12a3456", "0a1b2c3d4e5f60718293a4b5c6d7e8f901234567", "main"])
def test_hashes_and_words_have_none(name: str) -> None:
    assert version_of(name) is None


def test_families_do_not_compare() -> None:
    one, other = version_of("r124"), version_of("1.5.0")
    assert one is not None
    assert other is not None
    assert (one.exceeds(other), other.exceeds(one)) == (False, False)


@pytest.mark.parametrize(
    ("name", "known", "place"),
    [
        ("r1", [], 0),
        ("main-7f", ["r1", "r2"], 2),
        ("r3", ["r1", "r2"], 2),
        # a rollback to what never ran here, and a hotfix of the line before
        ("r3", ["r1", "r2", "r4"], 2),
        ("1.4.9", ["1.4.8", "1.5.0"], 1),
        # only versions of the same kind count, and the first greater one
        ("r3", ["r5", "9.0", "main", "r4"], 0),
        ("r6", ["r5", "9.0", "main", "r4"], 4),
        # as great as one that is there
        ("v1.5", ["1.5.0", "2.0"], 1),
    ],
)
def test_a_new_one_has_one_place(name: str, known: list[str], place: int) -> None:
    assert place_among(name, known) == place


@pytest.mark.parametrize(
    "name",
    [
        "",
        " r1",
        "r1\n",
        "r\x1b[31m1",
        "r\u202e1",
        "r\u200b1",
        "x" * 65,
        124,
        None,
        "r\ufe0f1",
        "?",
        "-",
        "--",
        "…",
        "- ?",
    ],
)
def test_names_that_cannot_be(name: object) -> None:
    with pytest.raises(ValueError, match="release"):
        parse_release(name)
    with pytest.raises(ConfigurationError):
        with_release(JobsSettings(), name)  # type: ignore[arg-type]


def test_names_that_can_be() -> None:
    for name in ("1", "é", "v-1", "r124", "2026-11-23 10:00", "föö/bar@7f3", "x" * 64):
        assert parse_release(name) == name
        assert JobsSettings(release=name).release == name
    assert JobsSettings(release="").release is None


@pytest.mark.parametrize("name", ["?", "-", "..."])
def test_a_name_that_reads_as_unknown_is_refused_everywhere(name: str) -> None:
    with pytest.raises(ValidationError, match="a release's name has a letter or a digit"):
        JobsSettings(release=name)
    with pytest.raises(InvalidArgument, match="a release's name has a letter or a digit"):
        check_mended(name)
    with pytest.raises(InvalidArgument, match="a release's name has a letter or a digit"):
        check_rollout(Rollout(when_release=name))
