"""The environment of the processes that we start: ours without passwords and tokens."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

SECRETS = ("RILLET_TOKEN", "RILLET_READ_TOKEN", "RILLET_FROM_AUTH", "RILLET_ATTACH_AUTH")
#: With the name of a source behind it.
_SECRET_OF = "RILLET_ATTACH_AUTH_"


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if name not in SECRETS and not name.startswith(_SECRET_OF)}


def program_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """For a program of ours: the same modules as here, whether they are installed or lie in a checkout."""
    root = str(Path(__file__).parents[1])
    paths = os.pathsep.join(filter(None, (root, environ.get("PYTHONPATH"))))
    return environment(environ) | {"PYTHONPATH": paths}
