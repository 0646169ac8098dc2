"""Rules of the configuration that give signatures an owner, a runbook and a link, and the runbooks of tasks.

What a person has set of a signature comes first; then the rule for the signature, for its type, for its queue, and the
runbook of the task itself. Each of the three is looked for on its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field

from queue_core.errors import ConfigurationError, InvalidArgument, InvalidJob
from queue_core.model.report import SignatureInfo
from queue_core.model.triage.checks import LONGEST_LINK, check_link, check_owner, check_text
from queue_core.model.triage.signatures import Ruled, SignatureRule
from queue_core.model.validation import ALL_QUEUES, SettingsModel, check_name

MAX_RULES = 1_000
"""Rules of one kind."""


def _owner(value: object) -> str | None:
    return None if value is None else _checked(check_owner, value)


def _link(value: object) -> str | None:
    return None if value is None else _checked(check_link, value)


def _place(value: object) -> str | None:
    return None if value is None else _checked(check_place, value)


def _checked(check: Callable[[object], str], value: object) -> str | None:
    try:
        return check(value) or None
    except InvalidArgument as error:
        raise ValueError(str(error)) from None


def _type(value: str) -> str:
    try:
        return check_name(value, "a type")
    except InvalidJob as error:
        raise ValueError(str(error)) from None


def _queue(value: str) -> str:
    try:
        return check_name(value, "a queue's name")
    except InvalidJob as error:
        raise ValueError(str(error)) from None


def _signature(value: object) -> str:
    # YAML reads digits alone as a number.
    text = str(value).lower()
    if not re.fullmatch(r"[0-9a-f]{4,12}", text):
        raise ValueError(f"'{str(value)[:40]}' is no signature: 4 to 12 hexadecimal digits, its beginning is enough")
    return text


class TriageRule(SettingsModel):
    """What is given to the signatures of a kind."""

    # a person or a team
    owner: Annotated[str | None, BeforeValidator(_owner)] = None
    # where to read what to do
    runbook: Annotated[str | None, BeforeValidator(_place)] = None
    link: Annotated[str | None, BeforeValidator(_link)] = None


class TriageSettings(SettingsModel):
    """The rules by what they are about."""

    # by the beginning of a signature
    signatures: dict[Annotated[str, BeforeValidator(_signature)], TriageRule] = Field(
        default_factory=dict, max_length=MAX_RULES
    )
    types: dict[Annotated[str, AfterValidator(_type)], TriageRule] = Field(default_factory=dict, max_length=MAX_RULES)
    # * is every queue
    queues: dict[Annotated[str, AfterValidator(_queue)], TriageRule] = Field(default_factory=dict, max_length=MAX_RULES)


NO_TRIAGE = TriageSettings()


@dataclass(frozen=True, slots=True)
class RuleBook:
    """The rules of the configuration, with the runbooks that tasks have themselves, by type."""

    settings: TriageSettings = NO_TRIAGE
    runbooks: Mapping[str, str] = field(default_factory=dict)
    # the types that workers have announced
    types: tuple[str, ...] = ()

    def of(self, group: SignatureInfo) -> SignatureRule:
        """Return what holds for a group of dead jobs; the most frequent of its types comes first."""
        found = list(self._rules(group))
        task = next(
            (Ruled(self.runbooks[name], f"task {name}") for name, _ in group.types if name in self.runbooks), None
        )
        return SignatureRule(
            _first((rule.owner, by) for rule, by in found),
            _first((rule.runbook, by) for rule, by in found) or task,
            _first((rule.link, by) for rule, by in found),
        )

    def _rules(self, group: SignatureInfo) -> Iterator[tuple[TriageRule, str]]:
        rules = self.settings
        alike = [name for name in rules.signatures if group.signature.startswith(name)]
        for name in sorted(alike, key=len, reverse=True):
            yield rules.signatures[name], f"signature {name}"
        for name, _ in group.types:
            if name in rules.types:
                yield rules.types[name], f"type {name}"
        for name in sorted(group.queues):
            if name in rules.queues:
                yield rules.queues[name], f"queue {name}"
        if ALL_QUEUES in rules.queues:
            yield rules.queues[ALL_QUEUES], "all queues"


def _first(found: Iterable[tuple[str | None, str]]) -> Ruled | None:
    return next((Ruled(value, by) for value, by in found if value), None)


NO_BOOK = RuleBook()


RUNBOOK_KEY = "x-runbook"
"""Where the schema that a worker announces for a type has the runbook of its task."""


def runbook_in(schema: Mapping[str, Any]) -> str:
    """Return the runbook in what was announced of a type; "" where there is none that can be shown."""
    try:
        return check_place(schema.get(RUNBOOK_KEY, ""))
    except InvalidArgument:
        return ""


def check_place(place: object) -> str:
    """Return a runbook, one line: the address of a page, or any other place to look at.

    Raises:
        InvalidArgument: no text, too long, or with characters that cannot be printed.
    """
    return check_text(place, "a runbook", LONGEST_LINK)


def check_runbook(runbook: object, task: str) -> str:
    """Return the runbook of a task, one line; "" for none.

    Raises:
        ConfigurationError: no text, too long, or with characters that cannot be printed.
    """
    try:
        return "" if runbook is None else check_place(runbook)
    except InvalidArgument as error:
        raise ConfigurationError(f"task '{task}': runbook: {error}") from None
