"""Join order: in which order the parts of a conjunction are joined.

    ?x :p ?y (in :w)   ?z :r ?v (1,000,000)   ?y :q ?z (10)      =>      :w, then :q, then :r

Windows come first, because arrivals drive the query; then always the part with the fewest expected rows, among those
that share a variable with the parts before. A part without a shared variable comes last.

Registered queries share what they join in the same order. So of parts that cost nearly the same the one comes first
that does so in all queries, however they are written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush

from stream_ext.language.algebra.terms import Node, Variable
from stream_ext.plan.logic import Alternatives, Logic, Names, PatternScan, Remote, Select, Test, traits_of
from stream_ext.plan.properties.pushdown import accepts_bindings
from stream_ext.plan.properties.shape import shape_of

Estimate = Callable[[Logic, Names], float]
#: So many variables of a part are looked at one by one as they become bound.
_LOOKED_ALWAYS = 16
#: Of so many parts those that are nearly equal are looked for.
_COMPARED_MAX = 64
#: The least goes first.
Rank = tuple[float, ...]


def order_items(
    items: Sequence[Logic],
    bound: Names,
    estimate: Estimate,
    check: Callable[[], None] = lambda: None,
    near: float = 1.0,
) -> list[Logic]:
    """`estimate(item, bound)`: how many rows the item has for one value of each variable in `bound`; `check` raises
    when nobody waits for it any more. `near`: of those that have so many times the fewest rows at most, the first one
    comes next."""

    def rank(item: Logic, bound: Names) -> Rank:
        check()
        # A remote service comes last: the values that are bound by then are sent to it. What a source is asked for is
        # a part of the dataset as any other.
        place = (not reads_window(item), isinstance(item, Remote) and item.group is None)
        return (*place, not item.variables & bound, _cost(item, bound, estimate))

    return [item for item, _ in ranked(items, bound, rank, near if len(items) <= _COMPARED_MAX else 1.0)]


def in_common_order(items: Sequence[Logic], tests: Sequence[Test]) -> list[Logic]:
    """The parts in an order that does not depend on how the query writes them, as far as they are triple patterns: that
    of their terms. So queries with the same patterns join them in the same order, and may share these joins. Before
    others come parts that more conditions are about."""

    def rank(item: Logic) -> tuple[int, bool, tuple[tuple[bool, bytes], ...]]:
        own = sum(1 for test in tests if test.needs and test.needs <= item.variables)
        pattern = _first_pattern(shape_of(item)[0])
        if pattern is None:
            return -own, True, ()
        nodes = pattern.predicate, pattern.subject, pattern.object
        return -own, False, tuple((isinstance(node, Variable), _text_of(node)) for node in nodes)

    return sorted(items, key=rank)


def _first_pattern(shape: Logic) -> PatternScan | None:
    """Of a merge of several windows that of the first one."""
    if isinstance(shape, Select) and isinstance(shape.inner, Alternatives) and shape.inner.parts:
        shape = shape.inner.parts[0]
    return shape if isinstance(shape, PatternScan) else None


def _text_of(node: Node) -> bytes:
    return node.name.encode() if isinstance(node, Variable) else node.text


def ranked(
    items: Sequence[Logic], bound: Names, rank: Callable[[Logic, Names], Rank], near: float = 1.0
) -> Iterator[tuple[Logic, Names]]:
    """Always the item of the least rank, and which of its variables are bound before it. A rank depends on these alone:
    it is worked out again when there are more of them, and not for every step; and once there are many, when they have
    become twice as many. `near`: see `order_items`."""
    left, is_bound = dict(enumerate(items)), set(bound)
    of_variable: dict[str, list[int]] = {}
    for place, item in left.items():
        for name in item.variables:
            of_variable.setdefault(name, []).append(place)
    ranks = [(rank(item, item.variables & bound) if len(left) > 1 else (), place) for place, item in left.items()]
    latest = {place: found for found, place in ranks}
    looked: dict[int, int] = {}  # how many of its variables were bound when its rank was worked out
    became: Counter[int] = Counter()  # how many have been bound since
    heapify(ranks)
    while left:
        found, place = heappop(ranks)
        if place not in left or latest[place] != found:
            continue
        if near > 1.0 and len(left) > 1 and (first := _first_near(left, latest, found, near)) != place:
            heappush(ranks, (found, place))
            place = first
        item = left.pop(place)
        yield item, item.variables & is_bound
        new = item.certain - is_bound
        is_bound |= new
        touched = [other for name in new for other in of_variable.pop(name) if other in left]
        became.update(touched)
        for again in sorted(set(touched)):
            before = looked.get(again, 0)
            if before > _LOOKED_ALWAYS and became[again] < before:
                continue
            looked[again] = before + became.pop(again)
            latest[again] = rank(left[again], left[again].variables & is_bound)
            heappush(ranks, (latest[again], again))


def _first_near(left: Iterable[int], latest: Mapping[int, Rank], least: Rank, near: float) -> int:
    """The first of the places whose rank is hardly more than the least one."""
    place, rows = least[:-1], least[-1]
    return min(each for each in left if latest[each][:-1] == place and latest[each][-1] <= rows * near)


def connected(items: Sequence[Logic], most: int) -> list[tuple[Logic, ...]]:
    """The parts in groups of so many at most, in each of which all are connected by variables that they share."""
    left = dict(enumerate(items))
    of_variable: dict[str, list[int]] = {}
    for place, item in left.items():
        for name in item.variables:
            of_variable.setdefault(name, []).append(place)
    groups: list[tuple[Logic, ...]] = []
    while left:
        group: list[Logic] = []
        adjacent = [next(iter(left))]
        while adjacent and len(group) < most:
            place = adjacent.pop()
            if place not in left:
                continue
            item = left.pop(place)
            group.append(item)
            # What few share is followed first: else it would be left over, connected with nothing that is left.
            for name in sorted(item.variables, key=lambda name: -len(of_variable.get(name, ()))):
                adjacent += reversed(of_variable.pop(name, ()))
        groups.append(tuple(group))
        for place in adjacent:
            for name in left[place].variables if place in left else ():
                of_variable.setdefault(name, []).append(place)
    return groups


def _cost(item: Logic, bound: Names, estimate: Estimate) -> float:
    if accepts_bindings(item, bound):
        return estimate(item, bound)
    # It is worked out as a whole, and joined then.
    return estimate(item, frozenset())


def reads_window(item: Logic) -> bool:
    return traits_of(item).reads_window


def reads_store(item: Logic) -> bool:
    return traits_of(item).reads_store
