"""`computed_once`: a property that is computed at its first read, and remembered in the object.

As `functools.cached_property`, but without its lock: in Python 3.11 one lock serves all objects of a class, and is held
while the property is computed. Threads that compute properties which read one another's (`Conjunction.certain` reads
`Optional.certain`, and the other way round) then wait for each other for ever. Two threads may compute the same
property at once here, so of an object that several threads read it has to be a pure function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

Owner = TypeVar("Owner")
Value = TypeVar("Value")


class computed_once(Generic[Owner, Value]):
    def __init__(self, compute: Callable[[Owner], Value]) -> None:
        self._compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, owner: type[Owner], name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> computed_once[Owner, Value]: ...
    @overload
    def __get__(self, instance: Owner, owner: type[Any]) -> Value: ...
    def __get__(self, instance: Owner | None, owner: type[Any]) -> computed_once[Owner, Value] | Value:
        if instance is None:
            return self
        # From now on the value is found in the object, before this descriptor.
        value = instance.__dict__[self._name] = self._compute(instance)
        return value
