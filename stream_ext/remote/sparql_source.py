"""A source: a SPARQL store that is not ours, read by the SPARQL 1.1 Protocol as a copy of it needs it.

What is short (counts, names of graphs) is asked as a SELECT and read whole. Triples are asked as a CONSTRUCT, those of
several graphs as a SELECT, and handed on while they come. No answer is believed to be whole because it ended: stores
cut what is longer than their settings allow, and say nothing. So the triples that came are compared with those that the
source counts.

A source that is away, or has too much to do, is asked again after a while."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any, TypeVar, cast

from hbase_store.layout.terms import literal, parse_term
from hbase_store.writing.loading import LINE_BYTES_MAX
from stream_ext.errors import BadData, TooLarge
from stream_ext.rdf.documents import N_QUADS, N_TRIPLES, RDF_XML, TRIG, TURTLE, lines_of
from stream_ext.remote.allowed_urls import AllowedUrls
from stream_ext.remote.fetching import CannotFetch, NoAnswer, pieces
from stream_ext.remote.result_streams import json_solutions
from stream_ext.remote.shown_urls import shown_url
from stream_ext.remote.sparql_client import RESULTS, Solution, solutions
from stream_ext.remote.sparql_http import Later, SparqlHttp, form_of

if TYPE_CHECKING:
    import httpx

_PIECE_BYTES = 1 << 18
#: Of an answer that is read whole.
_SHORT_BYTES = 64 << 20
#: So much without a single triple is no graph.
_NOTHING_BYTES = 64 << 20
_TRIES = 6
_WAIT_S, _WAIT_S_MAX = 0.5, 120.0
_GRAPHS = f"{N_TRIPLES}, {TURTLE};q=0.8, {RDF_XML};q=0.6"
_FORMS = {N_TRIPLES: N_TRIPLES, N_QUADS: N_TRIPLES, "text/plain": N_TRIPLES, TURTLE: TURTLE, TRIG: TURTLE} | {
    "application/x-turtle": TURTLE,
    RDF_XML: RDF_XML,
}
_WITH_BLANK = "(isBlank(?s) || isBlank(?o))"
_STATEMENT = re.compile(rb"^[ \t]*[<_]", re.MULTILINE)
_IN_IRI = re.compile(r'[^\x00-\x20<>"{}|^`\\]+')
Found = TypeVar("Found")


class CutShort(CannotFetch):
    """Fewer triples came than the source counts: it answers no more than so many at once."""

    def __init__(self, message: str, received: int) -> None:
        self.received = received
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Counted:
    """A named graph, or None for the default graph: its triples, and how many of them have a blank node."""

    graph: str | None
    triples: int
    blank: int


@dataclass(frozen=True, slots=True)
class SourceTriples:
    """Some triples of one graph: those with a blank node or without one, or those whose subjects, as strings, lie
    behind `after` and not behind `until`."""

    graph: str | None
    blank: bool | None = None
    after: str | None = None
    until: str | None = None

    def pattern(self) -> str:
        conditions = [] if self.blank is None else [_WITH_BLANK if self.blank else f"!{_WITH_BLANK}"]
        conditions += [f"STR(?s) > {_string(self.after)}"] if self.after is not None else []
        conditions += [f"STR(?s) <= {_string(self.until)}"] if self.until is not None else []
        inner = "?s ?p ?o" + (f" FILTER({' && '.join(conditions)})" if conditions else "")
        return f"{{ {inner} }}" if self.graph is None else f"{{ GRAPH <{checked(self.graph)}> {{ {inner} }} }}"

    @property
    def questions(self) -> tuple[str, str]:
        return f"CONSTRUCT {{ ?s ?p ?o }} WHERE {self.pattern()}", "?s ?p ?o"


@dataclass(frozen=True, slots=True)
class SourceQuads:
    """All quads of some graphs, or (`blank`) those with a blank node, in one answer: it says what they share."""

    graphs: tuple[str | None, ...]
    blank: bool | None = None

    def pattern(self) -> str:
        named = " ".join(f"<{checked(graph)}>" for graph in self.graphs if graph is not None)
        parts = ["{ ?s ?p ?o }"] if None in self.graphs else []
        parts += [f"{{ VALUES ?g {{ {named} }} GRAPH ?g {{ ?s ?p ?o }} }}"] if named else []
        return f"{{ {' UNION '.join(parts)}{f' FILTER{_WITH_BLANK}' if self.blank else ''} }}"

    @property
    def questions(self) -> tuple[str, str]:
        return f"SELECT ?g ?s ?p ?o WHERE {self.pattern()}", "?g ?s ?p ?o"


class _Quiet:
    """How many bytes came since the last triple."""

    size = 0


class SparqlSource:
    """Answers are waited for as long as `silence_s` without a byte."""

    def __init__(
        self,
        url: str,
        authorization: str | None = None,
        silence_s: float = 300.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`authorization`: `user:password`, `Digest user:password` or `Bearer TOKEN`. Its `url` is without secrets."""
        self.url = shown_url(url)
        self.address = url
        self._sleep = sleep
        self._http = SparqlHttp(url, authorization, silence_s, "--from-auth FILE, or the variable RILLET_FROM_AUTH")
        self._short = AllowedUrls(bytes_max=_SHORT_BYTES, timeout_s=silence_s)

    def close(self) -> None:
        self._http.close()

    # ---- what is short

    def graphs(self, only: Sequence[str | None] | None = None) -> list[Counted]:
        """The named graphs that hold a triple, in order; all of them, or those of `only` that are there."""
        names = None if only is None else " ".join(f"<{checked(each)}>" for each in only if each is not None)
        if names == "":
            return []
        where = "GRAPH ?g { ?s ?p ?o }" if names is None else f"VALUES ?g {{ {names} }} GRAPH ?g {{ ?s ?p ?o }}"
        there = self._number(f"SELECT (COUNT(DISTINCT ?g) AS ?n) WHERE {{ {where} }}")
        what = f"SELECT ?g (COUNT(*) AS ?n) (SUM(IF({_WITH_BLANK}, 1, 0)) AS ?b)"
        found: dict[str, Counted] = {}
        behind = ""
        while len(found) < there:
            order = " ORDER BY STR(?g) LIMIT 1000" if behind else ""
            rows = self.select(f"{what} WHERE {{ {where}{behind} }} GROUP BY ?g{order}")
            some = [self._counted(row) for row in rows if "g" in row]
            if all(each.graph in found for each in some):
                raise CannotFetch(f"<{self.url}> counts {there} named graphs but lists {len(found)}")
            found |= {each.graph: each for each in some if each.graph is not None}
            behind = f" FILTER(STR(?g) > {_string(max(found))})"
        return [found[name] for name in sorted(found)]

    def _counted(self, row: Solution) -> Counted:
        try:
            return Counted(_name(row["g"]), _whole(row["n"]), _whole(row["b"]))
        except (LookupError, ValueError, ArithmeticError):
            raise CannotFetch(f"<{self.url}> was asked for counts and answered {row!r:.200}") from None

    def default_graph(self) -> Counted:
        return Counted(None, self.count(SourceTriples(None)), self.count(SourceTriples(None, blank=True)))

    def count(self, triples: SourceTriples | SourceQuads) -> int:
        return self._number(f"SELECT (COUNT(*) AS ?n) WHERE {triples.pattern()}")

    def count_distinct(self, triples: SourceTriples | SourceQuads) -> int:
        variables = triples.questions[1]
        return self._number(
            f"SELECT (COUNT(*) AS ?n) WHERE {{ SELECT DISTINCT {variables} WHERE {triples.pattern()} }}"
        )

    def count_blank_nodes(self, graphs: Sequence[str | None], by_graph: bool = False) -> int:
        """The different ones of these graphs; `by_graph`: one counts in each graph that has it."""
        inner = "{ ?b ?p ?o } UNION { ?s ?q ?b }"
        named = " ".join(f"<{checked(graph)}>" for graph in graphs if graph is not None)
        parts = [inner] if None in graphs else []
        parts += [f"{{ VALUES ?g {{ {named} }} GRAPH ?g {{ {inner} }} }}"] if named else []
        where = f"{{ {' UNION '.join(parts)} FILTER(isBlank(?b)) }}"
        if by_graph:
            where = f"{{ SELECT DISTINCT ?g ?b WHERE {where} }}"
        return self._number(f"SELECT (COUNT({'*' if by_graph else 'DISTINCT ?b'}) AS ?n) WHERE {where}")

    def default_is_union(self) -> bool:
        """Whether the default graph is what the named graphs hold together, and nothing else."""
        return not self._any("GRAPH ?g { ?s ?p ?o } FILTER NOT EXISTS { ?s ?p ?o }") and not self._any(
            "?s ?p ?o FILTER NOT EXISTS { GRAPH ?g { ?s ?p ?o } }"
        )

    def subject_at(self, triples: SourceTriples, place: int) -> str | None:
        """As a string, the subject of the triple at that place among some, in the order of their subjects."""
        text = f"SELECT (STR(?s) AS ?k) WHERE {triples.pattern()} ORDER BY STR(?s) OFFSET {place} LIMIT 1"
        found = self.select(text)
        return parse_term(found[0]["k"]).value if found and "k" in found[0] else None

    def _any(self, where: str) -> bool:
        # Not as an ASK: some stores answer those in a form of their own.
        return bool(self.select(f"SELECT ?s WHERE {{ {where} }} LIMIT 1"))

    def _number(self, text: str) -> int:
        found = self.select(text)
        try:
            return _whole(found[0]["n"])
        except (LookupError, ValueError, ArithmeticError):
            raise CannotFetch(f"<{self.url}> was asked for a number and answered {found!r:.200}") from None

    def select(self, text: str) -> list[Solution]:
        return self.patiently(lambda: self._selected(text))

    def _selected(self, text: str) -> list[Solution]:
        with self._http.query(text, f"{RESULTS}, application/json;q=0.5") as response:
            form = form_of(response)
            if "json" not in form:
                raise CannotFetch(self._http.not_what(form, "SPARQL results in JSON", response))
            ends = time.monotonic() + self._short.timeout_s
            return solutions(b"".join(pieces(response, self.url, self._short, ends)), self.url)

    # ---- triples

    def lines(self, triples: SourceTriples | SourceQuads, expected: int) -> Generator[bytes, None, None]:
        """Lines of N-Triples, or N-Quads, some thousand at a time; `expected` are counted.

        Raises CutShort, Later or CannotFetch, also behind the last line: nothing of it counts before the end."""
        received, quiet = 0, _Quiet()
        read = self._constructed if isinstance(triples, SourceTriples) else self._selected_quads
        for piece in read(triples.questions[0], quiet):
            if statements := sum(1 for _ in _STATEMENT.finditer(piece)):
                quiet.size = 0
            received += statements
            if received > 2 * expected + 1000:
                raise CannotFetch(f"<{self.url}> counts {expected:,} triples, but its answer does not end")
            yield piece
        self._check(triples, expected, received)

    def _constructed(self, text: str, quiet: _Quiet) -> Iterator[bytes]:
        with self._http.query(text, _GRAPHS) as response:
            form = _FORMS.get(form_of(response))
            if form is None:
                wanted = "RDF in a format that can be read as a stream"
                raise CannotFetch(self._http.not_what(form_of(response), wanted, response))
            body = self._body(response, quiet)
            try:
                yield from _whole_lines(body) if form == N_TRIPLES else lines_of(_stream(body), form, self.url)
            except BadData as error:
                raise CannotFetch(f"<{self.url}> sent an answer that is not RDF: {error}") from None
            except TooLarge as error:
                raise CannotFetch(f"<{self.url}>: {error}") from None

    def _selected_quads(self, text: str, quiet: _Quiet) -> Iterator[bytes]:
        labels: dict[bytes, bytes] = {}
        with self._http.query(text, f"{RESULTS}, application/json;q=0.5") as response:
            if "json" not in form_of(response):
                raise CannotFetch(self._http.not_what(form_of(response), "SPARQL results in JSON", response))
            try:
                for some in json_solutions(self._body(response, quiet)):
                    yield b"".join(_line(row, labels) for row in some) or b"\n"
            except (ValueError, LookupError, RecursionError) as error:
                words = f"sent an answer that is not SPARQL results in JSON: {error or type(error).__name__}"
                raise CannotFetch(f"<{self.url}> {words}") from None

    def _check(self, triples: SourceTriples | SourceQuads, expected: int, received: int) -> None:
        """That all came. While it was sent, the source may have changed; and some stores count what repeats."""
        if received == expected or received == (now := self.count(triples)):
            return
        if now != expected:
            raise Later(f"<{self.url}> changed while it was read: {expected:,} triples became {now:,}")
        if received == self.count_distinct(triples):
            return
        words = f"<{self.url}> counts {expected:,} triples of {triples.pattern()} but sent {received:,}"
        raise CutShort(words, received) if received < expected else CannotFetch(words)

    def _body(self, response: httpx.Response, quiet: _Quiet) -> Iterator[bytes]:
        for piece in self._http.body(response):
            quiet.size += len(piece)
            if quiet.size > _NOTHING_BYTES:
                words = f"sent {quiet.size:,} bytes without a triple, and its answer does not end"
                raise CannotFetch(f"<{self.url}> {words}")
            yield piece

    # ---- patience

    def patiently(
        self, ask: Callable[[], Found], notice: Callable[[str], object] = lambda line: None, tries: int = _TRIES
    ) -> Found:
        """Asks again where the source may answer later; it only reads, so that nothing can be done twice."""
        for tried in range(1, tries + 1):
            try:
                return ask()
            except Later as later:
                if tried == tries:
                    raise NoAnswer(f"{later}; gave up after {tries} tries") from None
                wait_s = min(_WAIT_S * 2**tried if later.wait_s is None else later.wait_s, _WAIT_S_MAX)
                notice(f"{later}; trying again in {wait_s:g} s")
                self._sleep(wait_s)
        raise AssertionError("the last try returns or raises")


# ---- terms of questions


def checked(graph: str) -> str:
    """The name of a graph, as it is written into a query."""
    if not _IN_IRI.fullmatch(graph):
        raise CannotFetch(
            f"the source has a graph with the name {graph[:200]!r}; this is not an IRI, so the graph "
            "cannot be requested"
        )
    return graph


def _name(term: bytes) -> str:
    found = parse_term(term)
    if found.kind != "iri":
        raise CannotFetch(
            f"the source has a graph with the name {term.decode()}; this is not an IRI, so the graph "
            "cannot be requested"
        )
    return found.value


def _whole(term: bytes) -> int:
    return int(Decimal(parse_term(term).value))  # some stores add whole numbers up to a decimal


def _string(text: str) -> str:
    return literal(text).decode()


# ---- what answers say


def _whole_lines(body: Iterator[bytes]) -> Iterator[bytes]:
    rest: list[bytes] = []
    size = 0
    for piece in body:
        whole, newline, begun = piece.rpartition(b"\n")
        if newline:
            yield b"".join([*rest, whole, newline])
            rest, size = [], 0
        rest.append(begun)
        size += len(begun)
        if size > LINE_BYTES_MAX:
            raise BadData(f"a line of more than {LINE_BYTES_MAX} bytes")
    if last := b"".join(rest).strip():
        if not last.endswith(b".") and not last.startswith(b"#"):
            raise Later("the answer ended in the middle of a line")
        yield last + b"\n"


def _line(row: Solution, labels: dict[bytes, bytes]) -> bytes:
    """As N-Quads; other stores name blank nodes as N-Quads cannot."""
    terms = [row["s"], row["p"], row["o"], *([row["g"]] if "g" in row else [])]
    named = (labels.setdefault(term, b"_:n%d" % len(labels)) if term.startswith(b"_:") else term for term in terms)
    return b" ".join(named) + b" .\n"


class _Body(io.RawIOBase):
    def __init__(self, body: Iterator[bytes]) -> None:
        self._body, self._ready = body, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._ready = self._ready or next((piece for piece in self._body if piece), b"")
        count = min(len(buffer), len(self._ready))
        buffer[:count], self._ready = self._ready[:count], self._ready[count:]
        return count


def _stream(body: Iterator[bytes]) -> IO[bytes]:
    return cast(IO[bytes], io.BufferedReader(_Body(body), _PIECE_BYTES))
