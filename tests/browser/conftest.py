"""Debian's Chromium, or any other that is on the path, driven by Playwright."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.watched import Watched

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
OFF = ("quic", "background-networking", "component-update", "sync")


@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """Start the browser once; skip where there is none.

    While it is open an event loop runs, and no test could start one of its own; so it ends with
    the tests of this folder.
    """
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        pytest.skip(f"needs one of {', '.join(NAMES)}: apt-get install chromium")
    with sync_playwright() as playwright:
        switches = ["--no-first-run", *(f"--disable-{name}" for name in OFF)]
        browser = playwright.chromium.launch(
            executable_path=found, chromium_sandbox=False, args=switches
        )
        yield browser
        browser.close()


@contextmanager
def offline(chromium: Browser) -> Iterator[Watched]:
    """Open a tab of 1280 by 900 pixels without a network, watched from the start."""
    with chromium.new_context(
        offline=True, viewport={"width": 1280, "height": 900}, service_workers="block"
    ) as context:
        context.set_default_timeout(10_000)
        yield Watched.watch(context.new_page())


@pytest.fixture
def watched(chromium: Browser) -> Iterator[Watched]:
    with offline(chromium) as tab:
        yield tab
