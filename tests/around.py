"""Objects around others, by which tests watch and disturb what is asked of these."""

from __future__ import annotations

from functools import cache
from typing import Any, Self


class Around:
    """Has all that the object has which it is made around, given first, also for `isinstance` and a protocol.

    From Python 3.12 on, that looks for what a protocol names in the class of an object, and asks no `__getattr__`.
    """

    def __new__(cls, inner: Any, *args: Any, **kwargs: Any) -> Self:
        around: Self = object.__new__(_with_all_of(cls, tuple(dir(inner))))
        return around

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError


@cache
def _with_all_of(cls: type[Any], names: tuple[str, ...]) -> type[Any]:
    passed = {name: _Passed(name) for name in names if not name.startswith("_") and not hasattr(cls, name)}
    return type(cls.__name__, (cls,), passed)


class _Passed:
    """An attribute of the object inside, unless a test sets it."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, around: Around | None, owner: type[Any]) -> Any:
        return self if around is None else around.__getattr__(self._name)
