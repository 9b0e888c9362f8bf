"""Measuring: the bytes of the state of operators, found by following their attributes.

Their state is arrays, in a few containers. Shared objects (the store, terms, plans) are not counted."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from sys import getsizeof
from typing import Any

import numpy as np

#: Modules of what has state. An object of any other class is passed over.
_WITH_STATE = (
    "stream_ext.network.operators.",
    "stream_ext.rows.",
    "stream_ext.windows.displacing",
    "stream_ext.windows.occupancy",
    "stream_ext.windows.waiting_elements",
)
#: Of longer containers not each element is looked at.
_LOOKED_AT_MAX = 10_000
_OBJECT = 100


def bytes_of(roots: Iterable[object]) -> int:
    seen: set[int] = set()
    waiting: list[Any] = list(roots)
    size = 0
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, np.ndarray):
            if isinstance(each.base, np.ndarray):
                waiting.append(each.base)
            else:
                size += each.nbytes
        elif isinstance(each, (str, bytes)):
            size += getsizeof(each)
        elif isinstance(each, (list, tuple, set, frozenset, deque, dict)):
            size += getsizeof(each)
            if len(each) > _LOOKED_AT_MAX:
                size += _OBJECT * len(each)
            else:
                waiting += each
                if isinstance(each, dict):
                    waiting += each.values()
        elif type(each).__module__.startswith(_WITH_STATE):
            waiting += _parts_of(each)
    return size


def _parts_of(each: object) -> Iterable[object]:
    named = getattr(each, "__dict__", None)
    if named is not None:
        return list(named.values())
    slots = [name for kind in type(each).__mro__ for name in getattr(kind, "__slots__", ())]
    return [getattr(each, name) for name in slots if hasattr(each, name)]
