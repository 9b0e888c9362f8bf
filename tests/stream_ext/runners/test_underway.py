"""What a process is stepping stays readable after its death, and shows whether it goes on."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from stream_ext.runners.underway import Stepping, StepWatch, Underway


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[StepWatch]:
    one = StepWatch(tmp_path / "underway")
    yield one
    one.close()
    assert not one.path.exists()


@pytest.mark.parametrize("numbers", [(7,), tuple(range(5, 4000, 3)), (1 << 40, 2)])
def test_what_was_being_stepped_outlives_the_process(watched: StepWatch, numbers: Sequence[int]) -> None:
    assert watched.read() is None
    process = multiprocessing.get_context("spawn").Process(target=_dies, args=(watched.path, numbers))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    assert watched.read() == Stepping(9, tuple(numbers))


def _dies(path: Path, numbers: Sequence[int]) -> None:
    Underway(path).steps(9, numbers)
    os.kill(os.getpid(), signal.SIGKILL)


def test_every_change_is_a_sign_of_life_and_rest_is_no_step(watched: StepWatch) -> None:
    writer = Underway(watched.path)
    seen = {watched.changes}
    for number in range(5):
        writer.steps(3, [number])
        seen.add(watched.changes)
        assert watched.read() == Stepping(3, (number,))
    writer.steps(4)
    assert watched.read() == Stepping(4, None)
    writer.steps(4, range(100_000))
    assert watched.read() == Stepping(4, None), "too many to be named"
    writer.rests()
    assert watched.read() is None and watched.changes not in seen and len(seen) == 6
    writer.close()


def test_what_was_half_written_names_nobody(watched: StepWatch, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Underway(watched.path)
    writer.steps(3, [1])

    def dies(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("stream_ext.runners.underway.struct.pack_into", dies)
        with pytest.raises(KeyboardInterrupt):
            writer.steps(4, [2])
    assert watched.read() == Stepping(3, None)
    writer.close()
