"""Classes of jobs that raise whatever a worker may not let through, when they are asked for their names."""

from __future__ import annotations


class Guarded(type):
    """A class of classes that raises when their names are read."""

    def __getattribute__(cls, name: str) -> object:
        if name in {"__name__", "__qualname__", "__module__", "__mro__"}:
            raise KeyboardInterrupt(name)
        return super().__getattribute__(name)


class Nameless(Exception, metaclass=Guarded):
    """An exception whose class does not answer what it is called."""
