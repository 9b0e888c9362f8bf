"""A source that is only pretended: a store of pyoxigraph in this process, whose answers a test may spoil."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pyoxigraph as ox

from stream_ext.evaluation_budget import Control
from stream_ext.remote.fetching import CannotFetch, NoAnswer
from stream_ext.remote.source import MAIN, SourceHealth, SourceSettings, SourceTraits
from stream_ext.remote.sparql_client import Solution

#: So many solutions at a time.
_PIECE = 3


class PretendedSource:
    """`spoil` is called with each question, and may raise, or return another list of solutions."""

    local = False

    def __init__(self, *lines: str, name: str = MAIN, **settings: object) -> None:
        self.store = ox.Store()
        self.write(*lines)
        self.traits = SourceTraits(stable_blanks=False, sorts_by_text=False)
        self.settings = SourceSettings(name, f"http://pretended/{name}", **settings)  # type: ignore[arg-type]
        self.asked: list[str] = []
        self.away = False
        self.spoil: Callable[[str, list[Solution]], list[Solution]] = lambda text, found: found
        self.rows_max: int | None = None  # longer answers are cut, silently
        self._labels = 0

    def with_traits(self, **traits: object) -> PretendedSource:
        self.traits = replace(self.traits, **traits)  # type: ignore[arg-type]
        return self

    def write(self, *lines: str) -> None:
        """N-Quads."""
        self.store.load("\n".join(lines).encode(), format=ox.RdfFormat.N_QUADS)

    def change(self, text: str) -> None:
        self.store.update(f"PREFIX : <http://ex/> {text}")

    def select(self, text: str, control: Control) -> Iterator[list[Solution]]:
        self.asked.append(text)
        if self.away:
            raise NoAnswer("<http://pretended/main> does not answer: connection refused")
        self._labels += 1  # labels of one answer only, unless they are stable
        answer = self.store.query(text)
        if not isinstance(answer, ox.QuerySolutions):
            raise CannotFetch("no SELECT")
        names = [variable.value for variable in answer.variables]
        rows = [{n: self._text(row[n]) for n in names if row[n] is not None} for row in answer]
        rows = self.spoil(text, rows)[: self.rows_max]
        for start in range(0, len(rows), _PIECE):
            control.check()
            yield rows[start : start + _PIECE]

    def _text(self, term: object) -> bytes:
        if isinstance(term, ox.BlankNode) and not self.traits.stable_blanks:
            return b"_:a%d%s" % (self._labels, term.value.encode()[::-1])
        return str(term).encode()

    @property
    def health(self) -> SourceHealth:
        return SourceHealth()

    def update(self, text: str) -> None:
        self.store.update(text)

    def close(self) -> None:
        pass  # nothing is open
