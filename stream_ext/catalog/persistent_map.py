"""Layered mappings: immutable mappings, of which a changed version is made without copying all entries.

A version is a shared base and a few changes. When the changes are more than about the square root of the base, they are
merged into a new base. So each of a hundred thousand changes copies a few hundred entries on average, not half of
all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")
Default = TypeVar("Default")

_CHANGES_LEAST = 32


class Layered(Mapping[K, V]):
    """In the order in which keys came; no value is None."""

    __slots__ = ("_base", "_changes", "_count")

    def __init__(self, base: dict[K, V], changes: dict[K, V | None] | None = None, count: int | None = None) -> None:
        self._base, self._changes = base, changes or {}
        self._count = len(base) if count is None else count

    @classmethod
    def of(cls, mapping: Mapping[K, V]) -> Layered[K, V]:
        return mapping if isinstance(mapping, Layered) else cls(dict(mapping))

    def after(self, changed: dict[K, V | None]) -> Layered[K, V]:
        """The mapping with these entries changed; None: the entry is removed."""
        count = self._count
        for key, value in changed.items():
            count += (value is not None) - (key in self)
        later = Layered(self._base, self._changes | changed, count)
        if len(later._changes) < _CHANGES_LEAST or len(later._changes) ** 2 <= 4 * len(self._base):
            return later
        whole = self._base | later._changes
        for key in [key for key, value in later._changes.items() if value is None]:
            del whole[key]
        return Layered(whole)  # type: ignore[arg-type]  # what is None is gone

    def __getitem__(self, key: K) -> V:
        if key in self._changes:
            value = self._changes[key]
            if value is None:
                raise KeyError(key)
            return value
        return self._base[key]

    def get(self, key: K, default: Default | None = None) -> V | Default | None:  # type: ignore[override]  # one of two
        """That of Mapping raises for each key that is missing."""
        value = self._changes[key] if key in self._changes else self._base.get(key)
        return default if value is None else value

    def __contains__(self, key: object) -> bool:
        return self._changes[key] is not None if key in self._changes else key in self._base

    def __iter__(self) -> Iterator[K]:
        if not self._changes:
            yield from self._base
            return
        for key in self._base:
            if key not in self._changes or self._changes[key] is not None:
                yield key
        for key, value in self._changes.items():
            if value is not None and key not in self._base:
                yield key

    def __len__(self) -> int:
        return self._count
