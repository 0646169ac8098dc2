"""The settings of console, command line and exporter: a job queue's, plus the context that one looks at it in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from queue_core.configuration import Loaded, load, read_block
from queue_core.errors import ConfigurationError
from queue_core.model.settings import JobsSettings
from queue_core.model.validation import Duration, Model

Colour = Literal["red", "orange", "yellow", "green", "cyan", "blue", "magenta", "grey"]


class Alerts(Model):
    """From which value on the console rings the bell and notifies; what is left out never does."""

    # jobs in the DLQ
    dead: int | None = Field(default=None, ge=1)
    # deaths within the console's time window, at most an hour
    deaths: int | None = Field(default=None, ge=1)
    # ready jobs
    queued: int | None = Field(default=None, ge=1)
    # age of the oldest ready job
    oldest: Duration | None = None
    lost_workers: int | None = Field(default=None, ge=1)
    bell: bool = True
    # by OSC 9, which many terminals show on the desktop
    notify: bool = True


class Context(Model):
    """A named place to look at, such as staging or prod; its `jobs:` block is applied by `queue_core.configuration`."""

    # refuse everything that changes jobs
    read_only: bool = False
    # of the header
    colour: Colour | None = None
    # stands in the header; the context's name in capitals when left out
    word: str | None = None
    alerts: Alerts = Alerts()


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """What a front end needs to know."""

    jobs: JobsSettings
    # None: no context was chosen
    context: str | None = None
    read_only: bool = False
    colour: str | None = None
    word: str = ""
    alerts: Alerts = field(default_factory=Alerts)
    # the configuration file, or None
    source: Path | None = None
    # every context of the file
    contexts: Mapping[str, Context] = field(default_factory=dict)


def read_settings(
    path: str | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    context: str | None = None,
    read_only: bool = False,
) -> ConsoleSettings:
    """Return the settings in a context (`context`, else JOBCONSOLE_CONTEXT, else none).

    Raises:
        ConfigurationError: as `queue_core.configuration.load`, and for a context that is unknown or malformed.
    """
    loaded = load(path, environ, overrides, context)
    name = loaded.context
    contexts = {key: _context(loaded, key) for key in loaded.contexts}
    if name is None:
        return ConsoleSettings(loaded.settings, read_only=read_only, source=loaded.source, contexts=contexts)
    chosen = contexts[name]
    return ConsoleSettings(
        jobs=loaded.settings,
        context=name,
        read_only=read_only or chosen.read_only,
        colour=chosen.colour,
        word=name.upper() if chosen.word is None else chosen.word,
        alerts=chosen.alerts,
        source=loaded.source,
        contexts=contexts,
    )


def _context(loaded: Loaded, name: str) -> Context:
    raw = loaded.contexts[name] or {}
    if not isinstance(raw, dict):
        raise ConfigurationError(f"{loaded.source}: contexts.{name}: must be a block of keys, not a single value")
    own = {key: value for key, value in raw.items() if key != "jobs"}
    return read_block(str(loaded.source), Context, own, ("contexts", str(name)))
