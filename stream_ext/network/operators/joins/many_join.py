"""Many join: the solutions that agree in all of three or more parts, in an order that is found anew for each batch.

The new rows of a part are joined with the other parts, one after the other: with the parts before it as they are now,
and with the parts after it as they were before this step, so each combination is found once. Parts are indexed, and
intermediate results are not stored: so the order can be changed at any time. The next part is the one with the fewest
rows for each row so far. These numbers are counted at each look-up, and tried again from time to time."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.core.shareable import Likeness, Shareable
from stream_ext.network.operators.joins.coexisting import CoexistingPairs
from stream_ext.rows.row_index import KeyedRows, RowIndex, SideBySideRows
from stream_ext.rows.zset import ZSet, concat, empty

#: After so many steps it is tried again what looking up elsewhere would find.
_TRIED_EVERY = 16
#: So many rows are looked up to try it.
_TRIED = 64
#: How much the rows that were looked up last count, at least.
_SHARE_LEAST = 0.25

#: What is found so many times as often as was thought is reason to try at once.
_SURPRISE = 2

#: So few rows may come next though they share nothing with what is joined: the one user who is asked about, before all
#: whom the authors of new posts are known to.
_HARDLY_ANY = 4

Key = tuple[int, ...]  # places of the variables by which a part is looked up


class ManyJoin(Shareable):
    is_monotone = True

    def __init__(self, parts: Sequence[tuple[str, ...]], sources: Sequence[int] | None = None) -> None:
        """`parts`: the variables of each part, which all of its rows bind. `sources`: for each part its input; parts
        that differ only in the names of their variables share one. None: each part has its own."""
        self.variables = self._names = tuple(dict.fromkeys(v for part in parts for v in part))  # the parts have these
        sources = range(len(parts)) if sources is None else sources
        self._indexed = [
            _IndexedRows(len(parts[n]), _shared(parts, n)) for n in map(sources.index, sorted(set(sources)))
        ]
        self._parts = [_Part(variables, self._indexed[n]) for variables, n in zip(parts, sources, strict=True)]
        self._sources = tuple(sources)
        self.coexisting = CoexistingPairs()
        self._fans: dict[tuple[frozenset[int], int], float] = {}  # rows found for a row of these parts in that one
        self._steps = 0
        self._surprised = False  # by what the last step found

    @property
    def likeness(self) -> Likeness:
        places = {name: place for place, name in enumerate(self._names)}
        parts = tuple([tuple([places[name] for name in part.variables]) for part in self._parts])
        return ManyJoin, parts, self._sources

    def shorten(self, by: int) -> None:
        for rows in self._indexed:
            rows.shorten(by)

    def step(self, moment: Moment, *changes: ZSet) -> ZSet:
        self._steps += 1
        if self._steps % _TRIED_EVERY == 0 or self._surprised:
            self._try_again()
        added = [rows.take_in(change, moment.time) for rows, change in zip(self._indexed, changes, strict=True)]
        found = [self._from(moment, n, added[source]) for n, source in enumerate(self._sources) if len(added[source])]
        whole = concat(found, len(self.variables))
        return replace(whole, fresh=self._fresh_columns(changes) if whole.weights is None else None)

    def order(self, first: int) -> list[int]:
        """The present order in which rows of this part are joined with the others."""
        joined, names, order = frozenset((first,)), set(self._parts[first].variables), [first]
        while len(order) < len(self._parts):
            n = min(self._candidates(joined, names), key=lambda n: self._fans.get((joined, n), 0.0))
            joined, names = joined | {n}, names | set(self._parts[n].variables)
            order.append(n)
        return order[1:]

    # ---- from one part to all -----------------------------------------------------------------------------------

    def _from(self, moment: Moment, first: int, rows: KeyedRows) -> ZSet:
        names, joined = self._parts[first].variables, frozenset((first,))
        while len(joined) < len(self._parts) and len(rows):
            n = self._next(moment, joined, names, rows)
            names, rows = self._joined(moment, first, n, joined, names, rows)
            joined |= {n}
        if not len(rows):
            return empty(len(self.variables))
        columns = tuple(rows.matrix[names.index(v)] for v in self._names)
        return ZSet(columns, len(rows), rows.weights if len(rows.weights) else None, rows.untils)

    def _joined(
        self, moment: Moment, first: int, n: int, joined: frozenset[int], names: tuple[str, ...], rows: KeyedRows
    ) -> tuple[tuple[str, ...], KeyedRows]:
        part = self._parts[n]
        index, mark = part.rows.index(part.key(names), moment.time)
        rows = rows.keyed(part.places(names))
        found = index.partners(rows, moment.time, index.number if n < first else mark, moment.control)
        found = self.coexisting.of(found, rows, names, index, part.variables, moment.evaluations)
        self._count(joined, n, len(rows), len(found[0]))
        own = [place for place, v in enumerate(part.variables) if v not in names]
        moment.control.room(len(found[0]), len(names) + len(own))
        out = SideBySideRows(len(names) + len(own), len(found[0]), index.weighted or len(rows.weights) > 0)
        index.pair(rows, found, (0, len(names)), 0, out, own)
        names += tuple(part.variables[place] for place in own)
        return names, KeyedRows(out.matrix, out.untils, out.weights, ())

    def _fresh_columns(self, changes: Sequence[ZSet]) -> frozenset[int] | None:
        """The columns of `ZSet.fresh`: a combination is new if one of its rows is."""
        places: set[int] = set()
        for part, source in zip(self._parts, self._sources, strict=True):
            change = changes[source]
            if change.count and change.fresh is None:
                return None
            if change.count and change.fresh is not None:
                places |= {self._names.index(part.variables[place]) for place in change.fresh}
        return frozenset(places)

    # ---- which comes next ---------------------------------------------------------------------------------------

    def _next(self, moment: Moment, joined: frozenset[int], names: tuple[str, ...], rows: KeyedRows) -> int:
        candidates = self._candidates(joined, set(names))
        if len(candidates) > 1:
            for n in candidates:
                if (joined, n) not in self._fans:
                    self._try(moment, joined, n, names, rows)
        return min(candidates, key=lambda n: self._fans.get((joined, n), 0.0))

    def _candidates(self, joined: frozenset[int], names: set[str]) -> list[int]:
        """Those that share a variable with what is joined, or have hardly a row; all that are left, if none does."""
        left = [n for n in range(len(self._parts)) if n not in joined]
        near = [n for n in left if names & set(self._parts[n].variables)]
        return [n for n in left if n in near or len(self._parts[n].rows) <= _HARDLY_ANY] if near else left

    def _try(self, moment: Moment, joined: frozenset[int], n: int, names: tuple[str, ...], rows: KeyedRows) -> None:
        part = self._parts[n]
        index, _ = part.rows.index(part.key(names), moment.time)
        some = rows.some(_TRIED).keyed(part.places(names))
        self._fans[joined, n] = len(index.partners(some, moment.time, control=moment.control)[0]) / len(some)

    def _count(self, joined: frozenset[int], n: int, rows: int, found: int) -> None:
        known, share = self._fans.get((joined, n)), max(_SHARE_LEAST, min(1.0, rows / 256))
        fan = found / rows
        self._surprised |= known is not None and fan > _SURPRISE * known + 1
        self._fans[joined, n] = fan if known is None else known * (1 - share) + fan * share

    def _try_again(self) -> None:
        """Forgets the numbers of look-ups that are not in the present orders."""
        self._surprised = False
        used = {(joined, n) for first in range(len(self._parts)) for joined, n in self._ways(first)}
        self._fans = {way: fan for way, fan in self._fans.items() if way in used}

    def _ways(self, first: int) -> list[tuple[frozenset[int], int]]:
        joined, found = frozenset((first,)), []
        for n in self.order(first):
            found.append((joined, n))
            joined |= {n}
        return found


class _Part:
    def __init__(self, variables: tuple[str, ...], rows: _IndexedRows) -> None:
        self.variables, self.rows = variables, rows

    def key(self, names: tuple[str, ...]) -> Key:
        return tuple(place for place, v in enumerate(self.variables) if v in names)

    def places(self, names: tuple[str, ...]) -> Key:
        """Of the same variables, where these names are the columns."""
        return tuple(names.index(v) for v in self.variables if v in names)


class _IndexedRows:
    """The rows of one part, or of several, with an index for each key that they have been looked up by."""

    def __init__(self, width: int, key: Key) -> None:
        self._indexes = {key: RowIndex(width, key)}
        self._marks = {key: 0}  # of each index: the number of the first row that was added in this step

    def __len__(self) -> int:
        return len(next(iter(self._indexes.values())))

    def take_in(self, change: ZSet, time: int) -> KeyedRows:
        rows = KeyedRows.of(change, ())
        for key, index in self._indexes.items():
            index.insert_rows(rows.keyed(key), time)
            self._marks[key] = index.number - change.count
        return rows

    def shorten(self, by: int) -> None:
        for index in self._indexes.values():
            index.shorten(by)

    def index(self, key: Key, time: int) -> tuple[RowIndex, int]:
        if key not in self._indexes:
            known, index = next(iter(self._indexes.items()))
            self._indexes[key], self._marks[key] = index.by(key, time, self._marks[known])
        return self._indexes[key], self._marks[key]


def _shared(parts: Sequence[tuple[str, ...]], n: int) -> Key:
    """A variable that another part has, too."""
    others = {v for m, part in enumerate(parts) if m != n for v in part}
    return tuple(place for place, v in enumerate(parts[n]) if v in others)[:1]
