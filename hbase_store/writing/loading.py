"""Loading: many statements on their way to becoming one snapshot, with terms numbered among themselves.

Nothing of it is in the store before `Store.load` publishes it; a loading that is dropped leaves nothing. Lines of
N-Triples and N-Quads are read by the kernels of `line_kernels`; a line that these do not understand goes to a careful
reader, which says what it means in canonical terms, or what is wrong with it. Other forms come parsed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from hbase_store.arrays import Columns, Ids, Item, Offsets, sort_distinct
from hbase_store.errors import BadRow, Unwritable
from hbase_store.layout.run_blocks import NAMED_EDGES, PLAIN, ColumnKey
from hbase_store.layout.slab import TERM_BYTES_MAX, TermsChunk, check_lengths
from hbase_store.layout.terms import NO_TERM, check_encodable
from hbase_store.sorted.view import BY_GRAPH, FORWARD, INVERSE, View, in_order, orders, view_of

#: (a line, its number) to its statements: canonical s, p, o and graph (b"" for none).
Careful = Callable[[bytes, int], Iterable[tuple[bytes, bytes, bytes, bytes]]]
Numbers32 = npt.NDArray[np.int32]

#: No statement is longer whose terms the store can hold.
LINE_BYTES_MAX = 4 * TERM_BYTES_MAX + (1 << 10)
_ROWS = 1 << 18
_TERMS = 1 << 16
_TERMS_MAX = (1 << 31) - (1 << 26)  # they are numbered by 32 bits, and room is made ahead


class Terms:
    """Terms numbered in order of appearance: an arena of texts, and a hash table that finds them."""

    def __init__(self) -> None:
        self.hashes: Ids = np.empty(_TERMS, np.uint64)
        self.offsets: Offsets = np.zeros(_TERMS + 1, np.int64)
        self.arena = np.empty(_TERMS * 40, np.uint8)
        self.table = np.full(4 * _TERMS, -1, np.int32)
        self.counts = np.zeros(3, np.int64)

    def __len__(self) -> int:
        return int(self.counts[0])

    def make_room(self, terms: int, size: int) -> None:
        """Makes room for so many more terms of so many bytes."""
        from hbase_store.writing.line_kernels import rehash

        count = len(self)
        if count + terms > _TERMS_MAX:
            raise BadRow(f"the file has more than {_TERMS_MAX:,} different terms: load it in parts")
        used = int(self.offsets[count])
        if used + size > len(self.arena):
            self.arena = _grown(self.arena, used, 2 * len(self.arena) + size)
        if count + terms + 8 > len(self.hashes):
            self.hashes = _grown(self.hashes, count, 2 * len(self.hashes) + terms)
            self.offsets = _grown(self.offsets, count + 1, len(self.hashes) + 1)
        if 2 * (count + terms + 8) > len(self.table):
            self.table = np.full(_power_of_two(4 * (count + terms + 8)), -1, np.int32)
            rehash(self.table, self.hashes, count)

    def number(self, text: bytes) -> int:
        from hbase_store.writing.line_kernels import number_of

        self.make_room(1, len(text))
        data = np.frombuffer(text, np.uint8)
        found: int = number_of(data, 0, len(text), self.table, self.hashes, self.offsets, self.arena, self.counts)
        return found

    def numbers(self, texts: npt.NDArray[np.uint8], offsets: Offsets, hashes: Ids) -> Numbers32:
        """The numbers of distinct terms that were numbered elsewhere; new ones get the next ones."""
        from hbase_store.writing.line_kernels import number_all

        self.make_room(len(hashes), len(texts))
        found = np.empty(len(hashes), np.int32)
        number_all(texts, offsets, hashes, self.table, self.hashes, self.offsets, self.arena, self.counts, found)
        return found

    def check_lengths(self) -> None:
        count = len(self)
        lengths = np.diff(self.offsets[: count + 1])
        if count and int(lengths.max()) > TERM_BYTES_MAX:
            check_lengths([self.text(int(lengths.argmax()))])

    def text(self, number: int) -> bytes:
        return self.arena[self.offsets[number] : self.offsets[number + 1]].tobytes()

    def chunk(self, first: int, numbers: npt.NDArray[np.int64]) -> TermsChunk:
        """These terms, as those of consecutive ids."""
        from hbase_store.layout.text_kernels import gather_texts

        offsets = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum((self.offsets[1:] - self.offsets[:-1])[numbers], out=offsets[1:])
        data = np.empty(int(offsets[-1]), np.uint8)
        gather_texts(self.arena, self.offsets, numbers, data)
        return TermsChunk(first, offsets, data.tobytes())


class Loading:
    """For one thread. `quads`: the lines may name a graph; `lines_before`: so many are before the first one."""

    def __init__(self, careful: Careful, quads: bool = False, lines_before: int = 0) -> None:
        self.terms = Terms()
        self.terms.counts[2] = lines_before
        self._careful, self._quads = careful, quads
        self._rest = b""
        self._out = np.empty((4, _ROWS), np.int32)
        self._full: list[Numbers32] = []

    @property
    def statements(self) -> int:
        return _ROWS * len(self._full) + int(self.terms.counts[1])

    # ---- taking in

    def read(self, piece: bytes) -> None:
        """Some bytes of a file of lines; they may end in the middle of one."""
        whole, newline, rest = piece.rpartition(b"\n")
        if newline:
            self._read_lines(self._rest + whole + newline)
            self._rest = rest
        else:
            self._rest += piece
        if len(self._rest) > LINE_BYTES_MAX:
            raise Unwritable(
                f"a line (number {int(self.terms.counts[2]) + 1}) has more than {LINE_BYTES_MAX} bytes, the "
                "limit of a statement: nothing was loaded; is this a file of N-Triples or N-Quads?"
            )

    def end(self) -> None:
        """There are no more lines."""
        rest, self._rest = self._rest, b""
        if rest:
            self._read_lines(rest)

    def _read_lines(self, lines: bytes) -> None:
        from hbase_store.writing.line_kernels import DONE, FULL, line_end, read_lines

        terms, data, at = self.terms, np.frombuffer(lines, np.uint8), 0
        plain = lines.isascii() or _is_utf8(lines)
        while True:
            if plain:
                why, at = read_lines(
                    data,
                    at,
                    self._quads,
                    terms.table,
                    terms.hashes,
                    terms.offsets,
                    terms.arena,
                    terms.counts,
                    self._out,
                )
            else:
                why = DONE if at >= len(data) else FULL + 1
            if why == DONE:
                return
            if why == FULL:
                self._make_room(len(data) - at)
                continue
            end = int(line_end(data, at))
            for row in self._careful(lines[at:end], int(terms.counts[2]) + 1):
                self._append(row)
            at = end if plain else self._next_line(lines, end)

    def _next_line(self, lines: bytes, end: int) -> int:
        self.terms.counts[2] += end < len(lines)
        return end + (2 if lines[end : end + 2] == b"\r\n" else 1)

    def _make_room(self, size: int) -> None:
        """For the terms of lines of so many bytes: of most terms there is one already, so not for the worst case."""
        if self.terms.counts[1] == _ROWS:
            self._full.append(self._out)
            self._out = np.empty((4, _ROWS), np.int32)
            self.terms.counts[1] = 0
        self.terms.make_room(size // 128 + 64, size)

    def _append(self, row: Sequence[bytes]) -> None:
        check_encodable([text for text in row if text and not text.startswith(b"_:")])
        numbers = [self.terms.number(text) if text else -1 for text in row]
        if self.terms.counts[1] == _ROWS:
            self._make_room(0)
        self._out[:, self.terms.counts[1]] = numbers
        self.terms.counts[1] += 1

    def add(self, texts: Sequence[bytes], columns: Sequence[Numbers32]) -> None:
        """Adds parsed statements: s, p, o and graph (-1 for none) are numbers of canonical texts."""
        check_encodable([text for text in texts if not text.startswith(b"_:")])
        numbers = np.array([*map(self.terms.number, texts), -1], np.int32)
        rows = np.stack([numbers[column] for column in columns])
        for start in range(0, rows.shape[1], _ROWS // 2):
            part = rows[:, start : start + _ROWS // 2]
            at = int(self.terms.counts[1])
            fits = min(part.shape[1], _ROWS - at)
            self._out[:, at : at + fits] = part[:, :fits]
            self.terms.counts[1] += fits
            if fits < part.shape[1]:
                self._make_room(0)
                self._out[:, : part.shape[1] - fits] = part[:, fits:]
                self.terms.counts[1] = part.shape[1] - fits

    # ---- what came

    def graphs(self) -> list[bytes]:
        """Those that statements name."""
        parts = [*(part[3] for part in self._full), self._out[3, : int(self.terms.counts[1])]]
        found = np.unique(np.concatenate([np.unique(part[part >= 0]) for part in parts]))
        return [self.terms.text(number) for number in found.tolist()]

    def columns(self, graph: bytes | None) -> list[Numbers32]:
        """s, p, o, graph; what names no graph is in `graph`."""
        self.terms.check_lengths()
        parts = [*self._full, self._out[:, : int(self.terms.counts[1])]]
        s, p, o, g = (np.concatenate([part[i] for part in parts]) for i in range(4))
        if graph is not None:
            g[g < 0] = self.terms.number(graph)
        return [s, p, o, g]


def edge_columns(columns: Sequence[Numbers32], ids: Ids) -> Iterator[tuple[ColumnKey, View]]:
    """The columns of a run, from numbers of terms whose ids are `ids`."""
    s, p, o, g = columns
    if len(p) == 0:
        return
    predicates = np.flatnonzero(np.bincount(p, minlength=len(ids)))
    ranks = ranks_of(predicates, np.arange(len(predicates)), len(ids))[p]
    rows: Columns = (ids[s], ids[o])
    if (g >= 0).any():
        rows = (*rows, np.append(ids, np.uint64(NO_TERM))[g])  # of -1, which is none, it takes the last
    yield from sorted_columns(ids[predicates], ranks, rows, (FORWARD, INVERSE, BY_GRAPH))


def ranks_of(predicates: npt.NDArray[np.int64], ranks: npt.NDArray[np.int64], terms: int) -> npt.NDArray[Any]:
    """For each of so many terms, its rank among the predicates."""
    found = np.zeros(terms, np.uint16 if ranks.max(initial=0) < 1 << 16 else np.uint32)
    found[predicates] = ranks
    return found


def sorted_columns(
    predicates: Ids, ranks: npt.NDArray[Any], rows: Columns, wanted: Sequence[int]
) -> Iterator[tuple[ColumnKey, View]]:
    """The columns of a run in the `wanted` orders. `ranks`: of each row, which of the predicates it has; `rows` are
    subjects, objects and, if any is named, graphs (NO_TERM: the default graph)."""
    if not len(predicates):
        return
    place = np.argsort(ranks, kind="stable")  # of 16 bits: a radix sort
    ends = np.cumsum(np.bincount(ranks, minlength=len(predicates))).tolist()
    for predicate, start, end in zip(predicates.tolist(), [0, *ends[:-1]], ends, strict=True):
        of_predicate = place[start:end]
        plain, in_graphs = of_predicate, of_predicate[:0]
        if len(rows) > 2:
            named = rows[2][of_predicate] != NO_TERM
            plain, in_graphs = of_predicate[~named], of_predicate[named]
        if len(plain):
            yield from _in_orders(PLAIN, predicate, tuple(column[plain] for column in rows[:2]), wanted)
        if len(in_graphs):
            yield from _in_orders(NAMED_EDGES, predicate, tuple(column[in_graphs] for column in rows), wanted)


def _in_orders(kind: int, predicate: int, rows: Columns, wanted: Sequence[int]) -> Iterator[tuple[ColumnKey, View]]:
    for order in orders(kind == NAMED_EDGES):
        if order in wanted:
            yield ColumnKey(kind, predicate, order), view_of(sort_distinct(in_order(rows, order)), None)


def sorted_hashes(hashes: Ids, ids: Ids) -> Columns:
    """The rows of the column of hashes, for distinct ids. Hashes fill a word, but hardly two are equal."""
    order = np.argsort(hashes)
    rows = hashes[order], ids[order]
    return sort_distinct(rows) if (rows[0][1:] == rows[0][:-1]).any() else rows


def _is_utf8(lines: bytes) -> bool:
    try:
        lines.decode()
    except UnicodeDecodeError:
        return False
    return True


def _grown(array: npt.NDArray[Item], used: int, size: int) -> npt.NDArray[Item]:
    grown = np.empty(size, array.dtype)
    grown[:used] = array[:used]
    return grown


def _power_of_two(least: int) -> int:
    return 1 << (least - 1).bit_length()


def warm() -> None:
    """Compiles what a load needs."""
    from hbase_store.writing.line_kernels import line_end, own_ids

    loading = Loading(lambda line, number: ())
    loading.read(b'<a:a> <a:a> "a"@a .\n')
    terms = loading.terms
    terms.number(b"<a:b>")
    terms.make_room(len(terms.table), 0)
    terms.chunk(1, np.arange(len(terms)))
    Terms().numbers(terms.arena, terms.offsets[:2], terms.hashes[:1])
    own_ids(terms.arena, terms.offsets, np.uint64(1), np.uint64(1), np.zeros(len(terms), np.uint64))
    line_end(np.frombuffer(b"a", np.uint8), 0)
