"""A registration whose name another text has: the pages offer to replace that query."""

from __future__ import annotations

from dataclasses import dataclass

from endpoint.errors import Problem, describe
from stream_ext.errors import NameInUse


@dataclass(frozen=True, slots=True)
class NameConflict:
    """A problem that a page shows with a button: it sends the same text again, to replace `query`."""

    query: str
    status: int

    line = 0

    @property
    def detail(self) -> str:
        return (
            f"{self.query} is already a registered query with another text. Replace it, or use another name. "
            "The query that is replaced ends with its emissions; those of the new one begin at number 1."
        )


def described(error: Exception) -> Problem | NameConflict:
    """As `describe`, for a page."""
    problem = describe(error)
    if isinstance(error, NameInUse) and error.query is not None:
        return NameConflict(error.query, problem.status)
    return problem
