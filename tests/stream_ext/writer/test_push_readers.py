"""Long pushes are read by processes of their own: what they say is what the server itself would have read."""

from __future__ import annotations

import dataclasses
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_ext.catalog.catalog import StreamDefinition
from stream_ext.catalog.options import StreamOptions
from stream_ext.errors import BadArgument, BadData, DeadlineExceeded
from stream_ext.rdf.reading import ReadingBudget
from stream_ext.service.service import Limits
from stream_ext.writer import push_readers
from stream_ext.writer.elements import Elements, read_push
from stream_ext.writer.push_readers import LONG_BYTES, PushReaders
from tests.parts.waiting import until
from tests.stream_ext.opened import emissions_of, opened, registration

BASE = "http://base/"
NT, NQ, NDJSON, TTL = "application/n-triples", "application/n-quads", "application/x-ndjson", "text/turtle"
OPTIONS = (
    StreamOptions(), StreamOptions(timeless=True), StreamOptions(timeless=["a:p1", "a:p9"]), StreamOptions(time="a:at"),
)  # fmt: skip


def stream(options: StreamOptions = OPTIONS[0]) -> StreamDefinition:
    return StreamDefinition(1, "s", "http://base/s", options)


def statements(chance: random.Random, count: int, graphs: bool) -> str:
    """Each subject has one time, as the option `time` asks for."""
    lines = []
    for number in range(count):
        s = chance.choice((f"<a:s{number}>", f"_:b{chance.randrange(50)}"))
        o = chance.choice(("<a:o>", '"é"', '"x\\ty"@en', "_:b7", f"<a:o{chance.randrange(99)}>"))
        g = chance.choice(("", " <a:g>", " _:g")) if graphs else ""
        lines.append(f"{s} <a:p{chance.randrange(3)}> {o}{g} .")
    return "\n".join(lines)


def body(chance: random.Random, media_type: str) -> bytes:
    if media_type != NDJSON:
        return statements(chance, 900, media_type == NQ).encode()
    lines = []
    for number in range(300):
        data: Any = f'<a:s{number}> <a:at> "{number}" . ' + statements(chance, chance.randrange(1, 3), False)
        if chance.random() < 0.05:
            data = {"@id": f"a:s{number}", "a:at": str(number), "a:p1": {"@id": "a:o"}}
        lines.append(json.dumps({"timestamp": number, "data": data}))
    return "\n".join(lines).encode()


def everything(value: Any) -> Any:
    """An object as lists, so that two can be compared."""
    if dataclasses.is_dataclass(value):
        return [everything(getattr(value, field.name)) for field in dataclasses.fields(value)]
    return (value.dtype, value.tolist()) if isinstance(value, np.ndarray) else value


@pytest.fixture(scope="module")
def readers() -> Iterator[PushReaders]:
    readers = PushReaders(1)
    yield readers
    readers.close()


def read(readers: PushReaders, data: bytes, media_type: str = NDJSON, check: Callable[[], None] = bool) -> Elements:
    return readers.read(stream(), data, media_type, 5, BASE, ReadingBudget(check))


@pytest.mark.parametrize("media_type", [NT, NQ, NDJSON])
def test_elements_are_the_same_from_another_process(
    media_type: str, readers: PushReaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(push_readers, "read_push", lambda *_: pytest.fail("it was read here"))
    for seed, options in enumerate(OPTIONS[: 4 if media_type == NDJSON else 3]):
        data = body(random.Random(seed), media_type)
        there = readers.read(stream(options), data, media_type + "; charset=utf-8", 5, BASE, ReadingBudget())
        assert everything(there) == everything(read_push(stream(options), data, media_type, 5, BASE))


def test_what_is_wrong_is_said_as_the_server_says_it(readers: PushReaders) -> None:
    good = body(random.Random(1), NDJSON)
    for wrong in (good + b"\n{", good + b'\n{"data": "<a:s> <a:p> ."}', b"\xff" * LONG_BYTES):
        with pytest.raises(BadData) as here:
            read_push(stream(), wrong, NDJSON, 5, BASE)
        with pytest.raises(BadData) as there:
            read(readers, wrong)
        assert (str(there.value), there.value.line) == (str(here.value), here.value.line)
    mixed = good + b'\n{"data": ""}'
    with pytest.raises(BadArgument, match="some elements of this push have a time"):
        readers.read(stream(), mixed, NDJSON, None, BASE, ReadingBudget())


def test_what_is_short_or_no_lines_or_needs_a_parser_is_read_here(
    readers: PushReaders, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: list[str] = []

    def noted(*arguments: Any) -> Elements:
        here.append(arguments[2])
        return read_push(*arguments)

    monkeypatch.setattr(push_readers, "read_push", noted)
    read(readers, b'{"data": ""}')
    read(readers, b"<a:s> <a:p> <a:o> .\n" * LONG_BYTES, TTL)
    long = {"@graph": [{"@id": f"a:s{number}", "a:p": "x" * 100} for number in range(200)]}
    assert len(read(readers, json.dumps({"data": long}).encode()).element) == 200
    assert here == [NDJSON, TTL, NDJSON]
    read(readers, body(random.Random(1), NDJSON))
    assert here == [NDJSON, TTL, NDJSON]


def test_a_process_that_dies_costs_no_push() -> None:
    readers, data = PushReaders(2), body(random.Random(2), NDJSON)
    expected = everything(read_push(stream(), data, NDJSON, 5, BASE))
    try:
        read(readers, data)
        (pid,) = readers.process_ids()
        os.kill(pid, signal.SIGSTOP)

        def kill() -> None:
            if pid in readers.process_ids():
                os.kill(pid, signal.SIGKILL)

        assert everything(read(readers, data, check=kill)) == expected  # it died while it was asked
        assert pid not in readers.process_ids()
        assert everything(read(readers, data)) == expected
        (later,) = readers.process_ids()
        os.kill(later, signal.SIGKILL)  # it dies while it waits
        assert everything(read(readers, data)) == expected
    finally:
        readers.close()
    assert readers.process_ids() == []
    assert everything(read(readers, data)) == expected  # by the server itself


def test_a_process_that_hangs_is_ended_when_nobody_waits_any_more() -> None:
    readers, data = PushReaders(1), body(random.Random(3), NDJSON)
    try:
        read(readers, data)
        (pid,) = readers.process_ids()
        os.kill(pid, signal.SIGSTOP)
        checks = 0

        def check() -> None:
            nonlocal checks
            checks += 1
            if checks == 3:
                raise DeadlineExceeded("it took too long")

        with pytest.raises(DeadlineExceeded):
            read(readers, data, check=check)
        until(lambda: not Path(f"/proc/{pid}").exists(), "the process has ended")
        read(readers, data)
        assert len(readers.process_ids()) == 1
    finally:
        readers.close()


def test_a_service_reads_long_pushes_so_and_leaves_no_process(tmp_path: Path) -> None:
    lines = [{"timestamp": time, "data": f"<http://ex/a{time % 7}> <http://ex/p> {time % 3} ."} for time in range(900)]
    data = "\n".join(json.dumps(line).replace(" 0 .", ' \\"0\\" .') for line in lines)
    data = data.replace(" 1 .", ' \\"1\\" .').replace(" 2 .", ' \\"2\\" .')
    found = []
    for count in (0, 1):
        with opened(tmp_path / str(count), limits=Limits(push_readers=count)) as service:
            service.create_stream("s", {})
            service.register(registration(window="RANGE PT0.3S STEP PT0.1S"))
            service.push("s", data.encode(), NDJSON, wait="evaluated")
            found.append(emissions_of(service))
            pids = service._opened.push_readers.process_ids()
            assert len(pids) == count
    assert found[0] == found[1] and len(found[0]) > 3
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "no process is left")


def test_a_push_of_usual_length_does_not_wait_until_longer_ones_have_been_read() -> None:
    """All processes may be busy for many seconds."""
    readers = PushReaders(1)
    data = body(random.Random(5), NT)
    assert LONG_BYTES < len(data) < push_readers._PATIENT_BYTES
    give_up_s = time.monotonic() + 30

    def check() -> None:
        if time.monotonic() > give_up_s:
            raise DeadlineExceeded("it waits for a process")

    try:
        elements = read(readers, data, NT)
        busy = readers._idle.pop()
        readers._busy.add(busy)
        assert everything(read(readers, data, NT, check)) == everything(elements)
        readers._give_back(busy, is_well=True)
    finally:
        readers.close()
