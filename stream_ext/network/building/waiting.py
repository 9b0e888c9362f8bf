"""Waiting: the parts and conditions of a conjunction that are not built yet, indexed by their variables.

A conjunction may have thousands of them, so no class here searches all that are left for each one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from stream_ext.computed_once import computed_once
from stream_ext.network.wires import Wire
from stream_ext.plan.logic import NO_NAMES, Logic, Names, Test, mentioned, traits_of
from stream_ext.plan.properties.pushdown import accepts_bindings


class Waiting:
    """Conditions, until all that they read is bound for certain."""

    def __init__(self, tests: Sequence[Test]) -> None:
        self._left = dict(enumerate(tests))
        if not tests:
            return
        self._missing = {place: set(test.needs) for place, test in self._left.items()}
        self._of: dict[str, list[int]] = {}
        for place, test in self._left.items():
            for name in test.needs:
                self._of.setdefault(name, []).append(place)
        self._ready = [place for place, needs in self._missing.items() if not needs]

    def due(self, certain: Names) -> list[Test]:
        """Removes and returns the conditions that read only these variables, in the order of the text."""
        if not self._left:
            return []
        for name in self._of.keys() & certain:
            for place in self._of.pop(name):
                self._missing[place].discard(name)
                if not self._missing[place]:
                    self._ready.append(place)
        return self._take_due(self._ready)

    def within(self, items: Iterable[Logic]) -> tuple[Test, ...]:
        """Removes and returns the conditions that read only variables of these parts."""
        if not self._left:
            return ()
        certain = NO_NAMES.union(*(item.certain for item in items))
        about = {place for name in certain for place in self._of.get(name, ())}
        return tuple(
            self._take_due([place for place in about if place in self._left and self._left[place].needs <= certain])
        )

    def rest(self) -> list[Test]:
        return list(self._left.values())

    def _take_due(self, places: list[int]) -> list[Test]:
        # Conditions that use chance are tested on whole solutions.
        due = [place for place in sorted(places) if place in self._left and not self._left[place].draws]
        self._ready = []
        return [self._left.pop(place) for place in due]


class Ordered:
    """The parts that are left to join, in their order."""

    def __init__(self, items: Sequence[Logic]) -> None:
        self._left = dict(enumerate(items))

    def __len__(self) -> int:
        return len(self._left)

    def __iter__(self) -> Iterator[tuple[int, Logic]]:
        return iter(self._left.items())

    @property
    def next(self) -> int:
        """The place of the next one."""
        return next(iter(self._left))

    def take(self) -> Logic:
        return self._left.pop(self.next)

    @computed_once
    def _of(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for place, item in self._left.items():
            for name in item.variables:
                found.setdefault(name, []).append(place)
        return found

    def take_of(self, name: str, fits: Callable[[Logic], bool]) -> list[Logic]:
        """Removes and returns the parts that have this variable, and fit."""
        places = [place for place in self._of.get(name, ()) if place in self._left and fits(self._left[place])]
        return [self._left.pop(place) for place in places]

    def run(self, wire: Wire, most: int, shared_most: int) -> tuple[Logic, ...]:
        """Removes and returns the next parts that may be evaluated together, apart from the wire: either all can start
        from values that the wire has for certain, of at most `shared_most` variables; or none reads the store, and each
        shares a variable with those before it."""
        found: list[int] = []
        bound, maybe = frozenset(wire.variables), wire.maybe
        stored, names, values = False, set[str](), set[str]()
        for place, item in self:
            traits, shared = traits_of(item), item.variables & bound
            if not found:
                stored = traits.reads_store
            connected = not found or not item.variables.isdisjoint(names) or (stored and bool(shared))
            if traits.reads_store != stored or traits.varies or not connected or shared & maybe:
                break
            if stored and not accepts_bindings(item, shared):
                break
            values |= shared
            if len(values) > shared_most:
                break
            found.append(place)
            names |= item.variables
            if len(found) == most:
                break
        return tuple([self._left.pop(place) for place in found]) if len(found) > 1 else ()


class Unused:
    """The columns that are not read any more, once some parts are joined."""

    def __init__(self, items: Ordered, unread: Names) -> None:
        """`unread`: the variables that only the parts read."""
        self._items, self._unread = items, unread

    @computed_once
    def _last(self) -> dict[str, int]:
        """For each variable, the last part to come that mentions it."""
        return {name: place for place, item in self._items for name in mentioned(item)}

    def without(self, variables: tuple[str, ...]) -> tuple[str, ...]:
        """The columns that are still read, if they are few."""
        if not self._unread or not self._items:
            return variables
        now = self._items.next
        used = tuple(v for v in variables if v not in self._unread or self._last.get(v, -1) >= now)
        return used if 2 * len(used) <= len(variables) else variables
