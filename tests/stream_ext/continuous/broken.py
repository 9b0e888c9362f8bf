"""Networks that a test breaks: whatever evaluates them, in a step or while a run is built again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stream_ext.continuous.evaluator import Evaluator
from stream_ext.continuous.run import Run


def after_evaluations(monkeypatch: pytest.MonkeyPatch, then: Callable[[Run, int], None], after: bool = True) -> None:
    """`then` gets the run and the time of each evaluation, and may raise; `after`: once it is made."""
    new, evaluate, evaluate_in_class = Run._new_evaluator, Evaluator.evaluate, Evaluator.evaluate_in_class
    runs: dict[Evaluator, Run] = {}

    def made(run: Run) -> Evaluator:
        evaluator = new(run)
        runs[evaluator] = run
        return evaluator

    def watched(evaluator: Evaluator, time: int, evaluate_now: Callable[[], Any]) -> Any:
        if not after:
            then(runs[evaluator], time)
        found = evaluate_now()
        if after:
            then(runs[evaluator], time)
        return found

    def evaluated(evaluator: Evaluator, triggered: Any, sn: int, time: int, k: int) -> Any:
        return watched(evaluator, time, lambda: evaluate(evaluator, triggered, sn, time, k))

    def evaluated_in_class(evaluator: Evaluator, sn: int, time: int, k: int) -> Any:
        return watched(evaluator, time, lambda: evaluate_in_class(evaluator, sn, time, k))

    monkeypatch.setattr(Run, "_new_evaluator", made)
    monkeypatch.setattr(Evaluator, "evaluate", evaluated)
    monkeypatch.setattr(Evaluator, "evaluate_in_class", evaluated_in_class)
