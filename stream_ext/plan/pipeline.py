"""The pipeline: from the algebra of a text to the logic that is built, pass by pass.

SELECT ?s { ?s :p ?o FILTER(?o > 1) }    =>    normalise, then each of PASSES    =>    Select(...)"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stream_ext.evaluation_budget import Check, Control
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.terms import Constant
from stream_ext.plan.logic import Select
from stream_ext.plan.passes.lift import lift_select
from stream_ext.plan.passes.normalise import normalise
from stream_ext.plan.passes.occurrences import follow_occurrences
from stream_ext.plan.sources.blank_nodes import guarded
from stream_ext.plan.sources.exclusive import Attached
from stream_ext.plan.sources.exclusive_groups import gathered

#: What a query's logic goes through before it is built, in this order.
PASSES: tuple[Callable[[Select], Select], ...] = (follow_occurrences, lift_select)
#: And what it goes through then, where a source is asked.
OF_SOURCES: tuple[Callable[[Select], Select], ...] = (gathered, guarded)


def logic_of(
    query: Query,
    graphs: Sequence[Constant] = (),
    check: Check = Control.FREE.check,
    attached: Attached | None = None,
) -> Select:
    """`graphs` are no graphs of the store, but given as windows (`window_of_graph`). What a long text means takes its
    time: `check` raises when nobody waits for it any more. `attached`: the source that is one dataset with the
    store."""
    select = normalise(query, graphs=graphs, check=check, attached=attached)
    return passed(select, (*PASSES, *OF_SOURCES) if attached is not None else PASSES, check)


def passed(select: Select, passes: Sequence[Callable[[Select], Select]], check: Check = Control.FREE.check) -> Select:
    """The passes one after the other; `check` may end them in between."""
    for each in passes:
        check()
        select = each(select)
    check()
    return select
