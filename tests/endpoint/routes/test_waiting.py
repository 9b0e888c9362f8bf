"""wait=evaluated: who waits for more than is evaluated in time is told so; and holds up nobody who does not wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from endpoint.limits import HttpLimits
from stream_ext.continuous.catching_up.turns import TurnLimits
from tests.endpoint.live import live

NOW = 1_000_000_000_000
ENDLESS = """PREFIX ex: <http://ex/> REGISTER RSTREAM endless AS SELECT ?taxi
FROM NAMED WINDOW ex:w ON STREAM taxis [RANGE P36500D STEP PT0.001S] WHERE { WINDOW ex:w { ?taxi ex:in ?zone } }"""


@pytest.mark.timeout(120)
def test_what_is_not_evaluated_in_time_is_pending_and_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TurnLimits, "with_all", TurnLimits.behind)
    with live(tmp_path, limits=HttpLimits(writers=1, waiters=1, waiting=0), evaluated_s=1.0) as running:
        running.register(ENDLESS).raise_for_status()
        assert "pending" not in running.push(0).json()
        pushed = running.push(NOW)
        assert (pushed.status_code, pushed.json()["pending"]) == (202, True)
        beat = running.http.post(f"/streams/taxis/heartbeat?timestamp={NOW + 1}&wait=evaluated")
        assert (beat.status_code, beat.json()["pending"]) == (202, True)
        updated = running.http.post(
            "/update", data={"update": "INSERT DATA { <http://ex/a> <http://ex/b> 1 }", "wait": "evaluated"}
        )
        assert updated.status_code == 202
        assert updated.json() == {"snapshot": running.service.head(), "pending": True}
        put = running.http.put(
            "/data?default&wait=evaluated",
            content="<http://ex/a> <http://ex/b> 2 .",
            headers={"content-type": "text/turtle"},
        )
        assert (put.status_code, put.json()["pending"]) == (202, True)
        assert running.http.post("/sparql", data={"query": "ASK { <http://ex/a> <http://ex/b> 2 }"}).json()["boolean"]
        assert running.http.get("/queries/endless").json()["behind"]["snapshot"] == pushed.json()["snapshot"]
        assert running.http.delete("/queries/endless").status_code == 204
        assert "pending" not in running.push(NOW + 10).json()
