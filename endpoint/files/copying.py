"""A copy of another store: graph by graph, and what is large in parts, each of which is one snapshot of ours.

    the default graph                      one request, one snapshot
    <http://ex/small>                      one request, one snapshot
    <http://ex/large>, blank nodes         what has a blank node, in one request: their labels mean something only there
    <http://ex/large>, from the start      subjects up to some one, in the order of the source
    <http://ex/large>, behind <http://ex/k>
    200 graphs (<http://ex/1>, ...)        small ones, where there are many
    2 graphs (...), blank nodes            those that share some: only one answer says which these are

A part is published when all of it came, and the store keeps which one it was. So a copy that was interrupted goes on
with the next part, and none is there twice."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TextIO

from endpoint.files.load import Done, LoadTarget, target_of
from endpoint.files.reading import Pieces, Progress, Source
from stream_ext.errors import BadArgument, BadData, RilletError
from stream_ext.remote.fetching import CannotFetch, NoAnswer
from stream_ext.remote.sparql_http import TooMuch
from stream_ext.remote.sparql_source import Counted, CutShort, SourceQuads, SourceTriples, SparqlSource
from stream_ext.writer.load_records import Loaded

#: Triples of a part. What a source sends at once may be less; then parts are smaller.
PART_TRIPLES = 1_000_000
#: Smaller parts are not tried.
_PART_LEAST = 10
#: What breaks off as often is too much at once, perhaps.
_TRIES = 3
#: From so many graphs on those that are so many times smaller than a part are asked for together, so many at most.
_MANY_GRAPHS, _FEWER, _GRAPHS_MAX = 50, 10, 200
#: Where it may help to ask for less at once.
_LESS = (CutShort, TooMuch, NoAnswer)
_WHOLE, _BLANK = "whole", "blank nodes"


@dataclass(frozen=True, slots=True)
class Copy:
    """What is to be copied. `graphs`: only these, None among them is the default graph; None: all. `into`: the named
    graph for what is in the source's default graph. `part`: triples, 0 for one request a graph."""

    graphs: tuple[str | None, ...] | None = None
    into: str | None = None
    default: str = "auto"  # copy, skip; auto: skip if it is but the union of the named ones
    part: int = PART_TRIPLES
    again: bool = False


def copy_all(
    url: str, source: SparqlSource, wanted: Copy, progress: TextIO, token: str | None = None, server: str | None = None
) -> Iterator[Done]:
    """What became of each part, when it is written; a `server` stands for the store that it holds."""
    with target_of(url, token, progress, server) as target:
        if target.is_at(source.address):
            raise BadArgument(
                f"{source.url} is the store that would be written to: give another source or another store"
            )
        try:
            yield from _Copying(source, target, wanted, progress).all()
        except CannotFetch as error:
            advice = "; what has been copied so far is stored: repeat the command to continue" if _passes(error) else ""
            raise RilletError(f"{error}{advice}") from None


def _passes(error: CannotFetch) -> bool:
    return isinstance(error, NoAnswer)


class _Copying:
    def __init__(self, source: SparqlSource, target: LoadTarget, wanted: Copy, progress: TextIO) -> None:
        self._source, self._target, self._wanted, self._progress = source, target, wanted, progress
        self._part = wanted.part
        self._reported: set[int] = set()  # snapshots
        self._known: dict[str | None, dict[str, Loaded]] = defaultdict(dict)  # by the graph's name here
        for each in () if wanted.again else target.loaded():
            if each.path == source.url:
                self._remember(each)

    def _remember(self, what: Loaded) -> None:
        several = _several(what.part)
        if several is None:
            self._known[what.graph][what.part] = what
        else:
            for name in several[1]:
                self._known[name][several[0]] = what

    def _into(self, graph: str | None) -> str | None:
        return self._wanted.into if graph is None else graph

    def all(self) -> Iterator[Done]:
        self._notice(f"counting the triples of {self._source.url}")  # which takes long where they are many
        graphs = self._graphs()
        yield from self._shared_blank_nodes([each for each in graphs if each.blank])
        for some in self._batches(graphs):
            if (before := self._known[self._into(some[0].graph)].get(_WHOLE)) is not None:
                yield from self._skipped(before, SourceTriples(some[0].graph))
            elif len(some) > 1:
                yield from self._batch(some)
            else:
                yield from self._graph(some[0])

    def _skipped(self, what: Loaded, triples: SourceTriples) -> Iterator[Done]:
        """Once, of however many graphs it is."""
        if what.sn not in self._reported:
            self._reported.add(what.sn)
            yield Done(_named(_shown(what, triples)), what, 0.0)

    # ---- which graphs

    def _graphs(self) -> list[Counted]:
        wanted = self._wanted.graphs
        named = self._source.graphs(wanted)
        there = {each.graph for each in named}
        if absent := [each for each in wanted or () if each is not None and each not in there]:
            raise RilletError(f"<{self._source.url}> has no graph <{absent[0]}>, or the graph has no triples")
        if self._wanted.into in there and self._wanted.into is not None:
            raise BadArgument(
                f"<{self._wanted.into}> is also a graph of the source: choose another graph for the default "
                "graph with --graph"
            )
        default = self._source.default_graph() if self._takes_default(bool(named)) else None
        return [default, *named] if default is not None and default.triples else named

    def _takes_default(self, has_named: bool) -> bool:
        wanted, by_name = self._wanted, self._wanted.graphs
        if wanted.default == "skip" or (by_name is not None and None not in by_name):
            return False
        if wanted.default == "copy" or by_name is not None or not has_named or not self._source.default_is_union():
            return True
        self._notice(
            "the default graph of the source is the union of its named graphs, so it is not copied as "
            "well (--default-graph copy copies it)"
        )
        return False

    def _batches(self, graphs: Sequence[Counted]) -> Iterator[list[Counted]]:
        """Small graphs together where there are many, each of the others alone."""
        batch: list[Counted] = []
        size = 0
        for each in graphs:
            known = self._known[self._into(each.graph)]
            small = each.graph is not None and each.triples * _FEWER <= self._part and not known.keys() - {_WHOLE}
            if len(graphs) < _MANY_GRAPHS or not small:
                yield [each]
                continue
            same = not batch or known.get(_WHOLE) is self._known[batch[-1].graph].get(_WHOLE)
            if batch and (not same or size + each.triples > self._part or len(batch) == _GRAPHS_MAX):
                yield batch
                batch, size = [], 0
            batch.append(each)
            size += each.triples
        if batch:
            yield batch

    def _batch(self, graphs: Sequence[Counted]) -> Iterator[Done]:
        """Copies small graphs by one request; one by one, if the source does not answer all together."""
        names = tuple(each.graph for each in graphs)
        what = Loaded(self._source.url, 0, 0, None, part=json.dumps({_WHOLE: names}))
        try:
            yield self._copied(SourceQuads(names), sum(each.triples for each in graphs), what)
        except _LESS as error:
            self._notice(f"{error}: requesting one graph at a time")
            for each in graphs:
                yield from self._graph(each)

    def _shared_blank_nodes(self, graphs: Sequence[Counted]) -> Iterator[Done]:
        """Two answers say of no blank node that it is the same in both. So, where graphs share some, what has any of
        these comes in one answer for all graphs."""
        new: list[str | None] = []
        old: list[str | None] = []
        for each in graphs:
            is_old = bool(self._known[self._into(each.graph)].keys() & {_WHOLE, _BLANK})
            (old if is_old else new).append(each.graph)
        count = self._source.count_blank_nodes
        if old and new and count([*old, *new]) != count(old) + count(new):
            raise RilletError(
                f"<{self._source.url}>: graphs that were copied before share blank nodes with others that "
                f"were not ({_list(new)}); copy all of them with one command, into a store without any of them"
            )
        if len(new) > 1 and count(new) != count(new, by_graph=True):
            names = [self._into(graph) for graph in new]
            what = Loaded(self._source.url, 0, 0, self._wanted.into, part=json.dumps({_BLANK: names}))
            yield self._blank_ones(
                SourceQuads(tuple(new), blank=True), sum(each.blank for each in graphs if each.graph in new), what
            )
            self._remember(what)

    # ---- one graph

    def _graph(self, counted: Counted) -> Iterator[Done]:
        graph, total, blank = counted.graph, counted.triples, counted.blank
        into = self._into(graph)
        known = self._known[into]
        if not known and not (self._part and total > self._part):
            try:
                yield self._copied(SourceTriples(graph), total, Loaded(self._source.url, 0, 0, into, part=_WHOLE))
                return
            except _LESS as error:
                if not self._part or not self._smaller(_sent(error, total)):
                    raise
                self._notice(f"{error}: requesting the data in parts")
        if blank and _BLANK not in known:
            what = Loaded(self._source.url, 0, 0, into, part=_BLANK)
            yield self._blank_ones(SourceTriples(graph, blank=True), blank, what)
        elif blank:
            yield from self._skipped(known[_BLANK], SourceTriples(graph, blank=True))
        if total > blank:
            yield from self._ranges(graph, into, total - blank, known)

    def _blank_ones(self, triples: SourceTriples | SourceQuads, count: int, what: Loaded) -> Done:
        try:
            return self._copied(triples, count, what)
        except (CutShort, TooMuch) as error:
            raise CannotFetch(
                f"{error}: triples with blank nodes must come in one answer, because a blank node label is valid only "
                "in its answer; raise the source's limit (Virtuoso: ResultSetMaxRows), or load a file that it writes"
            ) from None

    def _ranges(self, graph: str | None, into: str | None, left: int, known: dict[str, Loaded]) -> Iterator[Done]:
        """What has no blank node, by its subjects."""
        ranges = {after: (until, each) for each in known.values() for after, until in _range_of(each.part)}
        rest: SourceTriples | None = SourceTriples(graph, blank=False)
        while rest is not None:
            if rest.after in ranges:
                until, before = ranges[rest.after]
                yield Done(_named(_shown(before, rest)), before, 0.0)
                left -= before.statements
            else:
                some = self._next_part(rest, left)
                # `left` says only how large a part may be: where the source has changed since, it is another number.
                if not (count := self._source.count(some)):
                    rest = None if some.until is None else replace(rest, after=some.until)
                    continue
                what = Loaded(self._source.url, 0, 0, into, part=json.dumps({"after": some.after, "until": some.until}))
                try:
                    done = self._copied(some, count, what)
                except _LESS as error:
                    if not self._smaller(_sent(error, self._part or left)):
                        raise
                    self._notice(f"{error}: requesting smaller parts")
                    continue
                until, left = some.until, left - done.loaded.statements
                yield done
            rest = None if until is None else replace(rest, after=until)

    def _next_part(self, rest: SourceTriples, left: int) -> SourceTriples:
        """The triples of the next part: the size of a part, and the other triples of the last subject; or all of the
        rest."""
        while self._part and left > self._part:
            try:
                until = self._source.subject_at(rest, self._part - 1)
            except NoAnswer:  # to sort less would not help
                raise
            except CannotFetch as error:
                if not self._smaller(self._part // 2):
                    self._notice(f"{error}: requesting the rest at once")
                    return rest
                continue
            if until is None or until == rest.after:
                return rest
            return replace(rest, until=until)
        return rest

    def _smaller(self, size: int) -> bool:
        """Whether smaller parts are worth a try, of at most so many triples."""
        size = min(size, self._part * 3 // 4)
        if size < _PART_LEAST:
            return False
        self._part = size
        return True

    def _copied(self, triples: SourceTriples | SourceQuads, counted: int, what: Loaded) -> Done:
        """Asked again where the source was away for a while: what it counts may be another number by then."""
        name, started = _shown(what, triples), time.monotonic()
        counts = chain([counted], iter(lambda: self._source.count(triples), None))
        self._source.patiently(lambda: self._load(triples, next(counts), what, name), self._notice, _TRIES)
        self._reported.add(what.sn)
        return Done(_named(name), what, time.monotonic() - started)

    def _load(self, triples: SourceTriples | SourceQuads, counted: int, what: Loaded, name: str) -> None:
        shown = Progress(name, counted, self._progress)

        def watched(pieces: Iterable[bytes]) -> Iterator[bytes]:
            count = 0
            for piece in pieces:
                yield piece
                count += piece.count(b"\n")
                shown.show(count, count)

        try:
            with closing(self._source.lines(triples, counted)) as pieces:
                # The target may not wait for long for what comes, and the first takes a source longest.
                first = [*islice(pieces, 1)]
                self._target.load(Pieces(watched(chain(first, pieces))), isinstance(triples, SourceQuads), what, False)
        except BadData as error:
            words = f"sent an answer that is not RDF ({error}); nothing of {name} is copied"
            raise CannotFetch(f"<{self._source.url}> {words}") from None
        finally:
            shown.end()

    def _notice(self, line: str) -> None:
        self._progress.write(f"{line}\n")
        self._progress.flush()


def _sent(error: CannotFetch, size: int) -> int:
    """How much a source that does not send what it was asked for may send."""
    return error.received // 2 if isinstance(error, CutShort) else size // 4


def _several(part: str) -> tuple[str, list[str | None]] | None:
    """What it has of which graphs."""
    found = json.loads(part) if part.startswith("{") else {}
    return next(((kind, found[kind]) for kind in (_WHOLE, _BLANK) if kind in found), None)


def _range_of(part: str) -> list[tuple[str | None, str | None]]:
    found = json.loads(part) if part.startswith("{") else {}
    return [(found["after"], found["until"])] if "after" in found else []


def _named(name: str) -> Source:
    return Source(name, "application/n-triples")


def _shown(what: Loaded, triples: SourceTriples | SourceQuads) -> str:
    several = _several(what.part)
    if several is not None:
        of = f", {_BLANK}" if several[0] == _BLANK else ""
        return f"{len(several[1])} graphs ({_list(several[1])}){of}"
    name = _name_of(triples.graph) if isinstance(triples, SourceTriples) else _list(triples.graphs)
    if what.part == _BLANK:
        return f"{name}, {_BLANK}"
    if what.part == _WHOLE or not isinstance(triples, SourceTriples):
        return name
    ((after, until),) = _range_of(what.part)
    if after is None:
        return f"{name}, " + ("the rest" if until is None else "from the start")
    return f"{name}, after <{after}>"


def _name_of(graph: str | None) -> str:
    return "the default graph" if graph is None else f"<{graph}>"


def _list(graphs: Sequence[str | None]) -> str:
    return ", ".join(map(_name_of, graphs[:2])) + (", ..." if len(graphs) > 2 else "")


def read_authorization(file: str | None, environment: Callable[[str], str | None]) -> str | None:
    """The first line of a file, or of the variable RILLET_FROM_AUTH: never of the command line, which all can see."""
    if file is None:
        return environment("RILLET_FROM_AUTH") or None
    with open(file) as opened:
        return opened.readline().strip() or None
