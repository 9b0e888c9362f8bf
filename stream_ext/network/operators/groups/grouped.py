"""Grouped: the Group of a network that runs for ever, or a new one for each question that is asked once."""

from __future__ import annotations

from collections.abc import Callable

from stream_ext.evaluation_budget import Control
from stream_ext.network.operators.core.moment import Moment
from stream_ext.network.operators.groups.group import GroupOperator
from stream_ext.rows.zset import ZSet
from stream_ext.values.vocabulary import Vocabulary


class Grouped:
    def __init__(self, variables: tuple[str, ...], make: Callable[[Vocabulary, Control], GroupOperator]) -> None:
        self.variables = variables
        self._make = make
        self._group: GroupOperator | None = None
        self.emits_removals = True

    def new(self, moment: Moment) -> GroupOperator:
        """A Group for one evaluation."""
        return self._make(moment.vocabulary, moment.control)

    def step(self, moment: Moment, change: ZSet) -> ZSet:
        if moment.last and self._group is None:
            return self.new(moment).step(moment, change)
        if self._group is None:
            self._group = self._make(moment.vocabulary, moment.control)
            self._group.emits_removals = self.emits_removals
        return self._group.step(moment, change)
