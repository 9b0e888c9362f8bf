"""The interface of the functions that expressions call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from stream_ext.evaluation_budget import Control


class ArgumentView(Enum):
    """How a function sees its arguments, or gives its answer; None is an error in either."""

    VALUES = auto()  # `plan.values`: 1 and 01 are the same
    TEXTS = auto()  # terms as canonical N-Triples bytes: they are not


class Makes(Enum):
    """How much memory a result takes."""

    SMALL = auto()  # a number, a truth, a digest
    NUMBERS = auto()  # that may have very many digits
    TERMS = auto()


AT_ONCE_MAX = 4096
#: From a budget and all arguments but the first: the function of that one.
Bind = Callable[..., Callable[[Any], Any]]


@dataclass(frozen=True, slots=True)
class Function:
    """Total and pure: called with anything (None too), it answers, or answers None, and always the same.

    One whose result may be longer than its arguments, or that may take long, is made `within` the budget of the query
    that asks for it."""

    apply: Callable[..., Any]
    takes: ArgumentView = ArgumentView.VALUES
    gives: ArgumentView = ArgumentView.VALUES
    bind: Bind | None = None
    within: Callable[[Control], Callable[..., Any]] | None = None
    makes: Makes = Makes.SMALL
    at_once_max: int = AT_ONCE_MAX  # calls between two looks at the deadline
