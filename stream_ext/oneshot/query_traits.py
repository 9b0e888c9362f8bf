"""Traits of a query: what is found out about it once, and does not depend on the constants of its patterns.

Texts that differ in these constants share a plan (`plan_templates.py`), and so share this."""

from __future__ import annotations

from stream_ext.computed_once import computed_once
from stream_ext.language.algebra.algebra import Query
from stream_ext.language.algebra.volatile import is_volatile
from stream_ext.oneshot.advice import warnings_of
from stream_ext.oneshot.effort import Effort
from stream_ext.plan.properties.costly import is_costly


class QueryTraits:
    def __init__(self, query: Query) -> None:
        self._query = query
        self.effort = Effort(query)

    @computed_once
    def warnings(self) -> tuple[str, ...]:
        """What is probably not meant."""
        return warnings_of(self._query)

    @computed_once
    def is_volatile(self) -> bool:
        """Whether it may have another answer over the same snapshot."""
        return is_volatile(self._query)

    @computed_once
    def is_costly(self) -> bool:
        """Whether it may take long for few rows; of constants it matters only that they are some."""
        return is_costly(self._query)
