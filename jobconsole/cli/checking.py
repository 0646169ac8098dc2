"""Jobs that a person writes: their payloads are held against the announced schema, and some are only rehearsed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from jobconsole.cli.failures import warn
from jobconsole.core.payloads import SchemaUnusable, validate_payload
from queue_core.errors import InvalidJob, QueueCoreError
from queue_core.middleware import Middleware

if TYPE_CHECKING:
    from queue_core.inspection import Inspector
    from queue_core.job import NewJob


class PayloadCheck(Middleware):
    """Refuses jobs whose payload does not fit; a type of which nothing was announced takes every payload."""

    def __init__(self, inspector: Inspector) -> None:
        self._inspector = inspector

    async def before_enqueue(self, jobs: Sequence[NewJob]) -> None:
        """Look at each payload, after everything else about the jobs has been found good.

        Raises:
            InvalidJob: the sentence names the parameters.
            StoreUnavailable: nobody can be asked for the schema.
        """
        types = await self._inspector.types()
        for job in jobs:
            if job.type not in types:
                continue
            try:
                wrong = validate_payload(types[job.type].schema, json.loads(job.payload))
            except SchemaUnusable as error:
                warn(f"the schema that was announced for the type '{job.type}' cannot be used: {error}")
                continue
            if wrong:
                said = "; ".join(wrong)
                raise InvalidJob(
                    f"the payload does not fit the type '{job.type}': {said}; nothing was enqueued "
                    "(--no-check enqueues it all the same)"
                )


class Rehearsed(QueueCoreError):
    """A job was found good and is not enqueued: this was only a rehearsal."""

    def __init__(self, job: NewJob) -> None:
        super().__init__(f"a rehearsal of {job.type}")
        self.job = job


class Rehearsal(Middleware):
    """Stops a job after everything about it has been checked; the hooks before this one have seen it, too."""

    async def before_enqueue(self, jobs: Sequence[NewJob]) -> None:
        """Enqueue nothing.

        Raises:
            Rehearsed: it carries the job.
        """
        raise Rehearsed(jobs[0])
