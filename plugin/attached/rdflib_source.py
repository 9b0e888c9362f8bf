"""An rdflib dataset in this process, as a source of the engine: it is asked as any other, in SPARQL.

What it is need not be found out by asking: rdflib says whether the default graph is the union of all, and its stores
keep the labels of blank nodes, unless they are clients of a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from rdflib.plugins.stores.sparqlstore import SPARQLStore, SPARQLUpdateStore
from rdflib.query import Result

from plugin.attached.held import text_of
from plugin.attached.quads import QuadReader
from plugin.attached.whole_evaluation import WholeEvaluation
from stream_ext.errors import RilletError
from stream_ext.evaluation_budget import Control
from stream_ext.language.algebra.algebra import Query
from stream_ext.remote.evaluating import WholeQuestion
from stream_ext.remote.fetching import CannotFetch
from stream_ext.remote.source import MAIN, SourceHealth, SourceSettings, SourceTraits
from stream_ext.remote.sparql_client import Solution

#: The address by which SERVICE may name it.
URL = "urn:rillet:attached"
_REMOTE_S, _HERE_S = 60.0, 3600.0
_SOLUTIONS = 1_000
#: About what a solution takes besides its terms.
_SOLUTION_BYTES = 200

Ask = Callable[[str, Control], Result]


class RdflibSource:
    def __init__(
        self,
        reader: QuadReader,
        ask: Ask,
        update: Callable[[str], None],
        still: Callable[[], AbstractContextManager[None]],
        evaluation: WholeEvaluation,
        refresh_s: float | None,
    ) -> None:
        """`ask` answers a SELECT; `still`: nothing is written while it is held. `refresh_s`: None: the usual."""
        self._ask, self._update, self._still, self._evaluation = ask, update, still, evaluation
        is_remote = isinstance(reader.store, SPARQLStore)
        usual_s = _REMOTE_S if is_remote else _HERE_S
        self.settings = SourceSettings(
            MAIN,
            URL,
            update_url=URL if not is_remote or isinstance(reader.store, SPARQLUpdateStore) else None,
            refresh_s=usual_s if refresh_s is None else refresh_s,
        )
        self.traits = SourceTraits(
            default="union" if reader.is_union else "own",
            repeats=reader.is_union,  # stores that evaluate SPARQL themselves may find a triple in each of its graphs
            canonical_numbers=True,  # rdflib reads a text so, whatever was stored
            stable_blanks=not is_remote,
        )

    @property
    def local(self) -> bool:
        return True

    @property
    def health(self) -> SourceHealth:
        return SourceHealth()

    def select(self, text: str, control: Control) -> Iterator[list[Solution]]:
        """The answer is of one state: all of it is read before anything else is written."""
        try:
            with self._still():
                solutions = list(self._solutions(text, control))
        except RilletError:
            raise
        except Exception as error:
            raise CannotFetch(f"the attached rdflib dataset could not answer: {error}") from error
        for start in range(0, len(solutions), _SOLUTIONS):
            yield solutions[start : start + _SOLUTIONS]

    def _solutions(self, text: str, control: Control) -> Iterator[Solution]:
        for row in self._ask(text, control).bindings:
            found = _solution(row)
            control.spend(_SOLUTION_BYTES + sum(map(len, found.values())))
            control.check()
            yield found

    def functions_of(self, query: Query) -> list[str]:
        return self._evaluation.functions_of(query)

    def evaluate(self, question: WholeQuestion, control: Control) -> list[Solution]:
        with self._still():
            return self._evaluation.evaluate(question, control)

    def update(self, text: str) -> None:
        self._update(text)

    def close(self) -> None:
        """The dataset stays open: whoever opened it closes it."""


def _solution(row: Mapping[Any, Any]) -> Solution:
    return {str(variable): text_of(term) for variable, term in row.items() if term is not None}
