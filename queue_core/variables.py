"""The names of settings: their keys, the variables that give them, and which one was perhaps meant by another name."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import SecretStr

from queue_core.errors import ConfigurationError
from queue_core.model.addresses import path_of
from queue_core.model.settings import JobsSettings
from queue_core.model.validation import SettingsModel

MIN_LIKENESS = 0.6
"""How like another name, from 0 to 1, one has to be to be meant by it."""
_FROM_FILE = "_file"


@dataclass(frozen=True, slots=True)
class Source:
    """The names under which settings are given."""

    # how the names of variables begin; behind it, two underscores separate levels
    prefix: str
    # the variable that names the file
    file_variable: str
    # of the file, where no variable names it
    names: tuple[str, ...]
    # the block that all variables belong to; "": the first level behind the prefix is the block
    block: str = ""
    # what the file may hold; a front end reads its further blocks itself
    blocks: tuple[str, ...] = ("jobs", "queue")

    def reads(self, name: str) -> bool:
        """Return whether a variable of the environment is one of this source."""
        return name == self.file_variable or (name.startswith(self.prefix) and "__" in name)

    def variable(self, path: Sequence[str]) -> str:
        """Return the name of the variable for a key, which is given by its levels, such as jobs, redis, url."""
        return self.prefix + "__".join(path[1:] if self.block else path).upper()

    def unread(self, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
        """Yield each variable that is written almost like one of this source and not read, and the one that is.

        Those of other programs are not among them, such as JOBS_PORT, nor those of settings that are given properly.
        """
        known = {}
        for key in keys(JobsSettings):
            meant = self.variable(("jobs", *key))
            known[squash(meant)] = known[squash(self.prefix + "".join(key))] = meant
        for name in sorted(environ):
            if environ[name] and not self.reads(name) and name.upper().startswith(self.prefix.rstrip("_") + "_"):
                meant = known.get(squash(name), "")
                if meant and not environ.get(meant):
                    yield name, meant

    def meant(self, path: Sequence[str], levels: Sequence[str], model: type[SettingsModel]) -> str | None:
        """Return the variable that was perhaps meant by one that goes on below `path`, the block of a model."""
        known = {"__".join(key): self.variable((*path, *key)) for key in keys(model)}
        alike = {squash(name): name for name in known}.get(squash("".join(levels)))
        near = [alike] if alike else difflib.get_close_matches("__".join(levels).lower(), known, 1, MIN_LIKENESS)
        return known[near[0]] if near else None

    def find(self, environ: Mapping[str, str]) -> Path | None:
        """Return the file that is named by a variable, else found in a folder; None where there is none.

        Raises:
            ConfigurationError: a folder holds two of them, or the variable names a home folder that is not there.
        """
        if named := environ.get(self.file_variable):
            return path_of(named)
        folders = [Path()]
        with suppress(ConfigurationError):  # no home folder, and so no file there
            folders.append(path_of(environ.get("XDG_CONFIG_HOME") or "~/.config") / Path(self.names[0]).stem)
        for folder in folders:
            found = [folder / name for name in self.names if _is_there(folder / name)]
            if len(found) > 1:
                raise ConfigurationError(f"{found[0]} and {found[1]} are both there; keep one of them")
            if found:
                return found[0]
        return None


def _is_there(path: Path) -> bool:
    """Return whether there is a file; in a folder that this user may not enter, as another's home is, there is none."""
    try:
        return path.is_file()
    except PermissionError:
        return False


PROGRAMS = Source("JOBS__", "JOBS_CONFIG", ("jobs.yaml", "jobs.yml", "jobs.toml"), block="jobs")
"""The names that every program knows which uses a queue."""


def keys(model: type[SettingsModel]) -> Iterator[tuple[str, ...]]:
    """Yield the key of each value in a model, by its levels, and those of the files that may hold its secrets."""
    for name, field in model.model_fields.items():
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, SettingsModel):
            yield from ((name, *below) for below in keys(inner))
            continue
        yield (name,)
        if _is_secret(inner):
            yield (name + _FROM_FILE,)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" with the nearest known word, or what is known when none is near."""
    choices = sorted(known)
    found = difflib.get_close_matches(word, choices, 1, MIN_LIKENESS)
    return f"; did you mean '{found[0]}'?" if found else f"; known here: {', '.join(choices) or 'none'}"


def squash(key: str) -> str:
    """Fold the spellings maxRetries, max_retries, max-retries and MAXRETRIES into one."""
    return key.replace("_", "").replace("-", "").lower()


def secret_of(model: type[SettingsModel], written: str) -> str | None:
    """Return the key of the secret whose file is given under this key; None where it names no such file."""
    name = written.lower().removesuffix(_FROM_FILE)
    known = written.lower().endswith(_FROM_FILE) and name in model.model_fields
    return name if known and _is_secret(model.model_fields[name].annotation) else None


def _is_secret(annotation: Any) -> bool:
    return annotation is SecretStr or any(_is_secret(inner) for inner in get_args(annotation))
