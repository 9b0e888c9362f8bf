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

from stream_ext.continuous.template_run import TemplateRun
from tests.stream_ext.continuous.test_sharing import play


def failing(method: Callable[..., Any], chance: random.Random, failed: list[str]) -> Callable[..., Any]:
    def run(self: TemplateRun, *named: Any) -> Any:
        found = method(self, *named)
        if chance.random() < 0.15:
            failed.append(method.__name__)
            raise ArithmeticError(f"in {method.__name__}")
        return found

    return run


@pytest.mark.parametrize("block", range(8))
def test_networks_that_fail_at_any_moment_cost_nothing(
    block: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed: list[str] = []
    for name in ("_evaluate", "_build", "_gather", "_take"):
        chance = random.Random(f"{block} {name}")
        monkeypatch.setattr(TemplateRun, name, failing(getattr(TemplateRun, name), chance, failed))
    shared = sum(play(seed, tmp_path / str(seed)) for seed in range(block * 5, block * 5 + 5))
    assert shared > 5
    assert {"_evaluate", "_gather", "_take"} <= set(failed)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as where:
        for given in sys.argv[1:]:
            for name in ("_evaluate", "_build", "_gather", "_take"):
                method = getattr(TemplateRun, name)
                setattr(TemplateRun, name, failing(method, random.Random(f"{given} {name}"), []))
            print(f"seed {given}: {play(int(given), Path(where) / given)} parts of shared networks, nothing is wrong")
