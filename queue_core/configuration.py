"""Where settings come from: the environment, then a file, then the defaults.

A `Source` has the names: programs that use a queue read `JOBS__REDIS__URL`, where two underscores separate levels, and
the file that `JOBS_CONFIG` names, else ./jobs.yaml (or .yml, .toml), else the same names in the user's configuration
folder ($XDG_CONFIG_HOME or ~/.config, then /jobs). Variables without two underscores are not read: Kubernetes puts
JOBS_PORT into every container beside a service named jobs.

A front end with names of its own puts its layers on top (`read_variables`, `read_values`, `combine`).
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from pydantic import SecretStr, ValidationError

from queue_core.errors import ConfigurationError
from queue_core.model.settings import Defaults, JobsSettings
from queue_core.model.validation import SettingsModel, first_problem

M = TypeVar("M", bound=SettingsModel)


LARGEST = 1 << 20
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


def _text(path: Path, what: str) -> str:
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigurationError(f"{what}: cannot read {path}: {reason}") from None
    if len(content) > LARGEST:
        raise ConfigurationError(f"{what}: {path} is larger than {LARGEST:,} bytes")
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
        _refuse_twins(name, yaml.compose(text, yaml.SafeLoader))
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigurationError(f"{name}{line}: not valid YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigurationError(f"{name}: not valid YAML") from None


def _refuse_twins(name: str, root: Any) -> None:
    """Refuse a key that is given twice in one block: YAML forbids it and PyYAML would take the last one silently."""
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
                if key.value in keys:
                    line = key.start_mark.line + 1
                    raise ConfigurationError(f"{name}, line {line}: the key '{key.value}' stands twice in one block")
                keys.add(key.value)
            waiting.append(value)


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

    def find(self, environ: Mapping[str, str]) -> Path | None:
        """Return the file that is named by a variable, else found in a folder; None where there is none.

        Raises:
            ConfigurationError: a folder holds two of them.
        """
        if named := environ.get(self.file_variable):
            return Path(named).expanduser()
        home = environ.get("XDG_CONFIG_HOME") or "~/.config"
        for folder in (Path(), Path(home).expanduser() / Path(self.names[0]).stem):
            found = [folder / name for name in self.names if (folder / name).is_file()]
            if len(found) > 1:
                raise ConfigurationError(f"{found[0]} and {found[1]} are both there; keep one of them")
            if found:
                return found[0]
        return None


PROGRAMS = Source("JOBS__", "JOBS_CONFIG", ("jobs.yaml", "jobs.yml", "jobs.toml"), block="jobs")
"""The names that every program knows which uses a queue."""
_FROM_FILE = "_file"


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
    file = Path(path).expanduser() if path else source.find(environ)
    layers = [] if file is None else [read_values(str(file), read_file(file), source, file.parent)]
    return LoadedSettings(combine([*layers, read_variables(source, environ)]), file)


def read_variables(source: Source, environ: Mapping[str, str]) -> Layer:
    """Return what the variables of a source give; an empty one counts as not set.

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
    return _read(Layer("environment", Path.cwd(), source), nested, source.blocks)


def read_values(name: str, raw: Mapping[str, Any], source: Source = PROGRAMS, folder: Path | None = None) -> Layer:
    """Return the values of one place in the shape of a file, `{"jobs": {"redis": {"url": …}}}`.

    Raises:
        ConfigurationError: a key is unknown or given twice.
    """
    return _read(Layer(name, folder or Path.cwd()), raw, source.blocks)


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
    layer = Layer(name, Path.cwd())
    layer.values.update(_block(layer, model, raw, tuple(path)))
    return _validate(model, layer.values, [layer], path)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" with the nearest known word, or what is known when none is near."""
    choices = sorted(known)
    found = difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    return f"; did you mean '{found[0]}'?" if found else f"; known here: {', '.join(choices) or 'none'}"


def _read(layer: Layer, raw: Mapping[str, Any], blocks: Sequence[str]) -> Layer:
    """Fill a layer: keys in the model's spelling, `queue:` folded into the defaults, secrets read from their files."""
    for key in raw:
        if key not in blocks:
            raise layer.error((str(key),), f"unknown key{nearest(str(key), blocks)}")
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
    known = {_squash(name): name for name in model.model_fields}
    block: dict[str, Any] = {}
    for written, value in raw.items():
        here = (*path, str(written))
        name = known.get(_squash(str(written))) or _secret_of(model, str(written))
        if name is None:
            raise layer.error(here, f"unknown key{nearest(str(written).lower(), model.model_fields)}")
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
    if value is not None and _squash(path[-1]) != _squash(name):
        file = layer.folder / Path(str(value)).expanduser()
        layer.files[*path[:-1], name] = file.absolute()
        return read_secret(file, f"{layer.name}: {layer.key(path)}")
    return value


def _squash(key: str) -> str:
    """Fold the spellings maxRetries, max_retries, max-retries and MAXRETRIES into one."""
    return key.replace("_", "").replace("-", "").lower()


def _secret_of(model: type[SettingsModel], written: str) -> str | None:
    name = written.lower().removesuffix(_FROM_FILE)
    known = written.lower().endswith(_FROM_FILE) and name in model.model_fields
    return name if known and _is_secret(model.model_fields[name].annotation) else None


def _is_secret(annotation: Any) -> bool:
    return annotation is SecretStr or any(_is_secret(inner) for inner in get_args(annotation))


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
