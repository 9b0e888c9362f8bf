"""A real browser for tests: the Chromium of this machine, driven by Playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

from tests.parts.missing import missing

NAMES = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def executable() -> str:
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        missing("BROWSER", f"none of {', '.join(NAMES)} is on the path (apt-get install chromium)")
    return found


@contextmanager
def browser(*arguments: str) -> Iterator[Browser]:
    path = executable()
    with sync_playwright() as playwright:
        # Without a sandbox of its own, for a container runs all as root.
        running = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", *arguments])
        try:
            yield running
        finally:
            running.close()
