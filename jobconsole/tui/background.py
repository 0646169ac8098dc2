"""Work beside the drawing: it posts a message when it is done, and its failure never ends the application."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable
from functools import partial
from typing import Any, ParamSpec, cast

from textual.dom import DOMNode

from jobconsole.tui.host import host_of

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


class Renewal:
    """Reads one thing at a time, and again once it is there when that was asked for meanwhile.

    A read that takes longer than the time between two wishes for it would never come to its end otherwise. The wish
    for another thing begins at once.
    """

    def __init__(self, node: DOMNode, group: str) -> None:
        self._node, self._group = node, group
        # what is being read; None: nothing
        self._about: Hashable = None
        self._again = False

    def read(self, about: Hashable, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Read it: `about` says which thing it is, and is not None."""
        if self._about == about:
            self._again = True
            return
        self._about, self._again = about, False
        replace(self._node, self._group, self._read, about, work)

    async def _read(self, about: Hashable, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
            while self._again and self._about == about:
                self._again = False
                await work()
        finally:
            if self._about == about:
                self._about = None


def _run(node: DOMNode, group: str, work: Callable[[], Coroutine[Any, Any, None]], exclusive: bool) -> None:
    async def guarded() -> None:
        try:
            await work()
        except Exception as error:  # noqa: BLE001 - it must neither end the application nor pass unseen
            host = host_of(node)
            host.refresher.problem = f"{group}: {type(error).__name__}: {error}"
            host.say(host.refresher.problem, "bad")

    node.run_worker(cast(Any, guarded), name=group, group=group, exclusive=exclusive, exit_on_error=False)
