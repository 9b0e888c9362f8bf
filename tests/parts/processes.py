"""Children of tests: each ends with its test, however that goes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any


@contextmanager
def started(command: Sequence[object], **named: Any) -> Iterator[subprocess.Popen[Any]]:
    """A child. What still runs of it at the end, because the test failed or wants no more of it, is killed: `Popen` by
    itself would wait for it."""
    with subprocess.Popen([str(part) for part in command], **named) as child:
        try:
            yield child
        finally:
            child.kill()
