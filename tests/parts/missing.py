"""A part that tests need and that is not on this machine: one loud skip, and in continuous integration a failure."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def missing(what: str, why: object) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"NO {what}, AND THIS IS CI: {why}")
    pytest.skip(f"NO {what}: {why}")
