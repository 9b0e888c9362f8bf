"""Fetching: the quads of a source that match some patterns, as ids of our store.

No answer is believed to be whole because it ended: some stores cut what is longer than their settings allow, and say
nothing. So the quads that came are compared with those that the source counts; where it cuts answers short, and sorts
as we do, they are asked for page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from itertools import pairwise

import msgspec
import numpy as np

from hbase_store.arrays import Ids
from hbase_store.layout.terms import LOCAL, NO_TERM, TAG_SHIFT, parse_term
from stream_ext.catalog.sources import HeldPattern
from stream_ext.evaluation_budget import Control
from stream_ext.plan.sources.shapes import has_value
from stream_ext.remote.fetching import CannotFetch
from stream_ext.remote.source import Source
from stream_ext.remote.sparql_client import Solution
from stream_ext.sources.blank_nodes import held_blank, is_blank, labels_of, term_of_label
from stream_ext.sources.questions import Page, Quad, count_of, count_up_to, key_of, quads_of

#: Rows of a page; and of one that may be asked for where very many quads have one key.
PAGE_ROWS, PAGE_ROWS_MAX = 10_000, 1_000_000
#: Quads whose terms are looked up at a time, and about how many bytes of texts.
_LOOKED_UP, _LOOKED_UP_BYTES = 100_000, 64 << 20
#: So many times the quads that it counts, and some more, a source may answer: it may have got more of them since.
_TIMES_COUNTED, _MORE = 2, 10_000
#: The greatest number of quads with blank nodes, which are told apart together.
_BLANKS_MAX = 1_000_000
#: Bytes of terms that the store does not have yet, and that wait in memory until they are published.
_UNKNOWN_BYTES_MAX = 2 << 30
#: Texts of subjects, predicates, objects and graphs.
_Columns = tuple[list[bytes], list[bytes], list[bytes], list[bytes]]
#: A term that our store does not know has a place in a list instead of an id.
_UNKNOWN_FIRST = LOCAL << TAG_SHIFT


class AnswerCutShort(CannotFetch):
    """Fewer quads came than the source counts."""


class UnknownBlankNodes(CannotFetch):
    """Quads with blank nodes that cannot be held: their labels say nothing, and not all of them are in one answer."""


@dataclass(slots=True)
class FetchedQuads:
    """Columns of ids; an id with the tag LOCAL is a place in `unknown`, whose terms the store does not have yet."""

    columns: tuple[Ids, Ids, Ids, Ids]
    unknown: list[bytes] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.columns[0])

    def encoded(self, encode: Callable[[Sequence[bytes]], Ids]) -> tuple[Ids, Ids, Ids, Ids]:
        """The columns with ids for all terms; `encode` makes new ones."""
        if not self.unknown:
            return self.columns
        plain = [text for text in self.unknown if not is_blank(text)]
        blank = [text[2:] for text in self.unknown if is_blank(text)]
        ids = dict(zip(plain, encode(plain).tolist(), strict=True))
        ids |= {b"_:" + text: held_blank(id) for text, id in zip(blank, encode(blank).tolist(), strict=True)}
        found = np.array([ids[text] for text in self.unknown], np.uint64)
        s, p, o, g = (_replaced(column, found) for column in self.columns)
        return s, p, o, g


def _replaced(column: Ids, found: Ids) -> Ids:
    unknown = is_unknown(column)
    if not unknown.any():
        return column
    column = column.copy()
    column[unknown] = found[(column[unknown] - np.uint64(_UNKNOWN_FIRST)).astype(np.int64)]
    return column


def is_unknown(ids: Ids) -> np.typing.NDArray[np.bool_]:
    unknown: np.typing.NDArray[np.bool_] = (ids >> np.uint64(TAG_SHIFT)) == np.uint64(LOCAL)
    return unknown


class Fetching:
    """Reads from one source for one refresh; `ids` finds terms that our store knows, 0 for all others."""

    def __init__(self, source: Source, ids: Callable[[Sequence[bytes]], Ids], control: Control) -> None:
        self.source, self.ids, self._control = source, ids, control
        self.name = source.settings.name
        self.round_trips = 0

    def count(self, patterns: Sequence[HeldPattern]) -> int:
        return self._number(count_of(self.without_values(patterns))) if patterns else 0

    def count_up_to(self, pattern: HeldPattern, most: int) -> int:
        (sent,) = self.without_values([pattern])
        return self._number(count_up_to(sent, most))

    def without_values(self, patterns: Sequence[HeldPattern]) -> list[HeldPattern]:
        """The patterns to send. One that compares by value is sent a pattern for all objects in place of a number."""
        if not self.source.traits.by_value:
            return list(patterns)
        return [msgspec.structs.replace(each, object=b"") if has_value(each.object) else each for each in patterns]

    def quads(self, patterns: Sequence[HeldPattern], are_all: bool = True) -> FetchedQuads:
        """All quads that match, in one answer if it can be; `are_all`: nothing else is held."""
        gathered = Gathered(self.source, self.ids, patterns)
        if not patterns:
            return gathered.fetched(are_all=True)
        expected = self.count(patterns)
        received = self._into(gathered, quads_of(self.without_values(patterns)), _TIMES_COUNTED * expected + _MORE)
        if received < expected and received < self.count(patterns):
            if not self.source.traits.sorts_by_text:
                raise AnswerCutShort(
                    f"{self.name} counts {expected:,} quads and answers {received:,} at once: it cuts answers short, "
                    "and does not sort them so that they can be read in pages; raise its limit of rows"
                )
            gathered = Gathered(self.source, self.ids, patterns)
            for pattern in self.without_values(patterns):
                self._paged(gathered, pattern)
            return gathered.fetched(are_all=False)
        return gathered.fetched(are_all)

    def known(self, quads: Sequence[Quad]) -> FetchedQuads:
        """The ids of given quads; the labels of their blank nodes mean something."""
        gathered = Gathered(self.source, self.ids)
        gathered.add([dict(zip("spog", quad, strict=True)) for quad in quads])
        return gathered.fetched(are_all=False)

    def some(self, text: str, patterns: Sequence[HeldPattern] = ()) -> FetchedQuads:
        """Quads that are not all that their patterns match: the labels of their blank nodes must mean something."""
        gathered = Gathered(self.source, self.ids, patterns)
        self._into(gathered, text, self._rows_max)
        return gathered.fetched(are_all=False)

    def rows(self, text: str) -> Iterator[Solution]:
        self.round_trips += 1
        received = 0
        for solutions in self.source.select(text, self._control):
            self._control.check()
            received += len(solutions)
            self._check_end(received, self._rows_max)
            yield from solutions

    def _number(self, text: str) -> int:
        found = list(self.rows(text))
        try:
            return int(Decimal(parse_term(found[0]["n"]).value))
        except (LookupError, ValueError, InvalidOperation):
            raise CannotFetch(f"{self.name} was asked for a number and answered {found!r:.200}") from None

    def _into(self, gathered: Gathered, text: str, most: int) -> int:
        received = 0
        self.round_trips += 1
        for solutions in self.source.select(text, self._control):
            self._control.check()
            received += len(solutions)
            self._check_end(received, most)
            gathered.add(solutions)
        return received

    @property
    def _rows_max(self) -> int:
        """Of an answer to a question that only some quads are asked for by."""
        return _TIMES_COUNTED * self.source.settings.held_max + _MORE

    def _check_end(self, received: int, most: int) -> None:
        if received > most:
            raise CannotFetch(f"{self.name} has sent {received:,} rows, and its answer does not end: at most {most:,}")

    # ---- pages

    def _paged(self, gathered: Gathered, pattern: HeldPattern) -> None:
        """All quads of a pattern, page by page, each behind the text that the one before ended with."""
        expected = self.count([pattern])
        key = key_of(pattern)
        if key is None:
            self._into(gathered, quads_of([pattern]), _MORE)
            return
        most = _TIMES_COUNTED * expected + _MORE
        received = self._into(gathered, Page(pattern, key, blank=True).question(0), most)
        after: str | None = None
        rows = PAGE_ROWS
        while found := list(self.rows(Page(pattern, key, after).question(rows))):
            texts = [self._text(row, key) for row in found]
            self._check_order(texts, after)
            is_last = len(found) < rows and received + len(found) >= expected
            # The quads of the last key may go on in the next page, which begins with all of them.
            whole = len(found) if is_last else texts.index(texts[-1])
            if whole == 0 and len(found) == rows:
                rows = self._wider(rows, texts[0], key)
                continue
            whole = whole or len(found)
            gathered.add(found[:whole])
            received += whole
            self._check_end(received, most)
            after = texts[whole - 1]
            if is_last:
                break
        if received < expected and received < self.count([pattern]):
            raise AnswerCutShort(f"{self.name} counts {expected:,} quads of {pattern.shown()} and answers {received:,}")

    def _wider(self, rows: int, text: str, key: str) -> int:
        """One key has more quads than a page: a larger page shows where it ends."""
        if rows >= PAGE_ROWS_MAX:
            raise AnswerCutShort(f"{self.name} has {rows:,} quads or more with {text[:200]!r} as ?{key}")
        return rows * 10

    def _text(self, row: Solution, key: str) -> str:
        try:
            return parse_term(row[key]).value
        except (LookupError, ValueError):
            raise CannotFetch(f"{self.name} was asked for quads and answered {row!r:.200}") from None

    def _check_order(self, texts: Sequence[str], after: str | None) -> None:
        for before, text in pairwise(texts if after is None else [after, *texts]):
            if text < before:
                raise CannotFetch(f"{self.name} sorts {before[:99]!r} before {text[:99]!r}: it cannot be read in pages")


class Gathered:
    """Quads as they come, of which many are looked up at a time: one look-up reads most blocks of the dictionary,
    however many terms it is for; but not all texts are to be in memory."""

    def __init__(
        self, source: Source, ids: Callable[[Sequence[bytes]], Ids], patterns: Sequence[HeldPattern] = ()
    ) -> None:
        """`patterns`: what was asked for; of a number, say, the source may have found others that are equal."""
        self._source, self._ids = source, ids
        self._name = source.settings.name
        self._patterns = patterns if any(has_value(pattern.object) for pattern in patterns) else ()
        self._parts: list[tuple[Ids, Ids, Ids, Ids]] = []
        self._unknown: dict[bytes, int] = {}
        self._waiting: _Columns = ([], [], [], [])
        self._waiting_bytes = self._unknown_bytes = 0
        self._with_blanks: set[Quad] = set()

    def add(self, solutions: Sequence[Solution]) -> None:
        if not solutions:
            return
        try:
            columns: _Columns = (
                [row["s"] for row in solutions],
                [row["p"] for row in solutions],
                [row["o"] for row in solutions],
                [row.get("g", b"") for row in solutions],
            )
        except KeyError as missing:
            raise CannotFetch(f"{self._name} was asked for quads and answered one without ?{missing.args[0]}") from None
        # One look finds whether any of them begins so.
        s, _, o, g = texts = [b"\n" + b"\n".join(column) for column in columns]
        if b'\n"' in s or b'\n"' in g or not all(predicate[:1] == b"<" for predicate in set(columns[1])):
            self._check(columns)
        if self._patterns or b"\n_:" in s or b"\n_:" in o or b"\n_:" in g:
            columns = self._plain(list(zip(*columns, strict=True)))
        for waiting, column in zip(self._waiting, columns, strict=True):
            waiting += column
        self._waiting_bytes += sum(map(len, texts))
        if len(self._waiting[0]) >= _LOOKED_UP or self._waiting_bytes >= _LOOKED_UP_BYTES:
            self._look_up()

    def _check(self, columns: _Columns) -> None:
        for quad in zip(*columns, strict=True):
            s, p, _, g = quad
            if s[:1] == b'"' or p[:1] != b"<" or g[:1] == b'"':
                raise CannotFetch(f"{self._name} answered what is no quad: {b' '.join(quad).decode()[:300]}")

    def _plain(self, quads: list[Quad]) -> _Columns:
        """Those that were asked for, without those with blank nodes, which are looked up at the end."""
        if self._patterns:
            quads = [quad for quad in quads if any(pattern.matches(quad) for pattern in self._patterns)]
        self._with_blanks.update(quad for quad in quads if any(map(is_blank, quad)))
        if len(self._with_blanks) > _BLANKS_MAX:
            raise UnknownBlankNodes(f"{self._name} has more than {_BLANKS_MAX:,} quads with blank nodes")
        plain = [quad for quad in quads if not any(map(is_blank, quad))]
        s, p, o, g = ([quad[i] for quad in plain] for i in range(4))
        return s, p, o, g

    def _look_up(self) -> None:
        columns, self._waiting, self._waiting_bytes = self._waiting, ([], [], [], []), 0
        if columns[0]:
            s, p, o, g = map(self._encoded, columns)
            self._parts.append((s, p, o, g))

    def _encoded(self, texts: Sequence[bytes]) -> Ids:
        """Each distinct text is looked up once."""
        distinct = list(dict.fromkeys(texts))
        ids = self._ids(distinct)
        for at in np.flatnonzero(ids == NO_TERM).tolist():
            if distinct[at]:
                self._unknown_bytes += 0 if distinct[at] in self._unknown else len(distinct[at])
                ids[at] = _UNKNOWN_FIRST + self._unknown.setdefault(distinct[at], len(self._unknown))
        if self._unknown_bytes > _UNKNOWN_BYTES_MAX:
            raise CannotFetch(
                f"{self._name} has sent more than {_UNKNOWN_BYTES_MAX >> 30} GiB of terms that are new here: copy its "
                "data (rillet load --from), or let it be asked (--attach-mode ask)"
            )
        by_text = dict(zip(distinct, ids.tolist(), strict=True))
        return np.array([by_text[text] for text in texts], np.uint64)

    def fetched(self, are_all: bool) -> FetchedQuads:
        """`are_all`: they are of one answer, and all that there are."""
        self._look_up()
        if self._with_blanks:
            self._take_blanks(are_all)
        if not self._parts:
            empty = np.empty(0, np.uint64)
            return FetchedQuads((empty, empty, empty, empty))
        s, p, o, g = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        return FetchedQuads((s, p, o, g), list(self._unknown))

    def _take_blanks(self, are_all: bool) -> None:
        quads = sorted(self._with_blanks)
        if self._source.traits.stable_blanks:
            names = {term: term[2:] for quad in quads for term in quad if is_blank(term)}
        elif are_all:
            names = labels_of(quads)
        else:
            raise UnknownBlankNodes(
                f"{self._name} has quads with blank nodes, such as {b' '.join(quads[0]).decode()[:300]}: their labels "
                "mean something in one answer only, and it does not give all of them in one"
            )
        terms = {node: term_of_label(self._name, label) for node, label in names.items()}
        known = dict(zip(terms.values(), self._ids(list(terms.values())).tolist(), strict=True))
        ids: dict[bytes, int] = {}
        for node, term in terms.items():
            # An unknown one is kept with the sign of a blank node before its term.
            unknown = b"_:" + term
            ids[node] = (
                held_blank(known[term])
                if known[term]
                else _UNKNOWN_FIRST + self._unknown.setdefault(unknown, len(self._unknown))
            )
        columns = []
        for column in zip(*quads, strict=True):
            plain = self._encoded([b"" if is_blank(term) else term for term in column])
            own = np.array([ids.get(term, 0) for term in column], np.uint64)
            columns.append(np.where(own != 0, own, plain))
        s, p, o, g = columns
        self._parts.append((s, p, o, g))
