"""Late elements outlive the server: how many there were, and which."""

from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path

from hbase_store import open as open_store
from stream_ext.upkeep.late_elements import Late, LateElements
from stream_ext.upkeep.late_log import LateLog
from tests.stream_ext.opened import opened, push, push_lines, registration, triple


def test_after_a_restart_late_elements_are_counted_and_read_back_as_before(tmp_path: Path) -> None:
    with opened(tmp_path) as service:
        service.create_stream("s", {"retention": "1h"})
        service.register(registration("narrow", window="RANGE 1s STEP 1s"))
        service.register(registration("wide", window="RANGE 5s STEP 5s"))
        push(service, "s", 500, triple("a", 1))
        push(service, "s", 2500, triple("a", 1))
        push_lines(
            service, "s", {"timestamp": 1900, "data": triple("b", 2)}, {"timestamp": 2600, "data": triple("c", 3)}
        )
        push(service, "s", 1800, triple("d", 4))
        before = service.late_elements("s")
        assert (before["late"], [e["timestamp"] for e in before["elements"]]) == (2, [1900, 1800])
    with opened(tmp_path) as service:
        assert service.late_elements("s") == before
        assert service.stream_status("s")["late"] == 2
        assert [service.query_status(name)["late"] for name in ("narrow", "wide")] == [2, 0]
        assert push(service, "s", 5500, triple("e", 5)).late == 0
        assert push(service, "s", 100, triple("f", 6)).late == 1
        found = service.late_elements("s")
        assert (found["late"], [e["queries"] for e in found["elements"]][-1]) == (3, ["narrow", "wide"])
        assert [
            e["timestamp"] for e in service.late_elements("s", since=before["elements"][0]["snapshot"])["elements"]
        ] == [
            1800,
            100,
        ]
    with opened(tmp_path) as service:
        assert service.late_elements("s") == found
        assert [service.query_status(name)["late"] for name in ("narrow", "wide")] == [3, 1]
        for name in ("narrow", "wide"):
            service.drop_query(name)
        service.drop_stream("s")
        service.create_stream("s", {})
        assert service.late_elements("s") == {"stream": "s", "late": 0, "elements": []}


def test_what_was_acknowledged_before_a_kill_is_known_after_it(tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        try:
            with opened(tmp_path) as service:
                service.register(registration(window="RANGE 1s STEP 1s"))
                push(service, "s", 500, triple("a", 1))
                push(service, "s", 2500, triple("a", 1))
                push(service, "s", 100, triple("b", 2))
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    with opened(tmp_path) as service:
        assert service.late_elements("s")["late"] == 1
        assert [e["timestamp"] for e in service.late_elements("s")["elements"]] == [100]


def test_rows_that_the_latest_elements_do_not_need_are_let_go(tmp_path: Path) -> None:
    store = open_store(f"lmdb:{tmp_path / 'store'}")
    log = LateLog(store.kv, retained_max=5)
    for sn in range(1, 8):
        log.add(1, [Late(sn, 0, element, sn, (4,)) for element in range(2)], 2 * sn, {4: 2 * sn})
    log.add(2, [Late(9, 0, element, 9, (4,)) for element in range(8)], 8, {4: 8})
    elements, counted = LateElements(retained_max=5), Counter[tuple[int, int]]()
    LateLog(store.kv, retained_max=5).read(elements, counted)
    assert [(late.sn, late.element) for late in elements.retained(1)] == [(5, 1), (6, 0), (6, 1), (7, 0), (7, 1)]
    assert (elements.counted(1), elements.counted(2), counted) == (14, 8, {(1, 4): 14, (2, 4): 8})
    assert [late.element for late in elements.retained(2)] == [3, 4, 5, 6, 7]
    assert len(list(store.kv.scan("meta", b"late/", b"late0"))) == 4
    log.forget(1)
    assert len(list(store.kv.scan("meta", b"late/", b"late0"))) == 1
    store.close()
