"""Logic that several threads read at once."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from stream_ext.language.algebra.terms import Constant, Variable
from stream_ext.plan.logic import Conjunction, GraphScope, Logic, Optional, PatternScan
from tests.parts.waiting import PATIENCE_S

_SCAN = PatternScan(Variable("s"), Constant(b"<http://ex/p>"), Variable("o"), GraphScope(), None)


def _conjunction_of_optional() -> Logic:
    return Conjunction((Optional(_SCAN, _SCAN),))


def _optional_of_conjunction() -> Logic:
    return Optional(Conjunction((_SCAN,)), _SCAN)


def test_threads_that_read_parts_of_different_queries_do_not_wait_for_each_other() -> None:
    """One is inside of a conjunction and reads an optional part, the other the other way round."""
    met = threading.Barrier(2, timeout=PATIENCE_S)

    def first_meets(read: Callable[[], object]) -> object:
        seen = False

        def watch(frame: object, event: str, argument: object) -> None:
            nonlocal seen
            if event == "call" and getattr(frame, "f_code").co_name == "certain" and not seen:  # noqa: B009
                seen = True
                met.wait()  # both are inside of their outer part before either reads the inner one

        sys.setprofile(watch)
        try:
            return read()
        finally:
            sys.setprofile(None)

    parts = _conjunction_of_optional(), _optional_of_conjunction()
    with ThreadPoolExecutor(2) as threads:
        found = [threads.submit(first_meets, partial(getattr, part, "certain")) for part in parts]
        assert [each.result(timeout=PATIENCE_S) for each in found] == [{"s", "o"}, {"s", "o"}]
