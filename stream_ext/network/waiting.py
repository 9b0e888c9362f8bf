"""Waiting: what of a conjunction is not built yet, found by the variables that it speaks of.

A conjunction may have thousands of parts and conditions: none of these looks at all that are left for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from stream_ext.network.wires import Wire
from stream_ext.plan.logic import NO_NAMES, Logic, Names, Test, mentioned, traits_of
from stream_ext.plan.pushdown import takes


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
        """Those for which it is enough that these are bound, in the order of the text; they wait no more."""
        if not self._left:
            return []
        for name in self._of.keys() & certain:
            for place in self._of.pop(name):
                self._missing[place].discard(name)
                if not self._missing[place]:
                    self._ready.append(place)
        return self._take_due(self._ready)

    def within(self, items: Iterable[Logic]) -> tuple[Test, ...]:
        """Those that these parts are enough for; they wait no more."""
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
        # What draws by chance is asked of whole solutions.
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

    @cached_property
    def _of(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for place, item in self._left.items():
            for name in item.variables:
                found.setdefault(name, []).append(place)
        return found

    def take_of(self, name: str, fits: Callable[[Logic], bool]) -> list[Logic]:
        """Those that have this variable, and fit; they are taken."""
        places = [place for place in self._of.get(name, ()) if place in self._left and fits(self._left[place])]
        return [self._left.pop(place) for place in places]

    def run(self, wire: Wire, most: int, shared_most: int) -> tuple[Logic, ...]:
        """The next ones that may be worked out together beside the wire: all of them may begin with values that it has
        for certain, of so many variables; or none of them reads the store and each shares a variable with those before
        it. They are taken."""
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
            if stored and not takes(item, shared):
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
    """Which columns nobody will look at any more, once some parts are joined."""

    def __init__(self, items: Ordered, unread: Names) -> None:
        """`unread`: nothing but the parts looks at these."""
        self._items, self._unread = items, unread

    @cached_property
    def _last(self) -> dict[str, int]:
        """Of the parts to come the last one that mentions each variable."""
        return {name: place for place, item in self._items for name in mentioned(item)}

    def without(self, variables: tuple[str, ...]) -> tuple[str, ...]:
        """The columns that are looked at yet, if these are few."""
        if not self._unread or not self._items:
            return variables
        now = self._items.next
        used = tuple(v for v in variables if v not in self._unread or self._last.get(v, -1) >= now)
        return used if 2 * len(used) <= len(variables) else variables
