"""Completion for shells: commands, flags, and values that are choices, files or stores."""

from __future__ import annotations

import argparse

import shtab

from endpoint.cli.flags import OneOf, actions_of

_STORES = {
    "preamble": {
        "bash": """
_rillet_stores() {
  compgen -P lmdb: -d -- "$1"  # a store is a folder
  compgen -W "lmdb: hbase://" -- "$1"
}
"""
    },
    "bash": "_rillet_stores",
    "zsh": shtab.DIRECTORY["zsh"],
    "tcsh": shtab.DIRECTORY["tcsh"],
}


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    for action in actions_of(parser):
        if isinstance(action.type, OneOf):
            action.choices = action.type.values
        elif action.metavar == "FILE" or action.dest == "file":
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # where shtab looks for it
        elif action.dest == "store":
            action.complete = _STORES  # type: ignore[attr-defined]  # where shtab looks for it
    return str(shtab.complete(parser, shell))
