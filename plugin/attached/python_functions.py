"""Functions in Python that queries of one rdflib graph may call, in the manner of rdflib's CUSTOM_EVALS.

    functions={"urn:f:twice": twice}     called as BIND(<urn:f:twice>(?x) AS ?y); may make several rows and variables
    custom_eval=f                        f(context, part) evaluates a part of the algebra, or raises NotImplementedError
    DatasetExt                           decorators of rdflib-endpoint: types, predicates, functions, whole graphs

rdflib has one table of them for the whole process. So each of ours is called for its own graph only, and leaves the
table when its owner is gone."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rdflib import Graph, URIRef
from rdflib.plugins.sparql import CUSTOM_EVALS
from rdflib.plugins.sparql.evaluate import evalPart
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.plugins.sparql.sparql import QueryContext

CustomEval = Callable[[QueryContext, CompValue], Any]
#: In the manner of rdflib-endpoint: it adds its rows to the first argument, and returns all four.
Function = Callable[[list[Any], QueryContext, CompValue, Any], tuple[list[Any], QueryContext, CompValue, Any]]

#: With it, our keys in the table begin.
OWN_KEY = "rillet::"
#: What `custom_eval` is called among the functions of a registered query.
CUSTOM_EVAL = "urn:rillet:ns#custom-eval"
#: The kinds of DatasetExt, with which its keys in the table begin.
_OF_DATASET_EXT = ("type_function::", "predicate_function::", "extension_function::", "graph_function::")


class PythonFunctions:
    """The functions of `owner`. They are registered as long as this object lives."""

    def __init__(
        self, owner: Graph, functions: Mapping[str, Function] | None = None, custom_eval: CustomEval | None = None
    ) -> None:
        """`functions`: by IRI. `custom_eval`: evaluates parts of the algebra, as rdflib's CUSTOM_EVALS do."""
        self.owner = owner
        self._functions = {URIRef(iri): function for iri, function in (functions or {}).items()}
        self._custom_eval = custom_eval
        if self._functions or custom_eval is not None:
            key = f"{OWN_KEY}{id(self)}"
            CUSTOM_EVALS[key] = _of(weakref.ref(self))
            weakref.finalize(self, CUSTOM_EVALS.pop, key, None)

    @property
    def iris(self) -> list[URIRef]:
        """Those that a query calls by their IRI, for the service description."""
        by_key = [URIRef(key) for key in CUSTOM_EVALS if key.startswith(("urn:", "http://", "https://"))]
        of_dataset = getattr(self.owner, "get_extension_function_iris", list)
        return list(dict.fromkeys([*by_key, *of_dataset(), *self._functions]))

    @property
    def are_any(self) -> bool:
        return bool(self._functions) or self._custom_eval is not None or any(True for _ in self._decorated())

    def may_be_used_by(self, algebra: object) -> bool:
        """Whether a function could take part in the evaluation of this algebra; False: surely not."""
        if self._custom_eval is not None or any(
            not key.startswith((OWN_KEY, *_OF_DATASET_EXT)) for key in CUSTOM_EVALS
        ):
            return True
        return bool(self.named_in(algebra))

    def named_in(self, algebra: object) -> set[URIRef]:
        """The functions, types and predicates of ours that this algebra names."""
        mine = self._named
        return mine.intersection(terms_in(algebra)) if mine else set()

    def may_be_called_in(self, text: str) -> bool:
        """Whether a registered query with this text could call one; False: surely not."""
        return self._custom_eval is not None or any(f"<{iri}>" in text for iri in self._named)

    def called_by(self, algebra: object) -> list[str]:
        """The functions of ours that a registered query calls, by IRI; whether `custom_eval` does something cannot be
        seen before, so it is called by all."""
        every = [] if self._custom_eval is None else [CUSTOM_EVAL]
        return [*sorted(map(str, self.named_in(algebra))), *every]

    @property
    def _named(self) -> set[URIRef]:
        return {*self._functions, *(each.iri for each in self._decorated())}

    def make_graphs(self) -> bool:
        """Whether some function writes graphs into the owner, which are there while a query runs."""
        return any(each.func_type == "graph_function" for each in self._decorated())

    def remove_graphs_of_functions(self) -> None:
        """Removes what functions have written into the owner for a query that has ended."""
        if self.make_graphs():
            self.owner._cleanup_tmp_graphs()  # type: ignore[attr-defined]  # of a DatasetExt

    def evaluate(self, context: QueryContext, part: CompValue) -> Any:
        if self._custom_eval is not None:
            return self._custom_eval(context, part)
        called = part.expr.get("iri") if part.name == "Extend" and isinstance(part.expr, CompValue) else None
        function = None if called is None else self._functions.get(called)
        if function is None:
            raise NotImplementedError
        rows: list[Any] = []
        for solution in evalPart(context, part.p):
            rows, context, part, _ = function(rows, context, part, solution)
        return rows

    def _decorated(self) -> Iterator[Any]:
        yield from getattr(self.owner, "_custom_functions", {}).values()


def _of(reference: weakref.ReferenceType[PythonFunctions]) -> CustomEval:
    """Calls the functions for queries over their owner only; the others go to the next entry of rdflib's table."""

    def evaluate(context: QueryContext, part: CompValue) -> Any:
        functions = reference()
        queried = context.graph if context._dataset is None else context._dataset
        if functions is None or queried is not functions.owner:
            raise NotImplementedError
        return functions.evaluate(context, part)

    return evaluate


def terms_in(part: object) -> Iterator[URIRef]:
    """All IRIs in a part of rdflib's algebra."""
    for each in parts_of(part):
        if isinstance(each, URIRef):
            yield each


def parts_of(part: object) -> Iterator[object]:
    """The part and all that is in it."""
    left = [part]
    while left:
        each = left.pop()
        yield each
        if isinstance(each, Mapping):
            left += each.values()
        elif isinstance(each, list | tuple | set | frozenset):
            left += each
