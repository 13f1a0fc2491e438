"""The project's Markdown pages: their commands, links, headings and tables."""

import io
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, chdir, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from harness.cli import main

ROOT = Path(__file__).resolve().parents[2]
COMMAND = "python3 run.py"
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
INLINE = re.compile(r"`([^`\n]+)`")
KEYS = re.compile(r"^\| (`[^`|]+`(?:, `[^`|]+`)*) \|", re.MULTILINE)
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
        """Return the names in backticks that fill a first cell of the tables below a heading."""
        cells = KEYS.findall(self.section(heading))
        return [name for cell in cells for name in INLINE.findall(cell)]


def pages() -> tuple[Page, ...]:
    """Every page for people: those at the top, in docs, and in the folders."""
    found = [
        *ROOT.glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(path for path in ROOT.glob("*/README.md") if not path.parent.name.startswith(".")),
    ]
    return tuple(Page(path) for path in sorted(set(found)))


def page(name: str) -> Page:
    """Return the page of this path, from the project's folder."""
    return Page(ROOT / name)


LONGEST_S = 60
NOT_OURS = ("GITHUB_", "SEARCH_ENGINE", "SHADOW_LOG")
"""Variables by which a command would do something else, or write elsewhere."""


class Said(NamedTuple):
    """What a command gave back."""

    code: int
    text: str


@dataclass(frozen=True)
class Shell:
    """Where commands are typed."""

    folder: Path

    def type(self, line: str, keys: str = "") -> Said:
        """Run one line of a page; ``keys`` is what is typed while it runs."""
        words = shlex.split(line, comments=True)
        if " ".join(words[:2]) == COMMAND and words[2] == "harness":
            return self._here(["harness", *words[3:]], main, keys)
        if " ".join(words[:3]) == f"{COMMAND} python" and words[3].endswith(".py"):
            script = words[3]
            return self._here(words[3:], lambda: runpy.run_path(script, run_name="__main__"), keys)
        with _quiet(self.folder, words, keys) as _:
            done = subprocess.run(
                ["bash", "-c", line],
                input=keys,
                capture_output=True,
                text=True,
                timeout=LONGEST_S,
                check=False,
            )
        return Said(done.returncode, done.stdout + done.stderr)

    def harness(self, *words: str) -> None:
        """Run a command that must be done."""
        said = self.type(shlex.join([*COMMAND.split(), "harness", *words]))
        if said.code:
            raise RuntimeError(f"harness {shlex.join(words)}: {said.code}\n{said.text}")

    def _here(self, words: Sequence[str], run: object, keys: str) -> Said:
        with _quiet(self.folder, words, keys) as shown:
            try:
                run()  # type: ignore[operator]
                code = 0
            except SystemExit as left:
                code = left.code if isinstance(left.code, int) else int(left.code is not None)
        return Said(code, shown.getvalue())


@contextmanager
def _quiet(folder: Path, words: Sequence[str], keys: str) -> Iterator[io.StringIO]:
    """Be in the folder, with these words on the command line, and catch what is shown."""
    shown = io.StringIO()
    kept = {key: value for key, value in os.environ.items() if not key.startswith(NOT_OURS)}
    with ExitStack() as stack:
        stack.enter_context(chdir(folder))
        stack.enter_context(mock.patch.dict(os.environ, kept, clear=True))
        stack.enter_context(mock.patch.object(sys, "argv", list(words)))
        stack.enter_context(mock.patch.object(sys, "stdin", io.StringIO(keys)))
        stack.enter_context(redirect_stdout(shown))
        stack.enter_context(redirect_stderr(shown))
        yield shown
