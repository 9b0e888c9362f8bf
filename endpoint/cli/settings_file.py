"""The settings file: flags, written once. Its keys are the names of the flags without their dashes:

    store = "lmdb:data"
    port = 8080
    retain-emissions = "1d"
    attach = ["http://127.0.0.1:3030/ds/sparql"]

A flag takes precedence over a variable of the environment, and a variable over the file. Without `--config`, the
commands read `rillet.toml` of the current folder, if there is one."""

from __future__ import annotations

import os
import re
import stat
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from endpoint.cli.flags import CONFIG, Parser, Preset, Several, UsageError, actions_of, is_setting, meant, no_such_file

USUAL = "rillet.toml"
_VARIABLE = "RILLET_CONFIG"
_SECRETS = ("token", "read-token")
_SECRET_OF_SPARK = re.compile("secret|password|token", re.IGNORECASE)
#: A file of settings is short; of others the time to read them grows faster than their length.
_BYTES_MAX = 1 << 16


@dataclass(frozen=True, slots=True)
class SettingsFile:
    path: Path
    values: dict[str, Any]

    def set_defaults(self, parser: Parser) -> None:
        """Makes what the file says the defaults of all commands that have these settings, except where the environment
        says otherwise. UsageError for a key that is no setting of any command."""
        settings = [action for action in actions_of(parser) if is_setting(action)]
        known = {action.option_strings[0].removeprefix("--"): action for action in settings}
        for key in self.values.keys() - known.keys():
            raise UsageError(f"{self.path}: there is no setting {key!r}{meant(key, list(known))}")
        for action in settings:
            key = action.option_strings[0].removeprefix("--")
            given = isinstance(action.default, Preset)
            if key in self.values and not given:
                action.default = Preset(f"{self.path}, {key}", *self._texts(key, isinstance(action, Several)))

    def _texts(self, key: str, several: bool) -> list[str]:
        """The value as a flag would have it; of a list each value, as the flag given several times."""
        value = self.values[key]
        if isinstance(value, list) and not several:
            raise UsageError(f"{self.path}, {key}: give one value, not a list")
        return [_one(each, f"{self.path}, {key}") for each in (value if isinstance(value, list) else [value])]


def find_settings(argv: Sequence[str], environ: Mapping[str, str]) -> SettingsFile | None:
    """The file that `--config` or RILLET_CONFIG names, else rillet.toml of this folder; None: there is none."""
    named = _named(argv) or environ.get(_VARIABLE)
    path = Path(named or USUAL)
    if not path.is_file():
        if named:
            raise no_such_file(named)
        if os.path.lexists(path):
            raise UsageError(f"{path}: this is no file, or a link to none: nothing is read from it")
        return None
    with path.open("rb") as file:
        _check_owner(path, os.fstat(file.fileno()))
        values = _parsed(path, file.read(_BYTES_MAX + 1))
        found = SettingsFile(path, _with_dashes(path, values))
        _check_secrets(found, os.fstat(file.fileno()))
    return found


def _parsed(path: Path, content: bytes) -> dict[str, Any]:
    if len(content) > _BYTES_MAX:
        raise UsageError(f"{path}: a settings file has at most {_BYTES_MAX // 1024} KiB")
    try:
        return tomllib.loads(content.decode())
    except RecursionError:
        raise UsageError(f"{path}: lists or tables in each other are too many") from None
    except ValueError as error:  # of TOML, of UTF-8, or a number with too many digits
        raise UsageError(f"{path}: {error}") from None


def _with_dashes(path: Path, values: Mapping[str, Any]) -> dict[str, Any]:
    """read_token is read-token, too; but only one of them may be there."""
    spelt: dict[str, str] = {}
    for key in values:
        if (before := spelt.setdefault(key.replace("_", "-"), key)) != key:
            raise UsageError(f"{path}: {before} and {key} are the same setting: delete one")
    return {name: values[key] for name, key in spelt.items()}


def _named(argv: Sequence[str]) -> str | None:
    """The value of --config, before the command line is parsed: the file gives the flags their defaults."""
    for place, each in enumerate(argv):
        if each == "--":
            break
        flag, equals, value = each.partition("=")
        if flag == CONFIG:
            return value if equals else next(iter(argv[place + 1 :]), None)
    return None


def _check_owner(path: Path, status: os.stat_result) -> None:
    """A file that somebody else could have written may start anything, for example by a setting of Spark."""
    if status.st_uid not in (os.getuid(), 0):
        raise UsageError(f"{path}: this settings file belongs to another user; copy it, or name another by {CONFIG}")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UsageError(f"{path}: other users may write this settings file: chmod go-w {path}")


def _check_secrets(found: SettingsFile, status: os.stat_result) -> None:
    secrets = [key for key in _SECRETS if key in found.values]
    if _SECRET_OF_SPARK.search(str(found.values.get("spark-conf", ""))):
        secrets.append("secret in spark-conf")
    if secrets and status.st_mode & (stat.S_IRGRP | stat.S_IROTH):
        raise UsageError(f"{found.path}: it has a {secrets[0]}, and other users may read it: chmod 600 {found.path}")


def _one(value: object, where: str) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, (str, int, float)):
        return str(value)
    raise UsageError(f"{where}: write a text, a number or true, not a {type(value).__name__}")
