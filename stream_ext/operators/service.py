"""Service: solutions joined with those of a pattern that another SPARQL endpoint solves.

    ?city :mayor ?person        SERVICE <http://elsewhere/sparql> { ?person :born ?year }

The other side is told what is known: the distinct values of what both sides share go there as VALUES, some hundred at
a time, each with its number; by that number its solutions come back to the rows that they belong to. What was answered
once is remembered for as long as the operator lives, so that a retraction takes away what its row has brought."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

import numpy as np

from hbase_store.terms import parse_term
from stream_ext.errors import NotAllowed, ServiceFailed
from stream_ext.fetching import CannotFetch
from stream_ext.operators.moment import Moment
from stream_ext.outside import OutOfBounds, Outside
from stream_ext.plan.algebra import Form, Join, Pattern, Query, Values
from stream_ext.plan.algebra import Service as Written
from stream_ext.plan.rename import rename_query
from stream_ext.plan.terms import Constant, Node, Position, Variable
from stream_ext.plan.walk import Part, parts_of, walk
from stream_ext.printing import to_sparql
from stream_ext.remote import Remotes, Solution
from stream_ext.vocabulary import Vocabulary
from stream_ext.zset import Ids, ZSet, empty

#: So many values, or bytes of them, are sent at once.
BATCH_ROWS, BATCH_BYTES = 500, 1 << 16

_INTEGER = "^^<http://www.w3.org/2001/XMLSchema#integer>"
_askings = count()

#: What one combination of known values stands for: the service's id (0: it is written), then the shared variables'.
Key = tuple[int, ...]
Texts = list[bytes | None]


class Unanswered(Exception):
    """SERVICE without SILENT had no answer; `forbidden`: it may not even be asked."""

    def __init__(self, why: str, position: Position, forbidden: bool) -> None:
        self.why, self.position, self.forbidden = why, position, forbidden
        super().__init__(f"line {position.line}, column {position.column}: {why}")


@contextmanager
def placed(text: str) -> Iterator[None]:
    """An error of SERVICE shows its place in the text of the query."""
    try:
        yield
    except Unanswered as error:
        kind = NotAllowed if error.forbidden else ServiceFailed
        raise kind(error.why, text, *error.position) from None


def check_services(roots: Iterable[Part], outside: Outside, text: str) -> None:
    """NotAllowed for a service that may not be asked, whether or not it would come to that.

    What a service asks in its turn is its own affair."""
    waiting = list(roots)
    while waiting:
        part = waiting.pop()
        if not isinstance(part, Written):
            waiting += parts_of(part)
        elif isinstance(part.service, Constant) and not part.silent:
            try:
                outside.check_service(parse_term(part.service.text).value)
            except OutOfBounds as error:
                raise NotAllowed(str(error), text, *part.position) from None


@dataclass(frozen=True, slots=True)
class Call:
    """SERVICE as it is written."""

    service: Node
    inner: Pattern
    names: tuple[str, ...]  # the variables of `inner` that can be seen
    silent: bool
    position: Position


class Service:
    def __init__(self, left: tuple[str, ...], call: Call) -> None:
        self._call, self._left = call, left
        self._shared = tuple(name for name in call.names if name in left)
        self._asker = call.service.name if isinstance(call.service, Variable) else None
        rest = [name for name in call.names if name not in left]
        if self._asker is not None and self._asker not in (*left, *rest):
            rest.append(self._asker)
        self.variables = (*left, *rest)
        self._told = _Told(call.names)

    def step(self, moment: Moment, left: ZSet) -> ZSet:
        if not left.count:
            return empty(len(self.variables))
        # Nothing comes after a last step, and others may step this operator at the same time.
        told = _Told(self._call.names) if moment.last else self._told
        keys, of_row = self._keys(left)
        self._learn([key for key in keys if key not in told.places], told, moment)
        places = [told.places[key] for key in keys]
        starts, counts = (np.array([f(place) for place in places], np.int64) for f in (_start, len))
        repeats = counts[of_row]
        rows = np.repeat(np.arange(left.count), repeats)
        first = np.repeat(np.cumsum(repeats) - repeats, repeats)
        found = starts[of_row][rows] + np.arange(len(rows)) - first
        return self._joined(left.take(rows), told, found)

    def _joined(self, left: ZSet, told: _Told, found: np.typing.NDArray[np.int64]) -> ZSet:
        """What the left side has unbound comes from the other."""
        right = {name: column[found] for name, column in told.columns.items()}
        columns = [
            np.where(column == 0, right[name], column) if name in right else column
            for name, column in zip(self._left, left.columns, strict=True)
        ]
        nothing = np.zeros(left.count, np.uint64)
        columns += [right.get(name, nothing) for name in self.variables[len(self._left) :]]
        return left.with_columns(tuple(columns))

    def _keys(self, left: ZSet) -> tuple[list[Key], np.typing.NDArray[np.intp]]:
        """The distinct combinations of what is known, and which of them each row has."""
        zeros = np.zeros(left.count, np.uint64)
        named = [*([self._asker] if self._asker else []), *self._shared]
        columns = [left.columns[self._left.index(name)] if name in self._left else zeros for name in named]
        if not self._asker:
            columns.insert(0, zeros)
        distinct, of_row = np.unique(np.stack(columns, axis=1), axis=0, return_inverse=True)
        return list(map(tuple, distinct.tolist())), of_row.reshape(-1)

    # ---- asking -------------------------------------------------------------------------------------------------

    def _learn(self, keys: list[Key], told: _Told, moment: Moment) -> None:
        by_service: dict[int, list[Key]] = {}
        for key in keys:
            by_service.setdefault(key[0], []).append(key)
        with Remotes(moment.outside, moment.control) as remotes:
            for service, of_service in by_service.items():
                try:
                    found = self._ask(remotes, self._url(service, moment.vocabulary), of_service, moment.vocabulary)
                except (OutOfBounds, CannotFetch) as error:
                    if not self._call.silent:
                        forbidden = isinstance(error, OutOfBounds)
                        raise Unanswered(str(error), self._call.position, forbidden) from None
                    # One solution that binds nothing: the rows stay as they are.
                    found = [[{}] for _ in of_service]
                told.add(of_service, found, moment.vocabulary)

    def _url(self, service: int, vocabulary: Vocabulary) -> str:
        node = self._call.service
        if isinstance(node, Constant):
            return parse_term(node.text).value
        text = vocabulary.decode(np.array([service], np.uint64))[0] if service else b""
        if text[:1] != b"<":
            what = text.decode() or "unbound here: what stands before SERVICE in its group must bind it"
            raise CannotFetch(f"SERVICE ?{node.name}: it is {what}, not the IRI of a service")
        return parse_term(text).value

    def _ask(self, remotes: Remotes, url: str, keys: list[Key], vocabulary: Vocabulary) -> list[list[Solution]]:
        """The solutions for each key."""
        number = next(_askings)
        found: list[list[Solution]] = [[] for _ in keys]
        values = self._values(keys, vocabulary)
        asked = _Asked(self._call, self._shared)
        for batch, (start, stop) in enumerate(_batches(values)):
            labels = _Labels(f"{number}.{batch}")
            for solution in remotes.ask(url, asked.text(values[start:stop])):
                place = asked.place(solution, stop - start, url)
                solution = {name: labels.own(text) for name, text in solution.items()}
                fixed = zip(self._shared, keys[start + place][1:], values[start + place], strict=True)
                # A blank node of ours is none of theirs: it was not sent, and what they bind there differs.
                if not any(id and text is None and name in solution for name, id, text in fixed):
                    found[start + place].append(solution)
        return found

    def _values(self, keys: list[Key], vocabulary: Vocabulary) -> list[Texts]:
        """What is sent of each key; None: nothing, for it is unbound or a blank node."""
        ids = np.array([key[1:] for key in keys], np.uint64).reshape(len(keys), -1)
        distinct = np.unique(ids[ids != 0])
        texts = dict(zip(distinct.tolist(), vocabulary.decode(distinct), strict=True)) if len(distinct) else {}
        sent = {id: text for id, text in texts.items() if not text.startswith(b"_:")}
        return [[sent.get(id) for id in row] for row in ids.tolist()]


class _Told:
    """What was answered: the solutions one below the other, and where those for each key stand."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.columns: dict[str, Ids] = {name: np.empty(0, np.uint64) for name in names}
        self.places: dict[Key, range] = {}
        self._count = 0

    def add(self, keys: list[Key], found: list[list[Solution]], vocabulary: Vocabulary) -> None:
        solutions = [solution for of_key in found for solution in of_key]
        for name, before in self.columns.items():
            texts = [solution.get(name) for solution in solutions]
            column = np.zeros(len(texts), np.uint64)
            if bound := [text for text in texts if text is not None]:
                column[[text is not None for text in texts]] = vocabulary.encode(bound)
            self.columns[name] = np.concatenate([before, column])
        for key, of_key in zip(keys, found, strict=True):
            self.places[key] = range(self._count, self._count + len(of_key))
            self._count += len(of_key)


class _Asked:
    """The question as it is sent: names that SPARQL can write, and a column that numbers the values."""

    def __init__(self, call: Call, shared: tuple[str, ...]) -> None:
        self._call, self._shared = call, shared
        used = {part.name for part in walk(call.inner) if isinstance(part, Variable)} | set(call.names)
        self._names = _writable(used)
        self._row = _unused("row", set(self._names.values()))
        self._back = {self._names[name]: name for name in call.names}

    def text(self, values: Sequence[Texts]) -> str:
        numbered = bool(self._shared)
        variables = (*self._call.names, *([self._row] if numbered else []))
        pattern = Join(self._table(values), self._call.inner) if numbered else self._call.inner
        query = Query(Form.SELECT, pattern, variables, False, 0, None, (), None)
        return to_sparql(rename_query(query, lambda name: self._names.get(name, name)))

    def _table(self, values: Sequence[Texts]) -> Values:
        rows = (
            (*(None if text is None else Constant(text) for text in row), Constant(f'"{i}"{_INTEGER}'.encode()))
            for i, row in enumerate(values)
        )
        return Values((*self._shared, self._row), tuple(rows), self._call.position)

    def place(self, solution: Solution, count: int, url: str) -> int:
        """Takes the number out, and gives the variables their own names again."""
        written = solution.pop(self._row, b'"0"').partition(b'"^^')[0].strip(b'"')
        if not written.isdigit() or int(written) >= count:
            raise CannotFetch(f"<{url}> answered with values that it was not sent")
        renamed = {self._back[name]: text for name, text in solution.items() if name in self._back}
        solution.clear()
        solution.update(renamed)
        return int(written)


def _writable(names: set[str]) -> dict[str, str]:
    """Where a name has a character that no variable of a text has, another one."""
    taken = {name for name in names if re.fullmatch(r"\w+", name)}
    written = {name: name for name in taken}
    for name in sorted(names - taken):
        written[name] = _unused(re.sub(r"\W", "_", name), taken)
        taken.add(written[name])
    return written


def _unused(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    return name


class _Labels:
    """A label of a blank node means something within one answer only."""

    def __init__(self, scope: str) -> None:
        self._scope = scope
        self._numbers: dict[bytes, int] = {}

    def own(self, text: bytes) -> bytes:
        if not text.startswith(b"_:"):
            return text
        return f"_:qs{self._scope}.{self._numbers.setdefault(text, len(self._numbers))}".encode()


def _batches(values: Sequence[Texts]) -> Iterator[tuple[int, int]]:
    start, size = 0, 0
    for i, row in enumerate(values):
        size += sum(len(text) for text in row if text is not None)
        if i + 1 - start == BATCH_ROWS or size >= BATCH_BYTES:
            yield start, i + 1
            start, size = i + 1, 0
    if start < len(values):
        yield start, len(values)


def _start(place: range) -> int:
    return place.start
