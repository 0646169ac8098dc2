"""Releases of programs: their names, and the total order in which each has one place."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from queue_core.model.text import safe

LONGEST_RELEASE = 64
"""Characters of a release's name."""
MAX_RELEASES = 1000
"""Releases that a store keeps; the ones of the lowest place without a live worker are forgotten beyond it."""
UNKNOWN_RELEASE = 0
"""The number of no release: of attempts whose worker announced none, and of those before releases were stored."""


def parse_release(value: object) -> str:
    """Return the name of a release, such as "r124", "1.5.0" or a commit's hash.

    Raises:
        ValueError: empty, too long, without a letter or a digit, or with characters that cannot be printed.
    """
    if not isinstance(value, str):
        raise ValueError(f'a release is a text in quotes, such as "r124", not {value!r}')  # noqa: TRY004
    if not value:
        raise ValueError("a release's name cannot be empty")
    if len(value) > LONGEST_RELEASE:
        raise ValueError(f"a release's name has {len(value)} characters; the limit is {LONGEST_RELEASE}")
    if not value.isprintable() or safe(value) != value or value.strip() != value:
        raise ValueError(f"a release's name cannot hold control or unseen characters, or spaces at its ends: {value!r}")
    if not any(map(str.isalnum, value)):
        raise ValueError(f"a release's name has a letter or a digit: {value!r} reads as an unknown one in lists")
    return value


_FINAL = (1, ())
"""The last part of a version that is no pre-release, which is greater than any."""
_WORDS = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}
_VERSION = re.compile(
    r"(?P<family>(?:[A-Za-z][A-Za-z_]*[-_. ]?)?)"
    r"(?:(?P<epoch>\d{1,9})!)?"
    r"(?P<numbers>\d{1,18}(?:\.\d{1,18}){0,7}|\d{4}-\d{2}-\d{2}(?:[-T.]\d{1,6}){0,3})"
    r"(?:[-_.]?(?P<pre>a|b|c|rc|alpha|beta|pre|preview)[-_.]?(?P<pre_n>\d{0,9}))?"
    r"(?:[-_.]?(?P<post>post|rev)[-_.]?(?P<post_n>\d{0,9}))?"
    r"(?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d{0,9}))?"
    r"(?:-(?P<semver>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
    r"(?:\+[0-9A-Za-z.-]+)?"
)
_HASH = re.compile(r"[0-9a-f]{7,64}")
_DATE = re.compile(r"(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{0,6}")


@dataclass(frozen=True, slots=True)
class Version:
    """The version in a release's name: comparable with those of the same family."""

    # what precedes the numbers, "" also for "v"
    family: str
    key: tuple[object, ...]

    def exceeds(self, other: Version) -> bool:
        """Return whether this version is greater than another one of its family."""
        return self.family == other.family and self.key > other.key


def version_of(name: str) -> Version | None:
    """Return the version that a name reads as (semver, PEP 440, r124, a date); None: it reads as none.

    What may be a commit's hash (7 or more of 0 to 9 and a to f) is no version, unless it is a date.
    """
    if _HASH.fullmatch(name) and not _DATE.fullmatch(name):
        return None
    match = _VERSION.fullmatch(name)
    if match is None:
        return None
    family = match["family"].casefold().rstrip("-_. ")
    numbers = [int(part) for part in re.split(r"[.T-]", match["numbers"])]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    key = (int(match["epoch"] or 0), tuple(numbers), _before(match), _after(match), _dev(match))
    return Version("" if family == "v" else family, key)


def has_greater_version(name: str, other: str) -> bool | None:
    """Return whether a release has a greater version than another one; None: they are no versions of one family."""
    mine, its = version_of(name), version_of(other)
    return mine.exceeds(its) if mine and its and mine.family == its.family else None


def _before(match: re.Match[str]) -> tuple[object, ...]:
    """Return the order among the pre-releases of a version; the version itself comes after them."""
    if match["pre"]:
        return (0, (_part(_WORDS.get(match["pre"], match["pre"])), _part(match["pre_n"] or "0")))
    if match["semver"]:
        return (0, tuple(_part(part) for part in match["semver"].split(".")))
    # In PEP 440 1.0.dev1 comes before 1.0a1.
    return (-1, ()) if match["dev"] and not match["post"] else _FINAL


def _after(match: re.Match[str]) -> int:
    return int(match["post_n"] or 0) if match["post"] else -1


def _dev(match: re.Match[str]) -> tuple[int, int]:
    return (0, int(match["dev_n"] or 0)) if match["dev"] else (1, 0)


def _part(text: str) -> tuple[int, int, str]:
    """Return a part of a pre-release in the order of semver: numbers first, as numbers."""
    return (0, int(text), "") if text.isdecimal() else (1, 0, text)


def place_among(name: str, known: Sequence[str]) -> int:
    """Return before which of the known releases, in their order, a new one belongs; their number: after all.

    That is the last place, unless it reads as a version: then it is before the first greater one.
    """
    version = version_of(name)
    if version is not None:
        for place, other in enumerate(known):
            of_other = version_of(other)
            if of_other is not None and of_other.exceeds(version):
                return place
    return len(known)
