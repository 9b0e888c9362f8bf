"""The protocol of operators: names of columns, and one method."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from stream_ext.rows.zset import ZSet


class Operator(Protocol):
    @property
    def variables(self) -> tuple[str, ...]: ...

    #: (moment, a change of each input) -> the change of the output
    @property
    def step(self) -> Callable[..., ZSet]: ...
