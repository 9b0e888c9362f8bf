"""What the writer of a stream pushes: the same chunks and names, in memory or staged, whatever died before."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from plugin.spark import writing
from plugin.spark.writing import ElementsWriter, Lines

Push = tuple[str, int, bytes]


class Noted:
    """Stands for a server: counts each name and number once. `dies_at`: the push at which the program dies."""

    def __init__(self, dies_at: int = -1) -> None:
        self.counted: dict[tuple[str, int], bytes] = {}
        self.pushes, self.dies_at = 0, dies_at

    def push(self, stream: str, body: bytes, source: str, seq: int) -> None:
        if self.pushes == self.dies_at:
            raise KeyboardInterrupt
        self.pushes += 1
        before = self.counted.setdefault((source, seq), body)
        assert before == body, "one name and number stand for one content"


PARTITIONS = [
    [{"data": f'<http://ex/{part}> <http://ex/p> "é{n}" .', "timestamp": n, "graph": None} for n in range(count)]
    for part, count in enumerate((25, 0, 7, 10))
]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_CHUNK_LINES", 4)


def run(server: Noted, checkpoint: str, batch: int = 3) -> Sequence[Lines]:
    writer = ElementsWriter(server, "s", "mine", ["data", "timestamp", "graph"], checkpoint)
    messages = [writer.write(iter(rows)) for rows in PARTITIONS]
    writer.commit(messages, batch)
    return messages


def elements(server: Noted) -> list[object]:
    lines = [line for _, body in sorted(server.counted.items()) for line in body.splitlines()]
    return [json.loads(line) for line in lines]


EXPECTED = [{key: value for key, value in row.items() if value is not None} for rows in PARTITIONS for row in rows]


@pytest.mark.parametrize("prefix", ["", "file:", "file://"])
def test_staged_lines_are_pushed_as_those_in_memory(
    prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory, staged = Noted(), Noted()
    run(in_memory, "")
    monkeypatch.setattr(writing, "_MEMORY_BYTES_MAX", 500)
    messages = run(staged, f"{prefix}{tmp_path}/checkpoint")
    assert [bool(message.staged) for message in messages] == [True, False, False, True]
    assert staged.counted == in_memory.counted and elements(staged) == EXPECTED
    assert not list((tmp_path / "checkpoint").iterdir()), "nothing is left"


def test_a_program_that_dies_at_any_push_has_pushed_each_element_once_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_MEMORY_BYTES_MAX", 300)
    whole = Noted()
    run(whole, str(tmp_path))
    for dies_at in range(whole.pushes):
        server = Noted(dies_at)
        with pytest.raises(KeyboardInterrupt):
            run(server, str(tmp_path))
        assert list(tmp_path.rglob("*.ndjson")), "what was staged is left"
        server.dies_at = -1
        run(server, str(tmp_path))
        assert elements(server) == EXPECTED and server.counted == whole.counted
        assert not list(tmp_path.rglob("*.ndjson"))


def test_a_batch_that_fails_leaves_nothing_and_pushes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_MEMORY_BYTES_MAX", 300)
    writer = ElementsWriter(Noted(dies_at=0), "s", "mine", ["data"], str(tmp_path))
    messages = [writer.write(iter(rows)) for rows in PARTITIONS]
    writer.abort([messages[0], None], 1)
    assert not list(tmp_path.rglob("*.ndjson"))


def test_without_a_checkpoint_too_much_is_refused_and_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_MEMORY_BYTES_MAX", 300)
    with pytest.raises(ValueError, match="give the option checkpointLocation"):
        run(Noted(), "")
