"""The filter record that every list, count and bulk verb takes, and the language that people write it in.

    type:send_email queue:mail err:~smtp age:<1h sig:9f31 payload.user.id=7 !tag:bulk status:dead "connection reset"

A term is `field:value`, `field:~part`, `field:<value` or `field:>value` (`=` works like `:`); `!` or `-` before it
turns it round. Quotes hold a value together, a backslash in them takes the next character as it is. A word without a
field is searched in the error, the payload's text, the type and the tags, and as the beginning of an id. All terms
must hold. A word that begins with `@` needs quotes: without them it names a saved filter, see `with_saved`.

What the fields mean, for every store:
  - `status` takes the states and the words pending, processing, failed and dlq; `trash:yes` looks into the trash.
  - `error` (`err`) looks into the one-line error; written with `:` it means "contains", with `=` "is exactly".
  - `signature` (`sig`) and `id` match from their beginning.
  - `age` is the time since the job's last change (of a dead job: since its death; in the trash: since it came there).
  - `died` is the time in which a dead job died, in UTC: died:02:00..02:30, died:2026-01-30T22:00..2h, died:15m (since
    then). It is read as of now.
  - `worker` is the worker that holds the job or held it last, `host` the machine that it runs on, `release` what
    it announced.
  - `owner` and `state` are those of error signatures, and hold for their dead jobs. `owner:me` is who asks,
    `owner:none` no one; `state` takes new, regressed, known, resolved and muted, and the states of jobs as `status`
    does. Readers that know signatures turn both into `signatures`, before a store sees the filter.
  - `text` looks into the error, the payload and the last traceback of dead jobs. Looking takes long: readers do it in
    pages, and turn it into `ids`.
  - `payload.<path>` follows keys and array indexes. Only strings, numbers, booleans and null match, by their text as in
    JSON without quotes; numbers on both sides are compared as numbers, and `<` and `>` compare nothing else.
  - `~` ignores case. What a job does not have matches nothing, so that turned round it matches.
"""

from queue_core.model.filters.language import FIELDS, filter_of, parse, render, with_saved
from queue_core.model.filters.match import contains, has_text, holds, host_of, matches, payload_holds
from queue_core.model.filters.saved import SavedFilter
from queue_core.model.filters.terms import Filter, Operator, Searched, Span, Term, members_of, set_of, span_of

__all__ = [
    "FIELDS",
    "Filter",
    "Operator",
    "SavedFilter",
    "Searched",
    "Span",
    "Term",
    "contains",
    "filter_of",
    "has_text",
    "holds",
    "host_of",
    "matches",
    "members_of",
    "parse",
    "payload_holds",
    "render",
    "set_of",
    "span_of",
    "with_saved",
]
