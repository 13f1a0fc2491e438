"""The project's Markdown pages: their commands, links, headings and tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "python3 run.py"
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
INLINE = re.compile(r"`([^`\n]+)`")
KEY = re.compile(r"^\| `([^`]+)` \|", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")
VARIABLES = r'(?:[A-Z_]+=(?:"[^"]*"|\S+) +)*'
TYPED = re.compile(rf"(?=.*run\.py){VARIABLES}(?:python3 run\.py|\S+\.sh)(?=\s|$)")
ASSIGNED = re.compile(r"[A-Z_]+=")
CONTINUED = re.compile(r" *\\\n\s*")


@dataclass(frozen=True, slots=True)
class Page:
    """One Markdown file."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.relative_to(ROOT).as_posix()

    @property
    def text(self) -> str:
        return self.path.read_text(encoding="utf-8")

    def commands(self) -> Iterator[str]:
        """Yield every command line: those on lines of their own, and those in backticks.

        A variable may stand before it, and a line that ends in a backslash goes on in the next.
        """
        for line in CONTINUED.sub(" ", self.text).splitlines():
            if TYPED.match(line.strip()):
                yield line.strip()
        for quoted in INLINE.findall(FENCE.sub("", self.text)):
            if quoted.startswith(COMMAND):
                yield quoted

    def links(self) -> Iterator[str]:
        """Yield the targets of links that lead into the project."""
        for target in LINK.findall(FENCE.sub("", self.text)):
            if "://" not in target:
                yield target

    def anchors(self) -> frozenset[str]:
        """Name the headings as a link names them."""
        headings = HEADING.findall(FENCE.sub("", self.text))
        plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
        return frozenset(heading.replace(" ", "-") for heading in plain)

    def section(self, heading: str) -> str:
        """Text below a heading, up to the next one of any level; empty where there is none."""
        parts = re.split(r"^(#+ .+)$", self.text, flags=re.MULTILINE)
        for head, body in zip(parts[1::2], parts[2::2], strict=True):
            if head.lstrip("# ") == heading:
                return body
        return ""

    def keys(self, heading: str) -> list[str]:
        """First column of the tables below a heading, where it stands in backticks."""
        return KEY.findall(self.section(heading))


def pages() -> tuple[Page, ...]:
    """Every page for people: those at the top, in docs, and in the folders."""
    found = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(path for path in ROOT.glob("*/README.md") if not path.parent.name.startswith(".")),
    ]
    return tuple(Page(path) for path in sorted(set(found)))


def page(name: str) -> Page:
    """Give the page of this path, from the project's folder."""
    return Page(ROOT / name)
