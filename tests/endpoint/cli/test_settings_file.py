"""A settings file gives flags their defaults; flags and the environment take precedence; mistakes are named."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from endpoint.cli.command_line import main
from endpoint.serve import ServeSettings


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[ServeSettings]:
    """The settings of each `rillet serve`, which starts nothing."""
    found: list[ServeSettings] = []
    monkeypatch.setattr("endpoint.serve.serve", lambda settings, announce: found.append(settings))
    return found


def write(text: str, path: str = "rillet.toml") -> Path:
    file = Path(path)
    file.write_text(text)
    file.chmod(0o600)
    return file


def test_the_file_of_the_current_folder_is_read_and_named(
    served: list[ServeSettings], capsys: pytest.CaptureFixture[str]
) -> None:
    write('port = 8123\nretain-emissions = "1d"\nbatch_ms = 50\nspark-ui = true\n')
    assert main(["serve"]) == 0
    (settings,) = served
    assert (settings.port, settings.retain_emissions_s, settings.batch_ms) == (8123, 86_400.0, 50)
    assert settings.spark_conf["spark.ui.enabled"] == "true"
    assert capsys.readouterr().out.splitlines()[0] == "settings of rillet.toml"


def test_no_setting_knows_where_it_was_written(served: list[ServeSettings], monkeypatch: pytest.MonkeyPatch) -> None:
    """A value that knows its place is no plain text: it cannot be copied or encoded."""
    write('store = "lmdb:here"\n')
    monkeypatch.setenv("RILLET_TOKEN", "secret")
    assert main(["serve"]) == 0
    assert type(served[0].store) is str
    assert type(served[0].token) is str


def test_a_flag_precedes_a_variable_and_a_variable_the_file(
    served: list[ServeSettings], monkeypatch: pytest.MonkeyPatch
) -> None:
    write('host = "127.0.0.2"\nport = 1\nbatch-ms = 1\n')
    monkeypatch.setenv("RILLET_PORT", "2")
    monkeypatch.setenv("RILLET_BATCH_MS", "2")
    assert main(["serve", "--batch-ms", "3"]) == 0
    assert (served[0].host, served[0].port, served[0].batch_ms) == ("127.0.0.2", 2, 3)


@pytest.mark.parametrize("given", [["serve", "--config", "other.toml"], ["serve", "--config=other.toml"]])
def test_another_file_is_read_instead(served: list[ServeSettings], given: list[str]) -> None:
    write("port = 1\n")
    write("port = 2\n", "other.toml")
    assert main(given) == 0
    assert served[0].port == 2


def test_the_variable_names_a_file(served: list[ServeSettings], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RILLET_CONFIG", str(write("port = 2\n", "other.toml")))
    assert main(["serve"]) == 0
    assert served[0].port == 2


def test_a_flag_that_may_be_repeated_is_a_list(served: list[ServeSettings]) -> None:
    write(
        'attach = ["http://a.example/sparql", "b=http://b.example/sparql"]\nallowed-host = ["a.example", "b.example"]\n'
    )
    assert main(["serve"]) == 0
    assert [(source.name, source.url) for source in served[0].sources] == [
        ("main", "http://a.example/sparql"),
        ("b", "http://b.example/sparql"),
    ]
    assert served[0].allowed_hosts == ("a.example", "b.example")


def test_each_value_of_a_list_is_given_by_itself(served: list[ServeSettings], tmp_path: Path) -> None:
    logins = [tmp_path / "login of main", tmp_path / "login of b"]
    for login in logins:
        login.write_text("user:password")
        login.chmod(0o600)
    write(
        'attach = ["http://a.example/sparql", "b=http://b.example/sparql"]\n'
        f'attach-auth = ["{logins[0]}", "b={logins[1]}"]\n'
        'spark-conf = ["spark.driver.extraJavaOptions=-Da=1 -Db=2", "spark.ui.port=4041"]\n'
    )
    assert main(["serve"]) == 0
    assert [source.authorization for source in served[0].sources] == ["user:password", "user:password"]
    assert served[0].spark_conf["spark.driver.extraJavaOptions"] == "-Da=1 -Db=2"
    assert served[0].spark_conf["spark.ui.port"] == "4041"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('read_token = "a"\nread-token = "b"\n', "rillet.toml: read_token and read-token are the same setting"),
        ("prot = 1\n", "rillet.toml: there is no setting 'prot'; did you mean port?"),
        ('port = "x"\n', "rillet.toml, port: 'x' is not a whole number"),
        ("port = [1]\n", "rillet.toml, port: give one value, not a list"),
        ("port = 2026-11-19\n", "rillet.toml, port: write a text, a number or true, not a date"),
        ("[spark]\nconf = 1\n", "rillet.toml: there is no setting 'spark'"),
        ("port = 1 2\n", "line 1, column 10"),
        ("config = 'a'\n", "there is no setting 'config'"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    write(text)
    with pytest.raises(SystemExit) as ended:
        main(["serve"])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "mode", "says"),
    [
        ("port = 1\n", 0o660, "chmod go-w rillet.toml"),
        ("port = 1\n", 0o602, "chmod go-w rillet.toml"),
        ('token = "x"\n', 0o640, "chmod 600 rillet.toml"),
        ('read_token = "x"\n', 0o604, "chmod 600 rillet.toml"),
        ('spark-conf = "spark.authenticate.secret=x"\n', 0o604, "chmod 600 rillet.toml"),
    ],
)
def test_a_file_that_others_can_write_or_whose_secrets_they_can_read_is_rejected(
    text: str, mode: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(text).chmod(mode)
    with pytest.raises(SystemExit) as ended:
        main(["serve"])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


def test_a_file_that_does_not_exist_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--config", "nowhere.toml"])
    assert "nowhere.toml: this file does not exist" in capsys.readouterr().err


def test_a_mistake_in_a_variable_is_named_with_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RILLET_PORT", "x")
    with pytest.raises(SystemExit):
        main(["serve"])
    assert "RILLET_PORT: 'x' is not a whole number" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("port = " + "9" * 5000, "digits"),
        ("port = " + "[" * 5000 + "]" * 5000, "too many"),
        ("a" + ".a" * 50_000 + " = 1", "at most 64 KiB"),
    ],
)
def test_a_file_that_is_hard_to_read_is_a_mistake_like_others(
    text: str, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(text)
    with pytest.raises(SystemExit) as ended:
        main(["serve"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("rillet: rillet.toml: ") and why in said


def _refused(path: Path, *_: str) -> None:
    raise PermissionError(13, "Permission denied", str(path))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (Path.mkdir, "no file"),
        (lambda path: path.symlink_to("nowhere"), "a link to none"),
        (lambda path: os.mkfifo(path), "no file"),
    ],
)
def test_what_is_no_file_is_not_passed_over(
    make: Callable[[Path], None], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    make(Path("rillet.toml"))
    with pytest.raises(SystemExit) as ended:
        main(["serve"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("rillet: rillet.toml: ") and why in said


def test_a_file_that_may_not_be_read_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write("port = 1\n")
    monkeypatch.setattr(Path, "open", _refused)
    with pytest.raises(SystemExit):
        main(["serve"])
    assert capsys.readouterr().err.startswith("rillet: Permission denied: rillet.toml")
