"""Pictures of the pages that the demo writes, for README and docs.

python3 run.py demo
python3 run.py python benchmarks/screenshots.py [--reports reports] [--out docs/images]

``report.png`` is the first screen of ``index.html``, ``explorer.png`` the query of ``explore.html``
that the last step of the policy loses most on, opened. Both are 1280 by 900 pixels, light, taken
without a network. A picture that a repository should not carry (200 KB) is an error.
"""

from __future__ import annotations

import argparse
import io
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LARGEST = 200_000
"""Bytes of a picture."""
COLOURS = 128
"""Of a picture; a page has few, and their edges."""


def first_screen(page: Page, reports: Path) -> None:
    """Open the decision."""
    page.goto((reports / "index.html").resolve().as_uri())


def largest_loss(page: Page, reports: Path) -> None:
    """Open the query that the last step loses most on, as one comes to it from ``index.html``."""
    page.goto((reports / "index.html").resolve().as_uri())
    page.locator(".card .foot a[href^='explore.html']").last.click()
    page.wait_for_selector("html[data-ready=all]")
    page.locator("#rows a").first.click()
    page.locator("#panel .ranking").first.wait_for()
    page.locator("#panel").evaluate("panel => panel.scrollIntoView()")


PICTURES: Mapping[str, Callable[[Page, Path], None]] = {
    "report.png": first_screen,
    "explorer.png": largest_loss,
}


def small(picture: bytes) -> bytes:
    """Write a picture again with a palette, which takes a third of the bytes."""
    written = io.BytesIO()
    Image.open(io.BytesIO(picture)).convert("RGB").quantize(COLOURS).save(
        written, format="PNG", optimize=True
    )
    return written.getvalue()


def take(browser: Browser, reports: Path, out: Path) -> None:
    """Write every picture.

    Raises:
        SystemExit: a page is not there, or a picture is too large.
    """
    missing = [name for name in ("index.html", "explore.html") if not (reports / name).is_file()]
    if missing:
        raise SystemExit(f"{reports}: no {' and no '.join(missing)}. Run: python3 run.py demo")
    out.mkdir(parents=True, exist_ok=True)
    with browser.new_context(
        offline=True, viewport={"width": 1280, "height": 900}, color_scheme="light"
    ) as context:
        for name, opened in PICTURES.items():
            page = context.new_page()
            opened(page, reports)
            picture = small(page.screenshot(animations="disabled"))
            if len(picture) > LARGEST:
                raise SystemExit(f"{name}: {len(picture):,} bytes, more than {LARGEST:,}")
            (out / name).write_bytes(picture)
            sys.stdout.write(f"{out / name}: {len(picture):,} bytes\n")


def main() -> None:
    """Take the pictures of a folder of reports."""
    asked = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    asked.add_argument("--reports", type=Path, default=Path("reports"))
    asked.add_argument("--out", type=Path, default=Path("docs/images"))
    said = asked.parse_args()
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        raise SystemExit(f"no browser on the path (looked for {', '.join(NAMES)})")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, chromium_sandbox=False)
        take(browser, said.reports, said.out)
        browser.close()


if __name__ == "__main__":
    main()
