"""Where settings come from: the environment, then a file, then the defaults.

A `Source` has the names: programs that use a queue read `JOBS__REDIS__URL`, where two underscores separate levels, and
the file that `JOBS_CONFIG` names, else ./jobs.yaml (or .yml, .toml), else the same names in the user's configuration
folder ($XDG_CONFIG_HOME or ~/.config, then /jobs). Variables without two underscores are not read: Kubernetes puts
JOBS_PORT into every container beside a service named jobs. One such as JOBS_REDIS_URL is named in a warning.

A front end with names of its own puts its layers on top (`read_variables`, `read_values`, `combine`).
"""

from __future__ import annotations

import logging
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import ValidationError

from queue_core.errors import ConfigurationError
from queue_core.model.addresses import path_of
from queue_core.model.settings import Defaults, JobsSettings
from queue_core.model.validation import SettingsModel, first_problem
from queue_core.variables import PROGRAMS, Source, nearest, secret_of, squash

logger = logging.getLogger("queue_core.configuration")

M = TypeVar("M", bound=SettingsModel)


_warned: set[str] = set()
"""Variables that were named in a warning."""
MAX_FILE_BYTES = 1 << 20
"""Bytes of a configuration file or secret; what is larger is something else."""
COLON = re.compile(
    r"""^([ \t]*prefix:[ \t]+)([^\s"'\\\[{&*!|>%@`#][^\s"\\]*:)(?=[ \t]*(?:[ \t]#.*)?\r?$)""", re.MULTILINE
)
"""A prefix that ends in a colon, as in Redis they do, without quotes: for YAML the beginning of another block."""


def read_file(path: Path) -> dict[str, Any]:
    """Return the content of a configuration file, TOML by its ending and else YAML.

    Raises:
        ConfigurationError: it cannot be read, or is neither.
    """
    text = _text(path, "the configuration")
    content = _toml(path, text) if path.suffix == ".toml" else _yaml(str(path), text)
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigurationError(f"{path}: must hold a block of keys, such as 'jobs:'")
    return content


def read_secret(path: Path, what: str) -> str:
    """Return the one line in a file that holds a secret.

    Raises:
        ConfigurationError: it cannot be read, or is empty.
    """
    secret = _text(path, what).strip()
    if not secret:
        raise ConfigurationError(f"{what}: {path} is empty")
    return secret


def _here() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigurationError(f"the current directory cannot be used: {error.strerror}") from None


def _text(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{what}: cannot read {path}: {reason}") from None
    if len(content) > MAX_FILE_BYTES:
        raise ConfigurationError(f"{what}: {path} is larger than {MAX_FILE_BYTES:,} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ConfigurationError(f"{what}: {path} is not UTF-8 text") from None


def _toml(path: Path, text: str) -> Any:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{path}: not valid TOML: {error}") from None


def _yaml(name: str, text: str) -> Any:
    import yaml

    text = COLON.sub(r'\1"\2"', text)
    try:
        _check_keys(name, yaml.compose(text, yaml.SafeLoader))
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigurationError(f"{name}{line}: not valid YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigurationError(f"{name}: not valid YAML") from None


NAMES = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")
"""What a key may be. Without quotes YAML reads the name of a queue "yes" as true, and "012" as the number 10."""


def _check_keys(name: str, root: Any) -> None:
    """Refuse a key that is no text, and one that is given twice in one block: PyYAML would take the last one silently.

    Raises:
        ConfigurationError: one of these; it names the line.
    """
    import yaml

    seen, waiting = set(), [root]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, yaml.CollectionNode) or id(node) in seen:
            continue
        seen.add(id(node))
        if not isinstance(node, yaml.MappingNode):
            waiting += node.value
            continue
        keys = set()
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                line = key.start_mark.line + 1
                if key.tag not in NAMES:
                    what = f"the key {key.value} is no text for YAML; put it in quotes"
                    raise ConfigurationError(f"{name}, line {line}: {what}")
                if key.value in keys:
                    raise ConfigurationError(f"{name}, line {line}: the key '{key.value}' stands twice in one block")
                keys.add(key.value)
            waiting.append(value)


@dataclass(frozen=True, slots=True)
class Layer:
    """The values of one place in the model's own spelling; its name and spelling are for the sentences about it."""

    name: str
    # of relative *_file paths
    folder: Path
    # where the values are variables of the environment: whose
    variables: Source | None = None
    values: dict[str, Any] = field(default_factory=dict, repr=False)
    # the variables as they were given, by the levels of their keys
    given: dict[tuple[str, ...], str] = field(default_factory=dict)
    # the files from which secrets were read, likewise
    files: dict[tuple[str, ...], Path] = field(default_factory=dict)
    # what it may hold
    blocks: tuple[str, ...] = PROGRAMS.blocks

    def key(self, path: Sequence[str]) -> str:
        """Return how this place spells a key; one variable may hold a block of them."""
        if self.variables is None:
            return ".".join(path)
        held = next((size for size in range(1, len(path) + 1) if tuple(path[:size]) in self.given), 0)
        name = self.given[tuple(path[:held])] if held else self.variables.variable(path)
        return f"{name}: {'.'.join(path[held:])}" if 0 < held < len(path) else name

    def holds(self, path: Sequence[str]) -> bool:
        """Return whether this place gives a value for a key below `jobs`."""
        here: Any = self.values
        for part in path:
            if not isinstance(here, Mapping) or part not in here:
                return False
            here = here[part]
        return True

    def error(self, path: Sequence[str], what: str) -> ConfigurationError:
        """Return the error about a key of this place."""
        return ConfigurationError(f"{self.name}: {self.key(path)}: {what}")

    def unknown(self, path: Sequence[str], value: Any, model: type[SettingsModel] | None = None) -> ConfigurationError:
        """Return the error about a key that there is not in a model's block, or among the blocks, and its value."""
        *above, key = path
        if self.variables is not None and self.key(path) == self.variables.variable(path):
            levels = [key]
            while isinstance(value, dict):
                level, value = next(iter(value.items()))
                levels.append(level)
            if meant := self.variables.meant(above or ("jobs",), levels, model or JobsSettings):
                return self.error((*above, *levels), f"unknown key; did you mean '{meant}'?")
        known = {*model.model_fields, *model.beside} if model else {*self.blocks}
        inside = {squash(name): name for name in JobsSettings.model_fields}
        if self.variables is None and "jobs" in known and (name := inside.get(squash(key))):
            return self.error(path, f"unknown key; did you mean 'jobs.{name}'?")
        return self.error(path, f"unknown key{nearest(key.lower(), known)}")


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings, and the file that was read for them."""

    settings: JobsSettings
    source: Path | None


def load(
    source: Source = PROGRAMS,
    *,
    path: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
) -> LoadedSettings:
    """Return the settings that the environment and a file give together; `path` is read instead of the source's file.

    Where neither names a `queue_backend`, a Redis URL chooses redis, and without any URL a path chooses sqlite.

    Raises:
        ConfigurationError: a file cannot be read, a key is unknown or given twice, or a value does not fit; one
            sentence that names the place and the key and holds no secret.
    """
    environ = os.environ if environ is None else environ
    file = path_of(str(path)) if path else source.find(environ)
    layers = [] if file is None else [read_values(str(file), read_file(file), source, file.parent)]
    return LoadedSettings(combine([*layers, read_variables(source, environ)]), file)


def read_variables(source: Source, environ: Mapping[str, str]) -> Layer:
    """Return what the variables of a source give; an empty one counts as not set.

    One that is not read and was perhaps meant to be is named in a warning, once in a process.

    Raises:
        ConfigurationError: a key is unknown or given twice.
    """
    nested: dict[str, Any] = {}
    for name in sorted(environ):
        if name == source.file_variable or not source.reads(name) or not environ[name]:
            continue
        *blocks, last = name.removeprefix(source.prefix).lower().split("__")
        here = nested
        for block in [source.block, *blocks] if source.block else blocks:
            here = here.setdefault(block, {})
            if not isinstance(here, dict):
                raise ConfigurationError(f"environment: {name} goes on below a variable that is a value itself")
        here[last] = environ[name]
    for name, meant in source.unread(environ):
        if name not in _warned:
            _warned.add(name)
            logger.warning("environment: %s is not read; did you mean %s?", name, meant)
    return _read(Layer("environment", _here(), source, blocks=source.blocks), nested)


def read_values(name: str, raw: Mapping[str, Any], source: Source = PROGRAMS, folder: Path | None = None) -> Layer:
    """Return the values of one place in the shape of a file, `{"jobs": {"redis": {"url": …}}}`.

    Raises:
        ConfigurationError: a key is unknown or given twice.
    """
    return _read(Layer(name, folder or _here(), blocks=source.blocks), raw)


def combine(layers: Sequence[Layer]) -> JobsSettings:
    """Return the settings of all layers together; a later one wins.

    Raises:
        ConfigurationError: a value does not fit.
    """
    return _validate(JobsSettings, merge(layers), layers, ("jobs",))


def merge(layers: Sequence[Layer]) -> dict[str, Any]:
    """Return the values of all layers together as they were written, with the mode that their addresses choose."""
    merged: dict[str, Any] = {}
    for layer in layers:
        _merge(merged, layer.values)
    if "queue_backend" not in merged and merged.get("redis", {}).get("url"):
        merged["queue_backend"] = "redis"
    elif "queue_backend" not in merged and _chooses_sqlite(merged):
        merged["queue_backend"] = "sqlite"
    return merged


def _chooses_sqlite(values: Mapping[str, Any]) -> bool:
    return bool(values.get("sqlite", {}).get("path")) and not values.get("postgres", {}).get("url")


def read_block(name: str, model: type[M], raw: Any, path: Sequence[str]) -> M:
    """Return one block of a configuration as its model; `name` is its place in the sentences about it.

    Raises:
        ConfigurationError: a key is unknown or given twice, or a value does not fit.
    """
    layer = Layer(name, _here())
    layer.values.update(_block(layer, model, raw, tuple(path)))
    return _validate(model, layer.values, [layer], path)


def _read(layer: Layer, raw: Mapping[str, Any]) -> Layer:
    """Fill a layer: keys in the model's spelling, `queue:` folded into the defaults, secrets read from their files."""
    for key in raw:
        if key not in layer.blocks:
            raise layer.unknown((str(key),), raw[key])
    jobs = _block(layer, JobsSettings, raw.get("jobs"), ("jobs",))
    short = _block(layer, Defaults, raw.get("queue"), ("queue",))
    defaults = jobs.setdefault("defaults", {}) if short else {}
    for key, value in short.items():
        if key in defaults:
            raise layer.error(("queue", key), "is given under jobs.defaults as well; keep one of them")
        defaults[key] = value
        if ("queue", key) in layer.given:
            layer.given["jobs", "defaults", key] = layer.given["queue", key]
    layer.values.update(jobs)
    return layer


def _block(layer: Layer, model: type[SettingsModel], raw: Any, path: tuple[str, ...]) -> dict[str, Any]:
    if raw is None:
        return {}
    if not isinstance(raw, Mapping):
        raise layer.error(path, "must be a block of keys, not a single value")
    known = {squash(name): name for name in model.model_fields}
    block: dict[str, Any] = {}
    for written, value in raw.items():
        here = (*path, str(written))
        name = known.get(squash(str(written))) or secret_of(model, str(written))
        if name is None:
            raise layer.unknown(here, value, model)
        if layer.variables and isinstance(value, str):
            layer.given[*path, name] = layer.variables.variable(here)
        if name in block:
            raise layer.error(here, f"is given twice: '{name}' stands in this block already")
        block[name] = _value(layer, model, name, value, here)
    return block


def _value(layer: Layer, model: type[SettingsModel], name: str, value: Any, path: tuple[str, ...]) -> Any:
    inner = model.model_fields[name].annotation
    if isinstance(inner, type) and issubclass(inner, SettingsModel):
        return _block(layer, inner, value, (*path[:-1], name))
    each = get_args(inner)[-1] if get_origin(inner) in (dict, Mapping) else None
    if isinstance(each, type) and issubclass(each, SettingsModel):
        # Their names are the user's own, which a variable's name cannot always carry: one may hold all blocks.
        if layer.variables and isinstance(value, str):
            value = _yaml(f"{layer.name}: {layer.key(path)}", value)
        if isinstance(value, Mapping):
            return {str(key): _block(layer, each, block, (*path[:-1], name, str(key))) for key, block in value.items()}
    if value is not None and squash(path[-1]) != squash(name):
        file = layer.folder / path_of(str(value))
        layer.files[*path[:-1], name] = file.absolute()
        return read_secret(file, f"{layer.name}: {layer.key(path)}")
    return value


def _validate(model: type[M], values: Mapping[str, Any], layers: Sequence[Layer], path: Sequence[str]) -> M:
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise _sentence(error, layers, path) from None


def _merge(into: dict[str, Any], values: Mapping[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value)
        else:
            into[key] = dict(value) if isinstance(value, dict) else value


def _sentence(error: ValidationError, layers: Sequence[Layer], path: Sequence[str]) -> ConfigurationError:
    inside, what = first_problem(error)
    layer = next((layer for layer in reversed(layers) if layer.holds(inside)), layers[-1])
    return layer.error((*path, *inside), what)
