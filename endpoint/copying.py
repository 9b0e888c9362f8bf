"""A copy of another store: graph by graph, and what is large in parts, each of which is one snapshot of ours.

    the default graph                      one request, one snapshot
    <http://ex/small>                      one request, one snapshot
    <http://ex/large>, blank nodes         what has a blank node, in one request: their labels mean something only there
    <http://ex/large>, from the start      subjects up to some one, in the order of the source
    <http://ex/large>, behind <http://ex/k>

A part is published when all of it came, and the store keeps which one it was. So a copy that was interrupted goes on
with the next part, and none is there twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TextIO

from endpoint.load import Done, Target, target_of
from endpoint.reading import Progress, Source
from stream_ext.errors import BadArgument, BadData, RilletError
from stream_ext.fetching import CannotFetch, NoAnswer
from stream_ext.loads import Loaded
from stream_ext.sparql_source import Cut, SparqlSource, Triples

#: Triples of a part. What a source sends at once may be less; then parts are smaller.
PART_TRIPLES = 250_000
#: Smaller parts are not tried.
_PART_LEAST = 10
#: What breaks off as often is too much at once, perhaps.
_TRIES = 3
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
        if target.is_at(source.url):
            raise BadArgument(f"{source.url} is the very store that would be written to")
        try:
            yield from _Copying(source, target, wanted, progress).all()
        except CannotFetch as error:
            advice = "; what is copied stays: give the command again, and it goes on" if _passes(error) else ""
            raise RilletError(f"{error}{advice}") from None


def _passes(error: CannotFetch) -> bool:
    return isinstance(error, NoAnswer)


class _Copying:
    def __init__(self, source: SparqlSource, target: Target, wanted: Copy, progress: TextIO) -> None:
        self._source, self._target, self._wanted, self._progress = source, target, wanted, progress
        self._part = wanted.part
        before = [] if wanted.again else target.loaded()
        self._before = [each for each in before if each.path == source.url]

    def all(self) -> Iterator[Done]:
        graphs = self._graphs()
        blank = {graph: self._source.count(Triples(graph, blank=True)) for graph in graphs}
        self._check_shared([graph for graph in graphs if blank[graph]])
        for graph in graphs:
            yield from self._graph(graph, blank[graph])

    # ---- which graphs

    def _graphs(self) -> list[str | None]:
        there = self._source.graphs()
        wanted = self._wanted.graphs
        if wanted is not None and (absent := next((each for each in wanted if each not in (None, *there)), None)):
            raise RilletError(f"<{self._source.url}> has no graph <{absent}>; it has {len(there)}")
        if self._wanted.into in there:
            raise BadArgument(
                f"<{self._wanted.into}> is a graph of the source, too: --graph names another one for its default graph"
            )
        named: list[str | None] = [each for each in there if wanted is None or each in wanted]
        return [None, *named] if self._takes_default(bool(there)) else named

    def _takes_default(self, has_named: bool) -> bool:
        wanted, by_name = self._wanted, self._wanted.graphs
        if wanted.default == "skip" or (by_name is not None and None not in by_name):
            return False
        if wanted.default == "copy" or by_name is not None or not has_named or not self._source.default_is_union():
            return True
        self._say(
            "the default graph of the source is the union of its named graphs, and is not copied beside them "
            "(--default-graph copy does)"
        )
        return False

    def _check_shared(self, graphs: Sequence[str | None]) -> None:
        """Two answers say of no blank node that it is the same in both."""
        if len(graphs) < 2:
            return
        if self._source.count_blank_nodes(graphs) != sum(self._source.count_blank_nodes([each]) for each in graphs):
            names = ", ".join(map(_shown, graphs[:5])) + (" ..." if len(graphs) > 5 else "")
            raise RilletError(
                f"<{self._source.url}>: some blank nodes are in more than one graph ({names}), and answers graph by "
                "graph do not say which: have the source write all of it as N-Quads or TriG, and load that file; "
                "or leave graphs out (--from-graph)"
            )

    # ---- one graph

    def _graph(self, graph: str | None, blank: int) -> Iterator[Done]:
        into = graph if graph is not None else self._wanted.into
        known = {each.part: each for each in self._before if each.graph == into}
        if _WHOLE in known:
            yield Done(_named(_shown(graph)), known[_WHOLE], 0.0)
            return
        total = self._source.count(Triples(graph))
        if not total:
            return
        begun = bool(known)
        if not begun and not (self._part and total > self._part):
            try:
                yield self._copied(Triples(graph), total, Loaded(self._source.url, 0, 0, into, part=_WHOLE))
                return
            except (Cut, NoAnswer) as error:
                if not self._part or not self._smaller(_sent(error, total)):
                    raise
                self._say(f"{error}: asking for parts")
        if blank:
            what = Loaded(self._source.url, 0, 0, into, part=_BLANK)
            if _BLANK in known:
                yield Done(_named(f"{_shown(graph)}, {_BLANK}"), known[_BLANK], 0.0)
            else:
                yield self._blank_ones(Triples(graph, blank=True), blank, what)
        yield from self._ranges(graph, into, total - blank, known)

    def _blank_ones(self, triples: Triples, count: int, what: Loaded) -> Done:
        try:
            return self._copied(triples, count, what)
        except Cut as cut:
            raise CannotFetch(
                f"{cut}: what has blank nodes comes in one answer or not at all, as their labels mean something only "
                "there; have the source send more at once (Virtuoso: ResultSetMaxRows), or write a file that is loaded"
            ) from None

    def _ranges(self, graph: str | None, into: str | None, left: int, known: dict[str, Loaded]) -> Iterator[Done]:
        """What has no blank node, by its subjects."""
        ranges = {after: (until, each) for each in known.values() for after, until in _range_of(each.part)}
        rest: Triples | None = Triples(graph, blank=False)
        while rest is not None:
            if rest.after in ranges:
                until, before = ranges[rest.after]
                yield Done(_named(_shown(graph, rest)), before, 0.0)
                left -= before.statements
            else:
                some = self._some(rest, left)
                count = self._source.count(some)
                if not count:
                    return
                what = Loaded(self._source.url, 0, 0, into, part=json.dumps({"after": some.after, "until": some.until}))
                try:
                    done = self._copied(some, count, what)
                except (Cut, NoAnswer) as error:
                    if not self._smaller(_sent(error, self._part or left)):
                        raise
                    self._say(f"{error}: asking for less at once")
                    continue
                until, left = some.until, left - done.loaded.statements
                yield done
            rest = None if until is None else replace(rest, after=until)

    def _some(self, rest: Triples, left: int) -> Triples:
        """As many triples as are a part, and what else their last subject has; or all that are left."""
        while self._part and left > self._part:
            try:
                until = self._source.subject_at(rest, self._part - 1)
            except NoAnswer:
                raise
            except CannotFetch as error:
                if not self._smaller(self._part // 2):
                    self._say(f"{error}: asking for all that is left at once")
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

    def _copied(self, triples: Triples, counted: int, what: Loaded) -> Done:
        """Asked again where the source was away for a while: what it counts may be another number by then."""
        name, started = _shown(triples.graph, triples), time.monotonic()
        counts = chain([counted], iter(lambda: self._source.count(triples), None))
        self._source.patiently(lambda: self._load(triples, next(counts), what, name), self._say, _TRIES)
        return Done(_named(name), what, time.monotonic() - started)

    def _load(self, triples: Triples, counted: int, what: Loaded, name: str) -> None:
        shown = Progress(name, counted, self._progress)

        def watched(pieces: Iterable[bytes]) -> Iterator[bytes]:
            count = 0
            for piece in pieces:
                yield piece
                count += piece.count(b"\n")
                shown.show(count, count)

        try:
            with closing(self._source.construct(triples, counted)) as pieces:
                # The target may not wait for long for what comes, and the first takes a source longest.
                first = [*islice(pieces, 1)]
                self._target.load(watched(chain(first, pieces)), False, what, False)
        except BadData as error:
            words = f"sent what is no RDF ({error}); nothing of {name} is copied"
            raise CannotFetch(f"<{self._source.url}> {words}") from None
        finally:
            shown.end()

    def _say(self, line: str) -> None:
        self._progress.write(f"{line}\n")
        self._progress.flush()


def _sent(error: CannotFetch, asked: int) -> int:
    """How much a source that does not send what it was asked for may send."""
    return error.received // 2 if isinstance(error, Cut) else asked // 4


def _range_of(part: str) -> list[tuple[str | None, str | None]]:
    if not part.startswith("{"):
        return []
    found = json.loads(part)
    return [(found["after"], found["until"])]


def _named(name: str) -> Source:
    return Source(name, "application/n-triples")


def _shown(graph: str | None, triples: Triples | None = None) -> str:
    name = "the default graph" if graph is None else f"<{graph}>"
    if triples is None or triples.blank is None:
        return name
    if triples.blank:
        return f"{name}, {_BLANK}"
    return f"{name}, " + ("from the start" if triples.after is None else f"behind <{triples.after}>")


def read_authorization(file: str | None, environment: Callable[[str], str | None]) -> str | None:
    """The first line of a file, or of the variable RILLET_FROM_AUTH: never of the command line, which all can see."""
    if file is None:
        return environment("RILLET_FROM_AUTH") or None
    with open(file) as opened:
        return opened.readline().strip() or None
