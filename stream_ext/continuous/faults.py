"""Faults of queries: what their steps raised, as texts, for they come from other processes, too."""

from __future__ import annotations

from typing import NamedTuple

from stream_ext.catalog.catalog import Failure
from stream_ext.errors import DeadlineExceeded, QueryTooLarge

CAUGHT_UP_LATER = "the query catches up when there is an answer (if it is resumed by hand, it skips what it has missed)"

#: How the fault of a query begins that is evaluated beside the others, because it took too much of their time.
SLOWED = "Slowed: "

_OF_THE_BUDGET = {kind.__name__ for kind in (QueryTooLarge, DeadlineExceeded)}


class QueryFault(NamedTuple):
    """Why a query is not evaluated now. `since`: the snapshot from which the query runs; it tells a query from the one
    before it was resumed."""

    why: str
    since: int


def fault_of(error: Exception) -> str:
    if isinstance(error, MemoryError):
        error = QueryTooLarge(f"the registered query needs more memory than is available ({error}): ask for less")
    return f"{type(error).__name__}: {error}"


def is_caught_up_later(fault: str) -> bool:
    """Whether the query only waits for an answer, and evaluates then what it has missed."""
    return fault.endswith(CAUGHT_UP_LATER)


def is_slowed(fault: str) -> bool:
    """Whether the query is evaluated, but only in the time that it may take from the others."""
    return fault.startswith(SLOWED)


def failure_of(fault: str) -> Failure | None:
    """What stops the query for good; None: it has not exceeded its budget."""
    kind, _, message = fault.partition(": ")
    return Failure("budget", message) if kind in _OF_THE_BUDGET else None
