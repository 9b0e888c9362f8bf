"""The pipeline: from the algebra of a text to the logic that is built, pass by pass.

SELECT ?s { ?s :p ?o FILTER(?o > 1) }    =>    normalise, then each of PASSES    =>    Select(...)"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stream_ext.evaluation_budget import Check, Control
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.terms import Constant
from stream_ext.plan.lift import lift_select
from stream_ext.plan.logic import Select
from stream_ext.plan.normalise import normalise
from stream_ext.plan.occurrences import follow_occurrences

#: What a query's logic goes through before it is built, in this order.
PASSES: tuple[Callable[[Select], Select], ...] = (follow_occurrences, lift_select)


def logic_of(query: Query, graphs: Sequence[Constant] = (), check: Check = Control.FREE.check) -> Select:
    """`graphs` are no graphs of the store, but given as windows (`window_of_graph`). What a long text means takes its
    time: `check` raises when nobody waits for it any more."""
    select = normalise(query, graphs=graphs, check=check)
    for each in PASSES:
        check()
        select = each(select)
    check()
    return select
