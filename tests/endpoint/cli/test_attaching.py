"""`rillet serve --attach`: which sources a command line means, and that no secret is shown."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from endpoint.cli import attaching
from endpoint.cli.flags import UsageError
from stream_ext.child_environment import environment
from stream_ext.remote.source import SourceSettings

URL = "http://127.0.0.1:3030/ds/sparql"


def settings(*words: str, **environ: str) -> dict[str, SourceSettings]:
    parser = argparse.ArgumentParser()
    attaching.add(parser.add_argument_group())
    return {each.name: each for each in attaching.settings(parser.parse_args(words), environ)}


def test_without_a_name_a_source_is_main() -> None:
    assert settings("--attach", URL) == {"main": SourceSettings("main", URL)}
    assert settings() == {}


def test_each_flag_may_name_its_source() -> None:
    found = settings(
        "--attach", URL, "--attach", f"bio={URL}?db=x", "--attach-update", "bio=http://h/update", "--attach-refresh",
        "5s", "--attach-mode", "bio=ask", "--attach-changed", "http://ex/changed", "--attach-default", "union",
    )  # fmt: skip
    assert found["main"] == SourceSettings("main", URL, refresh_s=5.0, changed="http://ex/changed", default="union")
    bio = SourceSettings("bio", f"{URL}?db=x", update_url="http://h/update", refresh_s=5.0, mode="ask")
    assert found["bio"] == bio


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("--attach", URL, "--attach", URL), "two are without a name"),
        (("--attach", f"a={URL}", "--attach", f"a={URL}"), "called 'a'"),
        (("--attach", URL, "--attach-mode", "bio=ask"), "no source is called 'bio'"),
        (("--attach", f"bio={URL}", "--attach-update", URL), "no source is called 'main'"),
    ],
)
def test_what_concerns_no_source_or_two_is_refused(words: tuple[str, ...], expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        settings(*words)


def test_secrets_come_from_files_and_the_environment(tmp_path: Path) -> None:
    (tmp_path / "auth").write_text("ann:secret\nmore\n")
    found = settings(
        "--attach", URL, "--attach", f"my-bio={URL}", "--attach-auth", str(tmp_path / "auth"),
        RILLET_ATTACH_AUTH_MY_BIO="Bearer abc",
    )  # fmt: skip
    assert found["main"].authorization == "ann:secret"
    assert found["my-bio"].authorization == "Bearer abc"
    assert "secret" not in repr(found["main"])
    assert environment({"RILLET_ATTACH_AUTH": "x", "RILLET_ATTACH_AUTH_MY_BIO": "y", "HOME": "/"}) == {"HOME": "/"}


def test_an_address_with_a_password_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        settings("--attach", "http://ann:secret@h/sparql")
    assert "--attach-auth FILE" in capsys.readouterr().err
