"""Plans by template: one-shot queries that differ in constants of triple patterns share what was planned for one.

    SELECT ?n { person:1 foaf:name ?n }  and  SELECT ?n { person:2 foaf:name ?n }    are    SELECT ?n { 1 foaf:name ?n }

The second text of an outline (`language/syntax/outline.py`) is planned with parameters in the places of its constants;
those of the next ones are put into this plan. It is not parsed, checked, normalised and ordered again.

A constant is a parameter if it is a subject or an object of one triple pattern of the store, and nothing else depends
on it. A plan serves other constants if their counts, which ordered its joins, are about the same."""

from __future__ import annotations

import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from hbase_store import Snapshot
from hbase_store.cache import RecentlyUsed
from stream_ext.errors import RilletError
from stream_ext.language.algebra.algebra import Form, Query, ServicePattern
from stream_ext.language.algebra.terms import Constant
from stream_ext.language.algebra.walk import query_parts, template_of, walk
from stream_ext.language.syntax import parse
from stream_ext.language.syntax.outline import Outline, canonical, marked, prefixes_of
from stream_ext.network.estimate import Estimates
from stream_ext.network.inputs import Encode, NetworkInputs
from stream_ext.network.network import Network
from stream_ext.network.operators.core.pattern import UNKNOWN, IdPattern, O, P, S
from stream_ext.network.operators.joins.store_join import StoreJoin
from stream_ext.oneshot.query_traits import QueryTraits
from stream_ext.plan.logic import Logic, PatternScan, Select, nodes_of
from stream_ext.plan.pipeline import logic_of
from stream_ext.plan.refused_syntax.refuse import calls_custom_functions, runnable

_OUTLINES_MAX = 512
#: Plans of one outline, for constants that differ in what is no parameter, or in their counts.
_PLANS_MAX = 8
#: Counts are about the same if one is no more than so many times the other; and below this they do not matter.
_TIMES, _FEW = 10.0, 10.0
#: After so many snapshots joins are ordered anew.
SNAPSHOTS_MAX = 256
_MARKER = "urn:x-rillet:parameter:"
_MARKERS = re.compile(_MARKER.encode() + rb"([0-9]+)")
_POSITIONS = re.compile(r"Position\(line=\d+, column=\d+\)")


@dataclass(frozen=True, slots=True)
class _Lifted:
    """A pattern of the plan with its parameters: the position, and the place of the constant in the outline."""

    pattern: IdPattern
    parameters: tuple[tuple[int, int], ...]
    count: float  # of its matches in the store, for the constants that the plan was made for

    def with_ids(self, ids: Mapping[int, int]) -> IdPattern:
        return self.pattern.with_fixed({position: ids[place] for position, place in self.parameters})


@dataclass(frozen=True, slots=True)
class PlanTemplate:
    """A plan with parameters. `query` has other constants in their places."""

    query: Query
    traits: QueryTraits
    network: Network
    prefixes: dict[str, str]
    constants: tuple[str | None, ...]  # of the outline; None: a parameter
    places: tuple[int, ...]  # of the parameters
    lifted: tuple[_Lifted, ...]
    joins: tuple[tuple[int, int], ...]  # the stage of a join, and its pattern among the lifted ones
    sn: int

    def bound(self, constants: Sequence[str]) -> BoundTemplate | None:
        """With the constants of a text of the outline; None: it does not fit them."""
        if not all(mine is None or mine == other for mine, other in zip(self.constants, constants, strict=True)):
            return None
        texts = [canonical(constants[place], self.prefixes) for place in self.places]
        return None if None in texts else BoundTemplate(self, texts)  # type: ignore[arg-type]  # mypy sees no None in it

    def network_for(self, texts: Sequence[bytes], snapshot: Snapshot, encode: Encode) -> Network | None:
        """The plan with these terms as its parameters; None: it does not serve them."""
        if abs(int(snapshot.sn) - self.sn) >= SNAPSHOTS_MAX:
            return None
        found = encode(texts).tolist()
        ids = {place: id or UNKNOWN for place, id in zip(self.places, found, strict=True)}
        patterns = [lifted.with_ids(ids) for lifted in self.lifted]
        counted = Estimates(snapshot, lambda _: patterns[0])
        for lifted, pattern in zip(self.lifted, patterns, strict=True):
            # Without a predicate the number of all edges counts, whatever the constants are.
            if P in pattern.fixed and not _about_the_same(lifted.count, counted.count(pattern)):
                return None
        unknown = [text for text, id in zip(texts, found, strict=True) if not id]
        return self.network.with_patterns([(stage, patterns[at]) for stage, at in self.joins], unknown)


@dataclass(frozen=True, slots=True)
class BoundTemplate:
    """A plan with parameters, and the terms for them."""

    template: PlanTemplate
    texts: list[bytes]

    def network(self, snapshot: Snapshot, encode: Encode) -> Network | None:
        return self.template.network_for(self.texts, snapshot, encode)


class PlanTemplates:
    """The plans with parameters of the last outlines. Any thread may use them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        #: An outline that was seen once has none yet; one that has no parameters has no plans for good (None).
        self._plans: RecentlyUsed[tuple[str | int, ...], tuple[PlanTemplate, ...] | None] = RecentlyUsed(_OUTLINES_MAX)

    def __len__(self) -> int:
        return len(self._plans)

    def find(self, outline: Outline) -> tuple[BoundTemplate, ...] | None:
        """The plans that may serve this text, the most recent first; None: nothing is to be learnt from it."""
        with self._lock:
            plans = self._plans.get(outline.key)
            if plans is None and outline.key not in self._plans:
                self._plans.put(outline.key, ())
        if plans is None:
            return None
        return tuple(bound for plan in plans if (bound := plan.bound(outline.constants)) is not None)

    def learn(self, outline: Outline, text: str, base: str, query: Query, snapshot: Snapshot, encode: Encode) -> None:
        """Makes a plan with parameters of a text that is planned now. `query`: what was parsed from it.

        Not if the outline has all that it may have: texts that differ in what is no parameter, such as a word in a
        FILTER, would each be planned again for plans that serve none of the others."""
        sn = int(snapshot.sn)
        with self._lock:
            if len(self._fresh(outline, sn)) >= _PLANS_MAX:
                return
        made = plan_template(outline, text, base, query, snapshot, encode)
        with self._lock:
            plans = self._plans.get(outline.key) if outline.key in self._plans else ()
            if made is not None and plans is not None:
                self._plans.put(outline.key, (made, *self._fresh(outline, sn))[:_PLANS_MAX])
            elif not plans:
                self._plans.put(outline.key, None)

    def _fresh(self, outline: Outline, sn: int) -> list[PlanTemplate]:
        """The plans of the outline that may still serve this snapshot."""
        return [plan for plan in self._plans.get(outline.key) or () if abs(plan.sn - sn) < SNAPSHOTS_MAX]


def plan_template(
    outline: Outline, text: str, base: str, query: Query, snapshot: Snapshot, encode: Encode
) -> PlanTemplate | None:
    """The plan of a text, with parameters; None: it has none."""
    if not outline.constants or _MARKER in text or not _may_have_parameters(query):
        return None
    places = _liftable(text, base, range(len(outline.constants)))
    if not places:
        return None
    try:
        with_markers = _query_of(text, base, places)
    except RilletError:
        return None
    if with_markers.form is Form.CONSTRUCT and _MARKERS.search(repr(template_of(with_markers)).encode()):
        return None  # after CONSTRUCT WHERE the pattern is the template, too
    select = logic_of(with_markers)
    prefixes = prefixes_of(text, base)
    texts = {place: canonical(outline.constants[place], prefixes) for place in places}
    known = {place: text for place, text in texts.items() if text is not None}
    if len(known) < len(places) or _with_constants(select, known) != _shown(logic_of(query)):
        return None
    ids = dict(zip(known, encode(list(known.values())).tolist(), strict=True))
    markers = _Markers(ids, encode)
    counted_as = {markers.id_of(place): ids[place] or UNKNOWN for place in ids}
    network = Network.of_query(select, NetworkInputs(snapshot, markers.encode, counted_as=counted_as))
    if network.unknown:
        return None
    return _plan_template_of(network, with_markers, prefixes, outline, places, markers, ids, snapshot)


def _may_have_parameters(query: Query) -> bool:
    if query.form is Form.DESCRIBE or query.windows or calls_custom_functions(query):
        return False
    return not any(isinstance(node, ServicePattern) for part in query_parts(query) for node in walk(part))


def _query_of(text: str, base: str, places: Collection[int]) -> Query:
    changed = marked(text, places, _MARKER)
    found = runnable(parse(changed, base), changed)
    assert isinstance(found, Query), "another constant makes no other form"
    return found


def _liftable(text: str, base: str, places: Collection[int]) -> tuple[int, ...]:
    """Which constants are a subject or an object of one triple pattern of the store, and nothing else."""
    try:
        select = logic_of(_query_of(text, base, places))
    except RilletError:
        return ()  # somewhere a marker is no constant: the name of a function, a datatype
    everywhere = [int(place) for place in _MARKERS.findall(repr(select).encode())]
    in_patterns = [place for node in nodes_of(select) for place in _places_in(node)]
    return tuple(place for place in in_patterns if everywhere.count(place) == 1 and in_patterns.count(place) == 1)


def _places_in(node: Logic) -> Iterator[int]:
    if isinstance(node, PatternScan) and node.window is None:
        for part in (node.subject, node.object):
            if isinstance(part, Constant) and (match := _MARKERS.search(part.text)):
                yield int(match[1])


def _with_constants(select: Select, texts: Mapping[int, bytes]) -> str:
    """What is written of the plan with its constants in the places of the markers."""
    shown = _shown(select)
    for place, text in texts.items():
        quotes = '""' if text.startswith(b'"') else "<>"
        shown = shown.replace(repr(f"{quotes[0]}{_MARKER}{place}{quotes[1]}".encode()), repr(text))
    return shown


def _shown(select: Select) -> str:
    """All of a plan but for the positions in its text, which are for errors."""
    return _POSITIONS.sub("", repr(select))


class _Markers:
    """Ids for markers, which no term of a store has."""

    def __init__(self, places: Collection[int], encode: Encode) -> None:
        self._encode = encode
        self._ids = {place: UNKNOWN - 1 - number for number, place in enumerate(places)}
        self.place_of = {id: place for place, id in self._ids.items()}

    def id_of(self, place: int) -> int:
        return self._ids[place]

    def encode(self, texts: Sequence[bytes]) -> Any:
        found = self._encode(texts).copy()
        for at, text in enumerate(texts):
            if match := _MARKERS.search(text):
                found[at] = self._ids[int(match[1])]
        return found


def _plan_template_of(
    network: Network,
    query: Query,
    prefixes: dict[str, str],
    outline: Outline,
    places: tuple[int, ...],
    markers: _Markers,
    ids: Mapping[int, int],
    snapshot: Snapshot,
) -> PlanTemplate | None:
    """The places of the parameters in the network; None: not all of them are in patterns of joins with the store."""
    lifted: dict[int, _Lifted] = {}
    joins: list[tuple[int, int]] = []
    estimates = Estimates(snapshot, lambda _: IdPattern({}, {}))
    real = {place: id or UNKNOWN for place, id in ids.items()}
    for number, stage in enumerate(network.stages):
        if not isinstance(stage.operator, StoreJoin):
            continue
        pattern = stage.operator.pattern
        ends = [(position, pattern.fixed.get(position)) for position in (S, O)]
        parameters = tuple((position, markers.place_of[id]) for position, id in ends if id in markers.place_of)
        if parameters:
            if id(pattern) not in lifted:
                uncounted = _Lifted(pattern, parameters, 0.0)
                lifted[id(pattern)] = _Lifted(pattern, parameters, estimates.count(uncounted.with_ids(real)))
            joins.append((number, list(lifted).index(id(pattern))))
    found = {place for each in lifted.values() for _, place in each.parameters}
    if found != set(places) or _mentions_in_other_parts(network, lifted, markers.place_of):
        return None
    constants = tuple(None if place in found else text for place, text in enumerate(outline.constants))
    return PlanTemplate(
        query, QueryTraits(query), network, prefixes, constants, places, tuple(lifted.values()), tuple(joins),
        int(snapshot.sn),
    )  # fmt: skip


def _about_the_same(count: float, other: float) -> bool:
    most, least = max(count, other), min(count, other)
    return most <= _FEW or most <= _TIMES * max(least, 1.0)


def _mentions_in_other_parts(network: Network, patterns: Collection[int], ids: Collection[int]) -> bool:
    """Whether anything of a network but these patterns (by their identities) has one of the ids, or a marker."""
    waiting: list[Any] = [network.answer, network.cut]
    for stage in network.stages:
        joins = isinstance(stage.operator, StoreJoin) and id(stage.operator.pattern) in patterns
        waiting += stage.operator.without_pattern() if joins else [stage.operator]  # type: ignore[attr-defined]  # it joins
    seen: set[int] = set()
    sought = np.array(list(ids), np.uint64)
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, np.ndarray):
            if each.dtype == np.uint64 and np.isin(each, sought).any():
                return True
        elif isinstance(each, int | np.integer):
            if int(each) in ids:
                return True
        elif isinstance(each, str | bytes):
            if _MARKERS.search(each.encode() if isinstance(each, str) else each):
                return True
        else:
            waiting += _inside(each)
    return False


def _inside(each: Any) -> list[Any]:
    """What an object of ours, a container or a function refers to."""
    if isinstance(each, Mapping):
        return [*each, *each.values()]
    if isinstance(each, list | tuple | set | frozenset):
        return list(each)
    if isinstance(each, partial):
        return [each.func, *each.args, *each.keywords.values()]
    if isinstance(each, MethodType):
        return [each.__self__]
    if isinstance(each, FunctionType):
        return [cell.cell_contents for cell in each.__closure__ or ()]
    if not type(each).__module__.startswith("stream_ext."):
        return []
    found = list(vars(each).values()) if hasattr(each, "__dict__") else []
    slots = [name for kind in type(each).__mro__ for name in getattr(kind, "__slots__", ())]
    return [*found, *(getattr(each, name) for name in slots if hasattr(each, name))]
