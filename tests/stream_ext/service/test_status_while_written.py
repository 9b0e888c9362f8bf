"""Status is asked for by other threads than the one that writes: what it looks at may change under its eyes."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pytest

from stream_ext.service.status import query_status, stream_status
from stream_ext.upkeep.stream_history import StreamHistory
from tests.stream_ext.opened import EX, opened, registration

BUILT = (
    f"PREFIX : <{EX}> REGISTER RSTREAM built AS CONSTRUCT {{ ?x :q ?y }} "
    "FROM NAMED WINDOW :w ON s [RANGE PT3S STEP PT1S] WHERE { WINDOW :w { ?x :p ?y } }"
)


def test_a_query_that_is_dropped_while_it_is_listed_has_a_status(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.register(BUILT)
        service.register(registration())
        queries, streams = service.queries(), service.streams()
        for query in queries:
            service.drop_query(query.name)
        for stream in service.streams():
            service.drop_stream(stream.name)
        assert [query_status(query, service._injector, service._engine, 0)["streams"] for query in queries] == [[], []]
        assert [stream_status(stream, service._injector, service._engine)["query"] for stream in streams] == [
            None,
            None,
        ]


@contextmanager
def threads_that_take_turns() -> Iterator[threading.Event]:
    """Another thread may run at any instruction, and whenever an object is made (which may start the collector)."""
    before, collected, over = sys.getswitchinterval(), gc.get_threshold(), threading.Event()

    def noticed(phase: str, info: dict[str, int]) -> None:
        """Python's own code, at whose instructions threads change."""

    sys.setswitchinterval(1e-6)
    gc.set_threshold(20)
    gc.callbacks.append(noticed)
    try:
        yield over
    finally:
        over.set()
        gc.callbacks.remove(noticed)
        gc.set_threshold(*collected)
        sys.setswitchinterval(before)


@pytest.mark.parametrize("what", ["late", "kept"])
def test_counters_are_summed_while_they_grow(tmp_path: Path, what: str) -> None:
    with opened(tmp_path) as service, threads_that_take_turns() as over:
        service.register(registration())
        lateness, retained = service._engine.lateness, service._engine.retention._histories

        def grow() -> None:
            for number in count():
                if over.is_set():
                    return
                if what == "late":
                    lateness.counted[number % 1_000, number] += 1
                else:
                    retained[number + 100] = StreamHistory()
                if number % 1_000 == 999:
                    lateness.counted.clear()
                    retained.clear()

        growing = threading.Thread(target=grow)
        growing.start()
        for _ in range(3_000):
            service.query_status("q") if what == "late" else service.status()
        over.set()
        growing.join()
