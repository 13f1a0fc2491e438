"""A page of the project as a person opens it: what it asked for, what it logged, what axe finds."""

from dataclasses import dataclass, field
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Dialog, Page, Request

GRAVE = {"serious", "critical"}
EXECUTED = "window.executed === undefined"
"""Hostile data set ``window.executed``; nobody else does."""


@dataclass(frozen=True, slots=True)
class Watched:
    """One tab and everything that it did."""

    page: Page
    requests: list[str] = field(default_factory=list)
    """Addresses asked for, but the one that was opened."""
    logged: list[str] = field(default_factory=list)
    """Lines of the console, errors of scripts, and dialogs."""

    @classmethod
    def watch(cls, page: Page) -> "Watched":
        """Note all that a tab does from now on."""
        watched = cls(page)

        def asked(request: Request) -> None:
            if not (request.is_navigation_request() and request.url.startswith("file:")):
                watched.requests.append(request.url)

        def spoke(dialog: Dialog) -> None:
            watched.logged.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        page.on("request", asked)
        page.on("console", lambda message: watched.logged.append(message.text))
        page.on("pageerror", lambda error: watched.logged.append(str(error)))
        page.on("dialog", spoke)
        return watched

    def open(self, file: Path, fragment: str = "") -> Page:
        """Open a file as a person would who has only the file."""
        self.page.goto(file.resolve().as_uri() + fragment)
        return self.page

    def grave(self, *rules: str) -> list[str]:
        """Name what axe-core calls serious or critical, with the first place of each.

        ``rules`` are those to look at, as axe-core calls them; without any, all.
        """
        options = {"resultTypes": ["violations"], **({"runOnly": rules} if rules else {})}
        found = Axe().run(self.page, options=options).response["violations"]
        return [
            f"{one['id']}: {one['help']} ({one['nodes'][0]['html'][:200]})"
            for one in found
            if one["impact"] in GRAVE
        ]

    def quiet(self) -> bool:
        """Whether nothing was asked for, nothing was logged and no hostile text ran."""
        return not self.requests and not self.logged and bool(self.page.evaluate(EXECUTED))

    def overflow(self) -> int:
        """Pixels by which the page is wider than its window."""
        wider: int = self.page.evaluate(
            "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
        return wider
