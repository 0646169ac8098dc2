"""Links to a place in the console, to hand to a colleague: `jobconsole open jobconsole://prod/signature/9f31c2aaaaaa`.

Every part is percent-encoded, so that a shell takes it as it is and no text of a job can do anything there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

from jobconsole.format.words import canonical_id, whole_id
from jobconsole.tui.views import VIEW_OF, VIEWS
from queue_core.errors import FilterError
from queue_core.model.filters import parse

SCHEME = "jobconsole://"
_PLACES = (*(view.name for view in VIEWS), *(view.item for view in VIEWS if view.item))
_LONGEST_LINK = 8_000
_SIGNATURE = re.compile(r"[0-9a-f]{1,12}")
_NUMBER = re.compile(r"[1-9][0-9]{0,14}")


class LinkError(ValueError):
    """The text is no link; the message is one sentence."""


@dataclass(frozen=True, slots=True)
class Link:
    """A place: a view, with the filter that it is narrowed by; a job, an error signature, an operation, a schedule."""

    # the name of a view, or what one thing in it is named by
    place: str
    # id of the job or signature, number of the operation, name of the schedule, or the filter as it was written;
    # "" for none
    value: str = ""
    # name of the context in the configuration file; "" for whichever is used
    context: str = ""

    @property
    def by_part(self) -> bool:
        """Whether it names a job by a part of its id."""
        return self.place == "job" and whole_id(self.value) is None

    @property
    def text(self) -> str:
        """The link as one hands it on."""
        value = f"/{quote(self.value, safe='')}" if self.value else ""
        return f"{SCHEME}{quote(self.context, safe='')}/{self.place}{value}"


def parse_link(text: str, parts: bool = False) -> Link:
    """Return the place that a link leads to; with `parts` a job may be named by a part of its id, its value then.

    Raises:
        LinkError: it is none, or leads nowhere.
    """
    text = text.strip()
    if not text.startswith(SCHEME) or len(text) > _LONGEST_LINK:
        raise LinkError(f"a link begins with {SCHEME} and leads to a view, a job, an operation or another place")
    context, *rest = (unquote(part) for part in text.removeprefix(SCHEME).split("/"))
    place = next((one for one in _PLACES if rest and rest[0] == one), None)
    value = rest[1] if len(rest) > 1 else ""
    if place is None or len(rest) > 2 or (value and place == VIEW_OF[place].name and not VIEW_OF[place].filtered):
        raise LinkError(f"the link leads nowhere; there are {', '.join(_PLACES)}")
    return Link(place, _checked(place, value, parts), context)


def _checked(place: str, value: str, parts: bool) -> str:
    if place == "job":
        job_id = canonical_id(value) if parts else whole_id(value)
        if job_id is None:
            raise LinkError(f"the link names no job: after job/ comes its id{' or a part of it' if parts else ''}")
        return job_id
    if place == "signature":
        if not _SIGNATURE.fullmatch(value):
            raise LinkError("the link names no signature: after signature/ come up to 12 hexadecimal digits")
        return value
    if place == "operation":
        if not _NUMBER.fullmatch(value):
            raise LinkError("the link names no operation: after operation/ comes its number")
        return value
    if place == "schedule":
        if not value:
            raise LinkError("the link names no schedule: after schedule/ comes its name")
        return value
    try:
        parse(value)
    except FilterError as error:
        raise LinkError(f"the link's filter cannot be understood: {error.reason}") from None
    return value
