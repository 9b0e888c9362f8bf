"""Combined groups: what groups have in each range of a divided query becomes the rows of the query.

    GROUP BY ?room HAVING (AVG(?v) > 20)     range 0: room1, 3 values, sum 70     range 1: room1, 1 value, sum 30
    combined                                 room1, 4 values, sum 100             its average is 25: a row

Done by the operators of the query itself, from GROUP BY on; nothing of it reads the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np

from hbase_store import Snapshot
from hbase_store.cache import RecentlyUsed
from stream_ext.language.algebra.algebra import Form, Query
from stream_ext.language.algebra.walk import template_of
from stream_ext.network.building.builder import Builder
from stream_ext.network.building.conjunctions import read_by
from stream_ext.network.estimate import Estimates
from stream_ext.network.operators.answers.construct import Construct
from stream_ext.network.operators.answers.ranking import Orders
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.groups.sum_results import ZERO_ID
from stream_ext.network.operators.rowwise.sources import GivenRows
from stream_ext.network.wires import in_steps
from stream_ext.plan.logic import NO_NAMES, Select
from stream_ext.plan.properties.partial_groups import COUNTED, grouped, in_range, of_ranges
from stream_ext.plan.properties.result_columns import columns_of
from stream_ext.plan.templates.parameters import OF_QUERY, QueryTemplate
from stream_ext.rows.zset import Columns, Ids, ZSet

Mask = np.typing.NDArray[np.bool_]

#: So many networks, and so many queries, stay: those that were needed last.
_NETWORKS_MAX, _QUERIES_MAX = 64, 4096


class GroupedQuery(NamedTuple):
    """A query with groups. `template` and `constants`: if others differ from it in these only."""

    query: Query
    select: Select
    template: QueryTemplate | None = None
    constants: tuple[bytes, ...] = ()


class _Combination:
    """Of one query; or of all queries of a template: their rows have the place of the query in front, and the constants
    that are read behind the groups."""

    def __init__(self, query: Query, select: Select, template: QueryTemplate | None) -> None:
        select = grouped(select) or select
        later = (*select.having, *(test for _, test in select.after))
        read = NO_NAMES.union(*map(read_by, later))
        self.parameters = () if template is None else tuple(name for name in template.names if name in read)
        self._places = [] if template is None else [template.names.index(name) for name in self.parameters]
        self._is_shared = template is not None
        names = in_range(select).names
        self._counted = names.index(COUNTED) if COUNTED in names else None
        carried = (OF_QUERY, *self.parameters) if self._is_shared else ()
        self._given = GivenRows((*carried, *names))
        snapshot = cast(Snapshot, None)  # nothing of it reads the store
        builder = Builder({}, lambda text: 0, lambda pattern_of: Estimates(snapshot, pattern_of), Orders())
        wire, cut = builder.over_groups(of_ranges(select), self._given, carried)
        self._steps, self._last = in_steps(builder.plan.stages, wire.stage, ()), wire.stage
        self._names = cut.variables  # with those that order the rows
        is_graph = query.form is Form.CONSTRUCT
        self._construct = Construct(cut.variables, template_of(query)) if is_graph else None
        self._shown = tuple(dict.fromkeys((*columns_of(query), *(name for name, _ in select.order))))

    def rows(self, moment: Moment, whose: Ids, columns: Columns, constants: Callable[[], list[Ids]]) -> Columns:
        """`whose`: the places of queries, of a template. `constants`: of each query, one for each of the template's
        names."""
        if self._counted is not None:
            there = _ranges_with_rows(whose, columns[self._counted])
            whose, columns = whose[there] if len(whose) else whose, tuple(column[there] for column in columns)
        of_query: Columns = (whose,) if self._is_shared else ()
        if self._places:
            of_each = constants()
            of_query += tuple(
                np.array([each[place] for each in of_each], np.uint64)[whose.astype(np.int64)] for place in self._places
            )
        self._given.rows = ZSet((*of_query, *columns), len(columns[0]))
        found = self._found(moment)
        if self._construct is not None:
            return self._construct.step(moment, found).columns
        own = dict(zip(self._names, found.columns, strict=True))
        nothing = np.zeros(found.count, np.uint64)
        own_whose = (own[OF_QUERY],) if self._is_shared else ()
        return (*own_whose, *(own.get(name, nothing) for name in self._shown))

    def _found(self, moment: Moment) -> ZSet:
        changes = dict[int, ZSet]()
        for at, stage, _ in self._steps:
            changes[at] = stage.operator.step(moment, *(changes[i] for i in stage.inputs))
        return changes[self._last]


def _key(query: Query, select: Select, template: QueryTemplate | None) -> tuple[object, ...]:
    """Equal for queries of whose groups the same is made."""
    made = template_of(query) if query.form is Form.CONSTRUCT else ()
    return select, template is not None, query.form, columns_of(query), made


def _ranges_with_rows(whose: Ids, counted: Ids) -> Mask:
    """A range in which a query has no solutions knows nothing of it, unless no range has any."""
    some: Mask = counted != np.uint64(ZERO_ID)
    if len(whose):
        some |= ~np.isin(whose, whose[some])
    elif not some.any():
        some[:] = True
    return some


class CombinedGroups:
    """`query_of`: a registered query, by its number; None: it was dropped meanwhile."""

    def __init__(self, query_of: Callable[[int], GroupedQuery | None]) -> None:
        self._query_of = lru_cache(maxsize=_QUERIES_MAX)(query_of)
        self._combinations: RecentlyUsed[tuple[object, ...], _Combination] = RecentlyUsed(_NETWORKS_MAX)

    def rows(self, moment: Moment, queries: Ids, whose: Ids, columns: Columns) -> Columns:
        """The rows of the result, before they are ordered and cut; `whose` first, if there are any. `columns`: the rows
        of all ranges. None are made for queries that were dropped."""
        first = next((found for number in queries.tolist() if (found := self._query_of(number)) is not None), None)
        if first is None:
            return ()
        template = first.template if len(whose) else None
        select = first.select if template is None else template.select
        combination = self._combinations.get(key := _key(first.query, select, template))
        if combination is None:
            combination = _Combination(first.query, select, template)
            self._combinations.put(key, combination)
        return combination.rows(moment, whose, columns, lambda: self._constants(moment, queries.tolist()))

    def _constants(self, moment: Moment, numbers: Sequence[int]) -> list[Ids]:
        found = [self._query_of(number) for number in numbers]
        width = max(len(each.constants) for each in found if each is not None)
        ids = moment.vocabulary.encode([text for each in found if each is not None for text in each.constants])
        lines, unknown = iter(ids.reshape(-1, width)), np.zeros(width, np.uint64)
        return [unknown if each is None else next(lines) for each in found]
