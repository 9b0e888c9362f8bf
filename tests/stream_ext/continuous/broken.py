"""Networks that a test breaks: whatever evaluates them, in a step or while a run is built again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stream_ext.continuous.evaluator import Evaluator
from stream_ext.continuous.run import Run


def after_evaluations(monkeypatch: pytest.MonkeyPatch, then: Callable[[Run, int], None], after: bool = True) -> None:
    """`then` gets the run and the time of each evaluation, and may raise; `after`: once it is made."""
    new, evaluate = Run._new_evaluator, Evaluator.evaluate
    runs: dict[Evaluator, Run] = {}

    def made(run: Run) -> Evaluator:
        evaluator = new(run)
        runs[evaluator] = run
        return evaluator

    def evaluated(evaluator: Evaluator, triggered: Any, sn: int, time: int, k: int) -> Any:
        if not after:
            then(runs[evaluator], time)
        found = evaluate(evaluator, triggered, sn, time, k)
        if after:
            then(runs[evaluator], time)
        return found

    monkeypatch.setattr(Run, "_new_evaluator", made)
    monkeypatch.setattr(Evaluator, "evaluate", evaluated)
