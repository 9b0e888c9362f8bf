"""The settings that the console shows: each by a flag that there is, and no secret."""

from __future__ import annotations

from endpoint.monitoring.settings_in_force import settings_in_force
from endpoint.serve import ServeSettings
from tests.docs.pages import ROOT


def test_each_setting_has_a_flag() -> None:
    flags = {each.flag for each in settings_in_force(ServeSettings("lmdb:data"))}
    documented = (ROOT / "docs" / "reference" / "settings.md").read_text()
    assert [flag for flag in sorted(flags) if f"`{flag}`" not in documented] == []


def test_no_secret_is_shown_and_what_is_not_the_default_is_marked() -> None:
    settings = ServeSettings("lmdb:data", port=8001, token="s3cret", read_token="r3ad", tls_key="/etc/key.pem")
    found = settings_in_force(settings)
    shown = " ".join(f"{each.flag} {each.value}" for each in found)
    assert not any(secret in shown for secret in ("s3cret", "r3ad", "key.pem"))
    changed = {each.flag: each.value for each in found if not each.is_default}
    given = {"--token": "given", "--read-token": "given", "--tls-key": "given"}
    assert changed == {"--store": "lmdb:data", "--port": 8001, **given}


def test_units_are_those_of_the_flags() -> None:
    found = {each.flag: (each.value, each.unit) for each in settings_in_force(ServeSettings("lmdb:data"))}
    assert found["--retain-snapshots"] == (300.0, "s")
    assert found["--batch-ms"] == (100, "ms")
    assert found["--timing-bytes"] == (1 << 30, "bytes")
    assert found["--engine"] == ("spark", "")
