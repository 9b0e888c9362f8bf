"""The result of parsing: each distinct term once, and columns of numbers that point at the terms.

Raw rows of bytes are converted in a few passes of C loops; Python code sees a term once, however often it occurs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, count

import numpy as np
import numpy.typing as npt

from stream_ext.rdf.canonical import canonical

#: The time of an element that came without one.
MISSING = int(np.iinfo(np.int64).min)

Indexes = npt.NDArray[np.int32]
_NO_NUMBERS: Indexes = np.empty(0, np.int32)
_QUOTE = ord('"')
#: Subject, predicate, object and graph (b"" for the default graph) as they were written.
Row = tuple[bytes, bytes, bytes, bytes]


@dataclass(frozen=True, slots=True)
class Parsed:
    """`s`, `p`, `o`, `g` are indexes into `terms`; a `g` of -1 is the default graph. Document order."""

    terms: list[bytes]  # distinct and canonical, in order of first appearance; a blank node as b"_:label"
    s: Indexes
    p: Indexes
    o: Indexes
    g: Indexes


@dataclass(frozen=True, slots=True)
class Pushed:
    """Triples in elements: those of one element are contiguous and in document order; elements ascend."""

    parsed: Parsed
    element: Indexes  # per triple
    time: npt.NDArray[np.int64]  # per element, MISSING where none was given
    #: Per element: an index into the terms, -1 for the default graph. Of an element with triples in several graphs: the
    #: graph of the first; `parsed.g` has all.
    graph: Indexes
    blanks_per_element: bool = False  # the same label in two elements is two blank nodes


def _are_as_written(texts: Sequence[bytes]) -> bool:
    """Whether each is the only spelling of its term: none is a literal, or has an escape."""
    joined = b"\n".join(texts)
    return bool(texts) and texts[0][0] != _QUOTE and b'\n"' not in joined and b"\\" not in joined


class Numbering:
    """Numbers terms in order of first appearance, batch by batch of rows."""

    def __init__(self) -> None:
        self._codes: dict[bytes, int] = {b"": -1}  # of each spelling, the canonical one of each term among them
        self._terms: list[bytes] = []
        self._numbers: list[Indexes] = []

    def add(self, rows: Sequence[Row]) -> None:
        self._numbers.append(self.numbers(list(chain.from_iterable(rows))))

    def add_triples(self, s: Sequence[bytes], p: Sequence[bytes], o: Sequence[bytes], as_written: bool) -> None:
        """Triples of the default graph. `as_written`: all terms are IRIs without escapes."""
        rows = np.full((len(s), 4), -1, np.int32)
        texts = list(chain.from_iterable(zip(s, p, o, strict=True)))
        rows[:, :3] = self._numbered(texts, as_written).reshape(-1, 3)
        self._numbers.append(rows.ravel())

    def numbers(self, texts: Sequence[bytes]) -> Indexes:
        """For each text the index of its term (-1 for b"")."""
        return self._numbered(texts, as_written=False)

    def _numbered(self, texts: Sequence[bytes], as_written: bool) -> Indexes:
        codes, terms = self._codes, self._terms
        new = [text for text in dict.fromkeys(texts) if text not in codes]
        if as_written or _are_as_written(new):
            codes.update(zip(new, count(len(terms)), strict=False))
            terms += new
        else:
            for text in new:
                self._add(text)
        return np.fromiter(map(codes.__getitem__, texts), dtype=np.int32, count=len(texts))

    def _add(self, text: bytes) -> None:
        # Two spellings of one term ("a" and "a"^^xsd:string) meet here; most have one only.
        spelled = text if text[0] != _QUOTE and b"\\" not in text else canonical(text)
        code = self._codes.get(spelled)
        if code is None:
            code = self._codes[spelled] = len(self._terms)
            self._terms.append(spelled)
        self._codes[text] = code

    def parsed(self) -> Parsed:
        """All rows that were added."""
        numbers = self._numbers[0] if len(self._numbers) == 1 else np.concatenate([_NO_NUMBERS, *self._numbers])
        s, p, o, g = np.ascontiguousarray(numbers.reshape(-1, 4).T)
        return Parsed(self._terms, s, p, o, g)
