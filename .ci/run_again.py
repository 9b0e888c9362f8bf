"""Runs the tests again that failed in the last run, one after the other with nothing beside them; each must pass.

A machine that others share may give a process no time for seconds, and a test that waits for it then fails. What fails
here once more, or more than five tests, is a failure. The names are printed: each is a defect to be looked into."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
TESTS_MAX = 5


def main() -> int:
    failed = list(json.loads(LAST_FAILED.read_text())) if LAST_FAILED.exists() else []
    tests = [re.sub(r"@[\w-]+$", "", name) for name in failed]  # xdist appends the name of the group
    print(f"failed beside others: {len(tests)}", *tests, sep="\n  ", flush=True)
    if not 1 <= len(tests) <= TESTS_MAX or any("::" not in name for name in tests):
        return 1
    return subprocess.run([sys.executable, "-m", "pytest", *tests], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
