"""Where settings come from: arguments, then the environment, then a file, then the defaults.

The file is `path`, else the one that JOBCONSOLE_CONFIG names, else ./jobconsole.yaml (or .yml, .toml), else the same
names in the user's configuration folder ($XDG_CONFIG_HOME or ~/.config, then /jobconsole). In the environment, two
underscores stand between levels: JOBCONSOLE_JOBS__REDIS__URL. Variables without two underscores are left alone:
Kubernetes puts JOBCONSOLE_PORT into every container beside a service named jobconsole.
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
from queue_core.model.validation import Model

M = TypeVar("M", bound=Model)


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
    content = _toml(path, text) if path.suffix == ".toml" else _yaml(path, text)
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


def _yaml(path: Path, text: str) -> Any:
    import yaml

    text = COLON.sub(r'\1"\2"', text)
    try:
        _refuse_twins(path, yaml.compose(text, yaml.SafeLoader))
        return yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigurationError(f"{path}{line}: not valid YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigurationError(f"{path}: not valid YAML") from None


def _refuse_twins(path: Path, root: Any) -> None:
    """Refuse a key that stands twice in one block: YAML forbids it and PyYAML would take the last one silently."""
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
                    raise ConfigurationError(f"{path}, line {line}: the key '{key.value}' stands twice in one block")
                keys.add(key.value)
            waiting.append(value)


PREFIX = "JOBCONSOLE_"
FILE_VARIABLE = "JOBCONSOLE_CONFIG"
CONTEXT_VARIABLE = "JOBCONSOLE_CONTEXT"
NAMES = ("jobconsole.yaml", "jobconsole.yml", "jobconsole.toml")
_TOP = ("jobs", "queue", "contexts")
_FROM_FILE = "_file"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Settings and what else the configuration holds."""

    settings: JobsSettings
    # the `contexts:` block as it was written; it may hold passwords
    contexts: dict[str, Any] = field(repr=False)
    # the file that was read, or None
    source: Path | None
    # the context that was applied, or None
    context: str | None = None


@dataclass(frozen=True, slots=True)
class _Layer:
    """One source of values, as written and in the model's own spelling."""

    name: str
    # of relative *_file paths
    folder: Path
    environment: bool = False
    values: dict[str, Any] = field(default_factory=dict, repr=False)

    def key(self, path: Sequence[str]) -> str:
        """Return how this source spells a key."""
        return PREFIX + "__".join(path).upper() if self.environment else ".".join(path)

    def error(self, path: Sequence[str], what: str) -> ConfigurationError:
        return ConfigurationError(f"{self.name}: {self.key(path)}: {what}")


def load(
    path: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    context: str | None = None,
) -> Loaded:
    """Return the settings of all sources together.

    `overrides` has the shape of the file (`{"jobs": {"redis": {"url": …}}}`) and wins over everything. `context` names
    a block of `contexts:` whose `jobs:` wins over the environment and the rest of the file. Where no source names a
    `queue_backend`, a Redis URL chooses redis, and without any URL a path chooses sqlite.

    Raises:
        ConfigurationError: a file cannot be read, a key is unknown or given twice, or a value does not fit; one
            sentence that names the source and the key and holds no secret.
    """
    environ = os.environ if environ is None else environ
    context = context or environ.get(CONTEXT_VARIABLE) or None
    source = _find(path, environ)
    folder = Path.cwd() if source is None else source.parent
    in_file = _Layer(str(source), folder)
    from_file: dict[str, Any] = {} if source is None else read_file(source)
    from_environment = _nested(environ)
    contexts = _contexts(in_file, from_file)
    layers = [
        _read(in_file, from_file),
        _read(_Layer("environment", Path.cwd(), environment=True), from_environment),
        _read(_Layer(f"{source}: context '{context}'", folder), {"jobs": _context_jobs(contexts, context, source)}),
        _read(_Layer("command line", Path.cwd()), overrides or {}),
    ]
    merged: dict[str, Any] = {}
    for layer in layers:
        _merge(merged, layer.values)
    if "queue_backend" not in merged and merged.get("redis", {}).get("url"):
        merged["queue_backend"] = "redis"
    elif "queue_backend" not in merged and _chooses_sqlite(merged):
        merged["queue_backend"] = "sqlite"
    return Loaded(_validate(JobsSettings, merged, layers, ("jobs",)), contexts, source, context)


def _chooses_sqlite(values: Mapping[str, Any]) -> bool:
    return bool(values.get("sqlite", {}).get("path")) and not values.get("postgres", {}).get("url")


def read_block(name: str, model: type[M], raw: Any, path: Sequence[str]) -> M:
    """Return one block of a configuration as its model; `name` says where it comes from.

    Raises:
        ConfigurationError: a key is unknown or given twice, or a value does not fit.
    """
    layer = _Layer(name, Path.cwd())
    layer.values.update(_block(layer, model, raw, tuple(path)))
    return _validate(model, layer.values, [layer], path)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return "; did you mean 'x'?" with the nearest known word, or what is known when none is near."""
    choices = sorted(known)
    found = difflib.get_close_matches(word, choices, n=1, cutoff=0.6)
    return f"; did you mean '{found[0]}'?" if found else f"; known here: {', '.join(choices) or 'none'}"


def _find(path: str | os.PathLike[str] | None, environ: Mapping[str, str]) -> Path | None:
    named = path or environ.get(FILE_VARIABLE)
    if named:
        return Path(named).expanduser()
    home = environ.get("XDG_CONFIG_HOME") or "~/.config"
    for folder in (Path(), Path(home).expanduser() / "jobconsole"):
        found = [folder / name for name in NAMES if (folder / name).is_file()]
        if len(found) > 1:
            raise ConfigurationError(f"{found[0]} and {found[1]} are both there; keep one of them")
        if found:
            return found[0]
    return None


def _nested(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the variables with two underscores as nested blocks; an empty variable counts as not set."""
    nested: dict[str, Any] = {}
    for name in sorted(environ):
        if not name.startswith(PREFIX) or "__" not in name or not environ[name]:
            continue
        *blocks, last = name.removeprefix(PREFIX).lower().split("__")
        here = nested
        for block in blocks:
            here = here.setdefault(block, {})
            if not isinstance(here, dict):
                raise ConfigurationError(f"environment: {name} goes on below a variable that is a value itself")
        here[last] = environ[name]
    return nested


def _contexts(layer: _Layer, values: Mapping[str, Any]) -> dict[str, Any]:
    contexts = values.get("contexts") or {}
    if not isinstance(contexts, dict):
        raise layer.error(("contexts",), "must be a block of named contexts")
    return {str(name): block for name, block in contexts.items()}


def _context_jobs(contexts: Mapping[str, Any], name: str | None, source: Path | None) -> Any:
    if name is None:
        return {}
    if name not in contexts:
        if source is None:
            raise ConfigurationError(f"there is no context '{name}': no configuration file was found")
        raise ConfigurationError(f"{source} has no context '{name}'{nearest(name, contexts)}")
    block = contexts[name] or {}
    return block.get("jobs") if isinstance(block, dict) else {}


def _read(layer: _Layer, raw: Mapping[str, Any]) -> _Layer:
    """Fill a layer: keys in the model's spelling, `queue:` folded into the defaults, secrets read from their files."""
    for key in raw:
        if key not in _TOP:
            raise layer.error((str(key),), f"unknown key{nearest(str(key), _TOP)}")
    jobs = _block(layer, JobsSettings, raw.get("jobs"), ("jobs",))
    short = _block(layer, Defaults, raw.get("queue"), ("queue",))
    defaults = jobs.setdefault("defaults", {}) if short else {}
    for key, value in short.items():
        if key in defaults:
            raise layer.error(("queue", key), "is given under jobs.defaults as well; keep one of them")
        defaults[key] = value
    layer.values.update(jobs)
    return layer


def _block(layer: _Layer, model: type[Model], raw: Any, path: tuple[str, ...]) -> dict[str, Any]:
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
        if name in block:
            raise layer.error(here, f"is given twice: '{name}' stands in this block already")
        block[name] = _value(layer, model, name, value, here)
    return block


def _value(layer: _Layer, model: type[Model], name: str, value: Any, path: tuple[str, ...]) -> Any:
    inner = model.model_fields[name].annotation
    if isinstance(inner, type) and issubclass(inner, Model):
        return _block(layer, inner, value, (*path[:-1], name))
    each = get_args(inner)[-1] if get_origin(inner) in (dict, Mapping) else None
    if isinstance(each, type) and issubclass(each, Model) and isinstance(value, Mapping):
        # Their names are the user's own.
        return {str(key): _block(layer, each, block, (*path[:-1], name, str(key))) for key, block in value.items()}
    if value is not None and _squash(path[-1]) != _squash(name):
        return read_secret(layer.folder / Path(str(value)).expanduser(), f"{layer.name}: {layer.key(path)}")
    return value


def _squash(key: str) -> str:
    """Fold the spellings maxRetries, max_retries, max-retries and MAXRETRIES into one."""
    return key.replace("_", "").replace("-", "").lower()


def _secret_of(model: type[Model], written: str) -> str | None:
    name = written.lower().removesuffix(_FROM_FILE)
    known = written.lower().endswith(_FROM_FILE) and name in model.model_fields
    return name if known and _is_secret(model.model_fields[name].annotation) else None


def _is_secret(annotation: Any) -> bool:
    return annotation is SecretStr or any(_is_secret(inner) for inner in get_args(annotation))


def _validate(model: type[M], values: Mapping[str, Any], layers: Sequence[_Layer], path: Sequence[str]) -> M:
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


def _sentence(error: ValidationError, layers: Sequence[_Layer], path: Sequence[str]) -> ConfigurationError:
    problems = error.errors(include_url=False, include_input=False)
    inside = [str(part) for part in problems[0]["loc"] if part != "[key]"]  # a name itself
    layer = next((layer for layer in reversed(layers) if _holds(layer.values, inside)), layers[-1])
    what = problems[0]["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return layer.error((*path, *inside), f"{_WORDS.get(problems[0]['type'], what)}{more}")


_WORDS = {
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "float_type": "must be a number",
    "bool_parsing": "must be true or false",
    "bool_type": "must be true or false",
    "string_type": "must be text",
}


def _holds(values: Mapping[str, Any], path: Sequence[str]) -> bool:
    here: Any = values
    for part in path:
        if not isinstance(here, Mapping) or part not in here:
            return False
        here = here[part]
    return True
