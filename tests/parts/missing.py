"""A part that tests need and that is not on this machine: one loud skip. In continuous integration a skip, of whatever
test and for whatever reason, is a failure."""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import NoReturn, TypeVar

import pytest

_Report = TypeVar("_Report", pytest.TestReport, pytest.CollectReport)


def missing(what: str, why: object) -> NoReturn:
    pytest.skip(f"NO {what}: {why}")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _no_skip((yield))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _no_skip((yield))


def _no_skip(report: _Report) -> _Report:
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", f"SKIPPED, AND THIS IS CI: {report.longrepr}"
    return report
