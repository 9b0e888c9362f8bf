"""The protocol of operators: names of columns, and one method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Concatenate, Protocol

from stream_ext.network.operators.core.moment import Moment
from stream_ext.rows.zset import ZSet


class Operator(Protocol):
    @property
    def variables(self) -> tuple[str, ...]: ...

    @property
    def step(self) -> Callable[Concatenate[Moment, ...], ZSet]:
        """(moment, a change of each input) -> the change of the output"""
        ...
