"""What a function of expressions is to the rest of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any


class View(Enum):
    """How a function sees its arguments, or gives its answer; None is an error in either."""

    VALUES = auto()  # `plan.values`: 1 and 01 are the same
    TEXTS = auto()  # terms as canonical N-Triples bytes: they are not


@dataclass(frozen=True, slots=True)
class Function:
    """Total and pure: called with anything (None too), it answers, or answers None, and always the same."""

    apply: Callable[..., Any]
    takes: View = View.VALUES
    gives: View = View.VALUES
    bind: Callable[..., Callable[[Any], Any]] | None = None  # the function of its first argument alone, given the rest
