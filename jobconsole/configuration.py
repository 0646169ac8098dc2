"""The console's own names for settings, above those that every program knows, and what `worker run` hands down.

The console reads the programs' names (`JOBS__…`, `JOBS_CONFIG`, jobs.yaml; see `queue_core.configuration`) and its own:
`JOBCONSOLE_JOBS__…`, `JOBCONSOLE_CONFIG`, jobconsole.yaml. As everywhere the environment wins over a file; among the
variables and among the files, the console's win. A file that is named to the console is read without jobs.yaml.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from queue_core.configuration import Layer, combine, merge, read_file, read_values, read_variables
from queue_core.errors import ConfigurationError
from queue_core.model.addresses import path_of
from queue_core.model.settings import JobsSettings
from queue_core.variables import PROGRAMS, Source, nearest

CONSOLE = Source(
    "JOBCONSOLE_",
    "JOBCONSOLE_CONFIG",
    ("jobconsole.yaml", "jobconsole.yml", "jobconsole.toml"),
    blocks=("jobs", "queue", "contexts"),
)
CONTEXT_VARIABLE = "JOBCONSOLE_CONTEXT"


@dataclass(frozen=True, slots=True)
class ConsoleConfiguration:
    """Settings and what else the configuration holds."""

    settings: JobsSettings
    # the `contexts:` block as it was written; it may hold passwords
    contexts: dict[str, Any] = field(repr=False)
    # the console's own file, or None
    source: Path | None
    # the context that was applied, or None
    context: str | None
    # the variables that programs need for the same settings; None: they read the same by themselves
    handed_down: dict[str, str] | None = field(repr=False)


def load(
    path: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    context: str | None = None,
) -> ConsoleConfiguration:
    """Return the settings of all sources together.

    `overrides` has the shape of the file (`{"jobs": {"redis": {"url": …}}}`) and wins over everything. `context` names
    a block of `contexts:` whose `jobs:` wins over the environment and the files.

    Raises:
        ConfigurationError: as `queue_core.configuration.load`; also for a context that is not there.
    """
    environ = os.environ if environ is None else environ
    context = context or environ.get(CONTEXT_VARIABLE) or None
    named = path or environ.get(CONSOLE.file_variable)
    source = path_of(str(path)) if path else CONSOLE.find(environ)
    in_file = {} if source is None else read_file(source)
    theirs = [_file(PROGRAMS, None if named else PROGRAMS.find(environ)), read_variables(PROGRAMS, environ)]
    contexts = _contexts(source, in_file)
    folder = None if source is None else source.parent
    jobs = _jobs_of(contexts, context, source)
    file, variables, chosen, flags = (
        read_values(str(source), in_file, CONSOLE, folder),
        read_variables(CONSOLE, environ),
        read_values(f"{source}: context '{context}'", {"jobs": jobs}, CONSOLE, folder),
        read_values("command line", overrides or {}, CONSOLE),
    )
    layers = [theirs[0], file, theirs[1], variables, chosen, flags]
    settings = combine(layers)
    own = named or any(True for layer in (file, variables, chosen, flags) for _ in _leaves(("jobs",), layer.values))
    return ConsoleConfiguration(settings, contexts, source, context, variables_of(layers) if own else None)


def without_settings(environ: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which neither programs nor the console find any settings."""
    return {
        name: value for name, value in environ.items() if not (PROGRAMS.reads(name) or name.startswith(CONSOLE.prefix))
    }


def variables_of(layers: Sequence[Layer]) -> dict[str, str]:
    """Return the variables that give a program the settings of all layers together, and no file to read.

    A secret that comes from a file is named by its path: a program that starts after it was changed reads the new one.
    """
    found = {PROGRAMS.file_variable: os.devnull}
    for path, value in _leaves(("jobs",), merge(layers)):
        holder = next((layer for layer in reversed(layers) if layer.holds(path[1:])), None)
        if holder is not None and path in holder.files:
            found[f"{PROGRAMS.variable(path)}_FILE"] = str(holder.files[path])
        elif value is not None or path[1] == "retention":
            found[PROGRAMS.variable(path)] = _written(value)
    return found


def _leaves(path: tuple[str, ...], values: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for key, value in values.items():
        # These names are their owners': in capitals they cannot be parts of a variable's name.
        if isinstance(value, dict) and key not in {"queues", "types", "signatures"}:
            yield from _leaves((*path, key), value)
        else:
            yield (*path, key), value


def _written(value: Any) -> str:
    """Return a value as a variable's text, which is read as the same value."""
    if isinstance(value, dict):
        import yaml

        return str(yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=1 << 20)).strip()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return format(Decimal(repr(value)), "f")  # durations are read without exponents
    # An empty variable counts as not set. Only a prefix can be empty, and its last colon does not count.
    return "never" if value is None else str(value) or ":"


def _file(source: Source, path: Path | None) -> Layer:
    return read_values(str(path), {} if path is None else read_file(path), source, path and path.parent)


def _contexts(source: Path | None, values: Mapping[str, Any]) -> dict[str, Any]:
    contexts = values.get("contexts") or {}
    if not isinstance(contexts, dict):
        raise ConfigurationError(f"{source}: contexts: must be a block of named contexts")
    return {str(name): block for name, block in contexts.items()}


def _jobs_of(contexts: Mapping[str, Any], name: str | None, source: Path | None) -> Any:
    if name is None:
        return {}
    if name not in contexts:
        if source is None:
            raise ConfigurationError(f"there is no context '{name}': no configuration file was found")
        raise ConfigurationError(f"{source} has no context '{name}'{nearest(name, contexts)}")
    block = contexts[name] or {}
    return block.get("jobs") if isinstance(block, dict) else {}
