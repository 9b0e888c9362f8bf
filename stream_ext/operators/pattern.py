"""A triple pattern over ids: which positions are fixed, which bind a variable, which repeat one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from stream_ext.plan.algebra import Constant, Node, TriplePattern, Variable

Ids = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

DEFAULT_GRAPH = Constant(b"")  # the graph of a pattern that stands in no GRAPH
UNKNOWN = (1 << 64) - 1  # stands for a constant that the store has never seen: equal to no id


@dataclass(frozen=True, slots=True)
class IdPattern:
    """Positions are s, p, o, g. `fixed` maps a position to its id, `binding` to its variable."""

    fixed: dict[int, int]
    binding: dict[int, str]

    @property
    def variables(self) -> tuple[str, ...]:
        """Each variable once, in order of s, p, o, g."""
        return tuple(dict.fromkeys(self.binding.values()))

    def match(self, columns: Sequence[Ids]) -> tuple[Mask, Callable[[Mask], tuple[Ids, ...]]]:
        """Which quads fit; and how to take their bindings, a column a variable."""
        fits = np.ones(len(columns[0]), np.bool_)
        for position, value in self.fixed.items():
            fits &= columns[position] == np.uint64(value)
        where: dict[str, int] = {}
        for position, name in self.binding.items():
            if name in where:
                fits &= columns[position] == columns[where[name]]
            else:
                where[name] = position
        return fits, lambda which: tuple(columns[where[name]][which] for name in self.variables)


def id_pattern(pattern: TriplePattern, graph: Node, ids: Mapping[bytes, int]) -> IdPattern:
    """`graph` is DEFAULT_GRAPH, a named graph or a variable. `ids` has 0 for a term that the store does not know."""
    fixed: dict[int, int] = {}
    binding: dict[int, str] = {}
    for position, node in enumerate((pattern.subject, pattern.predicate, pattern.object, graph)):
        if isinstance(node, Variable):
            binding[position] = node.name
        elif node == DEFAULT_GRAPH:
            fixed[position] = 0
        else:
            fixed[position] = ids[node.text] or UNKNOWN
    return IdPattern(fixed, binding)
