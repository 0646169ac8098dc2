"""What operators may set of a signature: an owner, a note, a link, and the release that mends it."""

from __future__ import annotations

import re

from queue_core.errors import InvalidArgument
from queue_core.model.text import safe
from queue_core.model.triage.release import parse_release

LONGEST_OWNER = 64
LONGEST_NOTE = 500
LONGEST_LINK = 500
"""Characters."""
_LINK = re.compile(r"(?i)(https?://[^\s/?#]|mailto:[^\s@]+@)\S*$")


def check_owner(owner: object) -> str:
    """Return the name of who takes a signature, a person or a team.

    Raises:
        InvalidArgument: no text, too long, or with characters that cannot be printed.
    """
    return check_text(owner, "an owner", LONGEST_OWNER)


def check_note(note: object) -> str:
    """Return a note, one line.

    Raises:
        InvalidArgument: no text, too long, or with characters that cannot be printed.
    """
    return check_text(note, "a note", LONGEST_NOTE)


def check_link(link: object) -> str:
    """Return the link of a signature, an address that a browser or a mail program opens; "" for none.

    Raises:
        InvalidArgument: no such address, too long, or with characters that cannot be printed.
    """
    text = check_text(link, "a link", LONGEST_LINK)
    if text and not _LINK.match(text):
        raise InvalidArgument(f"a link is an address, https://…, http://… or mailto:…, not {safe(text, 80)}")
    return text


def check_text(value: object, what: str, limit: int) -> str:
    """Return a text of one line; `what` it is, for the errors.

    Raises:
        InvalidArgument: no text, too long, or with characters that cannot be printed.
    """
    if not isinstance(value, str):
        raise InvalidArgument(f"{what} is a text, not {value!r}")
    text = value.strip()
    if len(text) > limit:
        raise InvalidArgument(f"{what} has {len(text)} characters; the limit is {limit}")
    if text and (not text.isprintable() or safe(text) != text):
        raise InvalidArgument(f"{what} cannot hold line ends, control characters or unseen ones: {safe(text, 80)}")
    return text


def check_mended(release: object) -> str:
    """Return in what a signature is resolved: a release, "next" or "now".

    Raises:
        InvalidArgument: no name of a release.
    """
    try:
        return parse_release(release)
    except ValueError as error:
        raise InvalidArgument(str(error)) from None
