"""The filter record that every list, count and bulk verb takes, and the language that people write it in.

    type:send_email queue:mail err:~smtp age:<1h sig:9f31 payload.user.id=7 !tag:bulk status:dead "connection reset"

A term is `field:value`, `field:~part`, `field:<value` or `field:>value` (`=` works like `:`); `!` or `-` before it
turns it round. Quotes hold a value together, a backslash in them takes the next character as it is. A word without a
field is searched in the error, the payload's text, the type and the tags, and as the beginning of an id. All terms
must hold.

What the fields mean, for every store:
  - `status` takes the states and the words pending, processing, failed and dlq; `trash:yes` looks into the trash.
  - `error` (`err`) looks into the one-line error; written with `:` it means "contains", with `=` "is exactly".
  - `signature` (`sig`) and `id` match from their beginning.
  - `age` is the time since the job's last change (of a dead job: since its death; in the trash: since it came there).
  - `died` is the time in which a dead job died, in UTC: died:02:00..02:30, died:2026-01-30T22:00..2h, died:15m (since
    then). It is read as of now.
  - `worker` is the worker that holds the job or held it last, `host` the machine that it runs on, `release` what
    it announced.
  - `payload.<path>` follows keys and array indexes. Only strings, numbers, booleans and null match, by their text as in
    JSON without quotes; numbers on both sides are compared as numbers, and `<` and `>` compare nothing else.
  - `~` ignores case. What a job does not have matches nothing, so that turned round it matches.
"""

from queue_core.model.filters.language import FIELDS, filter_of, parse, render
from queue_core.model.filters.match import contains, holds, host_of, matches, payload_holds
from queue_core.model.filters.terms import Filter, Operator, Span, Term, span_of

__all__ = [
    "FIELDS",
    "Filter",
    "Operator",
    "Span",
    "Term",
    "contains",
    "filter_of",
    "holds",
    "host_of",
    "matches",
    "parse",
    "payload_holds",
    "render",
    "span_of",
]
