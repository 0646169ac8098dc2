"""Messages of the refresher and the operator to the screens. Where possible the newest replaces older ones."""

from __future__ import annotations

from textual.message import Message

from jobconsole.actions.plan import Plan, Report, Target


class Newest(Message, bubble=False):
    """A message that replaces an older one of its kind in the same mailbox."""

    def can_replace(self, message: Message) -> bool:
        """Whether this one takes the other's place."""
        return type(message) is type(self)


class Flush(Newest):
    """Draw what has changed; four times a second."""


class Adopted(Newest):
    """The model has adopted a new snapshot."""


class ServersChanged(Newest):
    """A server was lost, came back, or could be reached for the first time."""


class Operating(Newest):
    """The operations that have not ended have been read."""


class Progressed(Newest):
    """An operation has made progress."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.report = report


class Finished(Message, bubble=False):
    """An operation has ended."""

    def __init__(self, report: Report) -> None:
        super().__init__()
        self.report = report


class PlanReady(Message, bubble=False):
    """The ids of a target are frozen; `problem` is the reason when they are not."""

    def __init__(self, target: Target, plan: Plan | None, problem: str = "") -> None:
        super().__init__()
        self.target = target
        self.plan = plan
        self.problem = problem
