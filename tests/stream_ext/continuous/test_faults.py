"""A shared network that fails, in the middle of a step or when it is built, costs none of its queries a word.

python -m tests.stream_ext.continuous.test_faults SEED"""

from __future__ import annotations

import random
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from stream_ext.continuous.evaluations import Evaluations
from stream_ext.continuous.evaluator import Evaluator
from stream_ext.continuous.run import Run
from tests.stream_ext.continuous.test_sharing import play

METHODS: list[tuple[Any, str]] = [
    (Evaluator, "evaluate"),
    (Evaluator, "build"),
    (Run, "_gather"),
    (Evaluations, "_take"),
]


def failing(method: Callable[..., Any], chance: random.Random, failed: list[str]) -> Callable[..., Any]:
    def run(self: Any, *named: Any) -> Any:
        found = method(self, *named)
        plan = self.plan if isinstance(self, Run) else self._plan
        if plan.is_shared and chance.random() < 0.15:
            failed.append(method.__name__)
            raise ArithmeticError(f"in {method.__name__}")
        return found

    return run


@pytest.mark.parametrize("block", range(5))
def test_networks_that_fail_at_any_moment_cost_nothing(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[str] = []
    for kind, name in METHODS:
        chance = random.Random(f"{block} {name}")
        monkeypatch.setattr(kind, name, failing(getattr(kind, name), chance, failed))
    shared = sum(play(seed, tmp_path / str(seed)) for seed in range(block * 5, block * 5 + 5))
    assert shared > 5
    assert {"evaluate", "_gather", "_take"} <= set(failed)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        for given in sys.argv[1:]:
            for kind, name in METHODS:
                setattr(kind, name, failing(getattr(kind, name), random.Random(f"{given} {name}"), []))
            print(f"seed {given}: {play(int(given), Path(where) / given)} parts of shared networks, nothing is wrong")
