"""Work beside the drawing: it posts a message when it is done, and its failure never ends the application."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, ParamSpec, cast

from textual.dom import DOMNode

P = ParamSpec("P")


def spawn(
    node: DOMNode, group: str, work: Callable[P, Coroutine[Any, Any, None]], /, *args: P.args, **kwargs: P.kwargs
) -> None:
    """Start work of a node; it is cancelled with the node."""
    # A function, not a coroutine: one that is never started would be a warning.
    _run(node, group, partial(work, *args, **kwargs), exclusive=False)


def replace(
    node: DOMNode, group: str, work: Callable[P, Coroutine[Any, Any, None]], /, *args: P.args, **kwargs: P.kwargs
) -> None:
    """Start work of a node in place of what runs in its group, which is cancelled."""
    _run(node, group, partial(work, *args, **kwargs), exclusive=True)


def _run(node: DOMNode, group: str, work: Callable[[], Coroutine[Any, Any, None]], exclusive: bool) -> None:
    node.run_worker(cast(Any, work), name=group, group=group, exclusive=exclusive, exit_on_error=False)
