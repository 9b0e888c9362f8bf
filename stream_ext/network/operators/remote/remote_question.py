"""What a remote endpoint is asked: the pattern of a SERVICE, with the values that are known of its variables.

?city :mayor ?person        SERVICE <http://elsewhere/sparql> { ?person :born ?year }
=>
SELECT ?person ?year ?row { VALUES (?person ?row) { (:ann 0) (:bob 1) } ?person :born ?year }"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stream_ext.language.algebra.algebra import Form, Join, Pattern, Query, Values
from stream_ext.language.algebra.rename import rename_query
from stream_ext.language.algebra.terms import Constant, Node, Position
from stream_ext.language.printing import to_sparql
from stream_ext.plan.logic import Remote, SourceGroup
from stream_ext.remote.fetching import CannotFetch
from stream_ext.remote.sparql_client import Solution

#: The greatest number of values, or of their bytes, in one request.
BATCH_ROWS, BATCH_BYTES = 500, 1 << 16

#: Of the number of a row.
_DIGITS = 9
_INTEGER = "^^<http://www.w3.org/2001/XMLSchema#integer>"

Texts = list[bytes | None]


@dataclass(frozen=True, slots=True)
class ServiceCall:
    """SERVICE as it is written, or (`group`) what a source is asked that is one dataset with the store."""

    service: Node
    inner: Pattern
    names: tuple[str, ...]  # the visible variables of `inner`
    silent: bool
    position: Position
    written: str | None = None  # the service, as a relative IRI
    group: SourceGroup | None = None

    @property
    def requested_names(self) -> tuple[str, ...]:
        """With the variables that stand for constants, so that their values can be looked at."""
        return self.names if self.group is None else (*self.names, *(name for name, _ in self.group.exact))


class RemoteQuestion:
    """The query that is sent: with variables that SPARQL can write, and a column that numbers the values."""

    def __init__(self, call: ServiceCall, shared: tuple[str, ...]) -> None:
        self._call, self._shared = call, shared
        self._names = _writable(
            _names_in(Query(Form.SELECT, call.inner, call.requested_names, False, 0, None, (), None))
        )
        self._row = _unused("row", set(self._names.values()))
        self._back = {self._names[name]: name for name in call.requested_names}
        self._is_renamed = any(name != written for name, written in self._names.items())

    def text(self, values: Sequence[Texts]) -> str:
        numbered = bool(self._shared)
        variables = (*self._call.requested_names, *([self._row] if numbered else []))
        pattern = Join(self._table(values), self._call.inner) if numbered else self._call.inner
        query = Query(Form.SELECT, pattern, variables, False, 0, None, (), None)
        return self._written(query)

    def whole_text(self, limit: int) -> str:
        """The query for all solutions of the pattern, without values from here, and with a LIMIT."""
        query = Query(Form.SELECT, self._call.inner, self._call.requested_names, False, 0, limit, (), None)
        return self._written(query)

    @property
    def shown(self) -> str:
        """What is sent, in one line, without values."""
        query = Query(Form.SELECT, self._call.inner, self._call.requested_names, False, 0, None, (), None)
        return " ".join(self._written(query).split())

    def _written(self, query: Query) -> str:
        if self._is_renamed:
            query = rename_query(query, lambda name: self._names.get(name, name))
        return to_sparql(query)

    def _table(self, values: Sequence[Texts]) -> Values:
        rows = []
        for i, row in enumerate(values):
            sent = [None if text is None else Constant(sendable(text)) for text in row]
            rows.append((*sent, Constant(f'"{i}"{_INTEGER}'.encode())))
        return Values((*self._shared, self._row), tuple(rows), self._call.position)

    def place(self, solution: Solution, count: int, called: str) -> int:
        """Removes the number of its values from a solution, and returns it; restores the names of the variables.
        CannotFetch for a number that was not sent; `called`: who answered."""
        place = 0
        if self._shared:
            written = solution.pop(self._row, b"").partition(b'"^^')[0].strip(b'"')
            if not written.isdigit() or len(written) > _DIGITS or int(written) >= count:
                raise CannotFetch(f"{called} answered with values that were not in the request")
            place = int(written)
        self.restore(solution)
        return place

    def restore(self, solution: Solution) -> None:
        """Restores the names of the variables; what was not asked for is left out."""
        renamed = {self._back[name]: text for name, text in solution.items() if name in self._back}
        solution.clear()
        solution.update(renamed)


def call_of(remote: Remote) -> ServiceCall:
    names = tuple(sorted(remote.inner_variables))
    return ServiceCall(
        remote.service, remote.inner, names, remote.silent, remote.position, remote.written, remote.group
    )


def question_of_group(remote: Remote) -> str:
    """What a source is asked, in one line, without values."""
    return RemoteQuestion(call_of(remote), ()).shown


def sendable(text: bytes) -> bytes:
    """A term as a part of a question. CannotFetch for what is no IRI: SPARQL reads its escapes before all else, so
    that an escaped > would end it, and what follows would be a part of the question."""
    end = text.rfind(b'"^^<')
    resource = text if text.startswith(b"<") else text[end + 3 :] if end > 0 and text.endswith(b">") else b""
    if b"\\" in resource:
        raise CannotFetch(
            f"{resource.decode()[:300]} is to be a part of a question, and has characters that no IRI has"
        )
    return text


def is_same_value(sent: bytes, received: bytes, called: str) -> bool:
    """Whether a solution has the value that was sent. Stores write literals as they like, and then it is another term;
    CannotFetch for other resources."""
    if sent == received:
        return True
    if not (sent.startswith(b'"') and received.startswith(b'"')):
        words = f"{sent.decode()[:200]} and answered with {received.decode()[:200]}"
        raise CannotFetch(f"{called} was asked about {words}")
    (one, _, tag), (other, _, its_tag) = sent.rpartition(b'"@'), received.rpartition(b'"@')
    return bool(one) and one == other and tag.lower() == its_tag.lower()


def question_of(query: Query) -> tuple[str, list[str]]:
    """A whole query as it is sent, and its variables as they are called there."""
    names = _writable(_names_in(query))
    return to_sparql(rename_query(query, lambda name: names.get(name, name))), [names[name] for name in query.variables]


def _names_in(query: Query) -> set[str]:
    found: set[str] = set()

    def seen(name: str) -> str:
        found.add(name)
        return name

    rename_query(query, seen)
    return found


def _writable(names: set[str]) -> dict[str, str]:
    """For each name one that SPARQL can write: names with other characters are replaced."""
    used = {name for name in names if re.fullmatch(r"\w+", name)}
    written = {name: name for name in used}
    for name in sorted(names - used):
        written[name] = _unused(re.sub(r"\W", "_", name), used)
        used.add(written[name])
    return written


def _unused(name: str, used: set[str]) -> str:
    while name in used:
        name += "_"
    return name


class AnswerLabels:
    """Blank nodes of one answer: a label means nothing in other answers."""

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._numbers: dict[bytes, int] = {}

    def own(self, text: bytes) -> bytes:
        if not text.startswith(b"_:"):
            return text
        return f"_:qs{self._scope}.{self._numbers.setdefault(text, len(self._numbers))}".encode()


def batches(values: Sequence[Texts]) -> Iterator[tuple[int, int]]:
    start, size = 0, 0
    for i, row in enumerate(values):
        size += sum(len(text) for text in row if text is not None)
        if i + 1 - start == BATCH_ROWS or size >= BATCH_BYTES:
            yield start, i + 1
            start, size = i + 1, 0
    if start < len(values):
        yield start, len(values)
