"""Reading what configuration is written in: YAML, TOML, and files that hold one secret."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from queue_core.errors import ConfigurationError

LARGEST = 1 << 20
"""Bytes of a configuration file or secret; what is larger is something else."""


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
