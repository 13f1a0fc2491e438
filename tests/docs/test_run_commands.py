"""Every command of every page is run, in the order of its page, in a small project.

What cannot be run is in ``tests/docs/tables.py`` with the reason and the test that does the same.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import chdir, nullcontext
from dataclasses import dataclass, field
from itertools import dropwhile
from pathlib import Path
from typing import TypeVar

import pytest
from mkdocs.commands.build import build
from mkdocs.config import load_config

from benchmarks.simulate import TABLES
from tests import once_a_process
from tests.cli.owned import command_tree, leaves
from tests.docs.pages import ASSIGNED, COMMAND, ROOT, pages
from tests.docs.shell import Said, Shell
from tests.docs.tables import (
    BEFORE,
    CODES,
    ELSEWHERE,
    FILLED,
    KEYS,
    LONGER,
    MAKES,
    MOST_ARMS,
    ONLY_HELP,
    SHADOW,
    SMALLER,
)
from tests.docs.world import World

pytestmark = [
    pytest.mark.usefixtures("read_once", "derived_once"),
    pytest.mark.slow,
]
CAPITALS = re.compile(r"[A-Z][A-Z_@]+")
NAMED = "NAME"
T = TypeVar("T")


class NotFilled(LookupError):
    """A word in capitals of which nothing is said."""


def after(line: str) -> str:
    """Return what follows ``python3 run.py``; of a script, the script."""
    words = list(dropwhile(ASSIGNED.match, shlex.split(line, comments=True)))
    return shlex.join(words).removeprefix(COMMAND).strip()


def row(table: Mapping[str, T], line: str) -> tuple[str, T] | None:
    """Give the longest key that the line begins with, word by word, and its entry."""
    said = after(line)
    fits = [key for key in table if said == key or (key and f"{said} ".startswith(f"{key} "))]
    best = max(fits, key=len, default=None)
    return None if best is None else (best, table[best])


@dataclass
class Filling:
    """Fills the lines of one page; each ``--name NAME`` is another name, for each is kept."""

    names: list[str] = field(default_factory=list)

    def filled(self, line: str) -> str:
        """Fill words in capitals and put small numbers in the place of large ones.

        Raises:
            NotFilled: a word in capitals is not in the table.
        """
        if f"--name {NAMED}" in line:
            self.names.append(f"{FILLED[NAMED]}{len(self.names)}")
        words = [self._word(word) for word in shlex.split(line, comments=True)]
        small = row(SMALLER, line)
        for option, value in small[1].items() if small else ():
            if option in words:
                words[words.index(option) + 1] = value
            else:
                words += [option, value]
        if "--arms" in words:
            at = words.index("--arms") + 1
            words[at] = ",".join(_few(words[at].split(","), words))
        return shlex.join(words)

    def _word(self, word: str) -> str:
        return "/".join(self._part(part, word) for part in word.split("/"))

    def _part(self, part: str, word: str) -> str:
        if not CAPITALS.fullmatch(part):
            return part
        if part == NAMED and self.names:
            return self.names[-1]
        if part not in FILLED:
            raise NotFilled(f"{word}: say in tests/docs/tables.py, FILLED, what {part} stands for")
        return FILLED[part]


def _few(arms: list[str], words: list[str]) -> list[str]:
    """Keep the first arms, and the control wherever it stands."""
    control = words[words.index("--control") + 1] if "--control" in words else ""
    return [arm for at, arm in enumerate(arms) if at < MOST_ARMS or arm == control]


LINES = [(page.name, line) for page in pages() for line in page.commands()]
TYPED = {
    page.name: [line for line in page.commands() if not row(ELSEWHERE, line)] for page in pages()
}
DONE = frozenset({0})
SCRIPT = re.compile(r"python (?:benchmarks/\w+\.py|-m tests\.\w+)(?= |$)")
"""Repeats the figures of a page, and is no part of what is installed."""


def stands_elsewhere(name: str) -> bool:
    """Tell whether another page has all lines of this one, in a project that is as ready."""
    lines = TYPED[name]
    for other, theirs in TYPED.items():
        more = len(theirs) > len(lines) or (len(theirs) == len(lines) and other < name)
        if more and set(lines) <= set(theirs) and BEFORE.get(name) == BEFORE.get(other):
            return True
    return False


TUTORIAL = "docs/tutorial.md"
"""Typed by ``test_tutorial.py``, which makes its changes between the lines."""
DRAWN = "README.md"
"""On the pages that its commands write there are pictures; on those of others empty ones."""
PAGES = [
    name
    for name, lines in TYPED.items()
    if lines and name != TUTORIAL and not stands_elsewhere(name)
]


def test_tests_that_run_the_rest_are_there() -> None:
    assert all((ROOT / path).exists() for path in ELSEWHERE.values())


@pytest.mark.parametrize("table", [CODES, ELSEWHERE, KEYS, MAKES, ONLY_HELP, SMALLER], ids=min)
def test_no_row_has_lost_its_line(table: dict[str, object]) -> None:
    used = {found[0] for _, line in LINES if (found := row(table, line))}
    assert used == set(table)


LIKE_IT = pytest.mark.whole("test_every_command_of_a_page_runs")


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[LIKE_IT] * (name in LONGER)) for name in PAGES]
)
def test_every_command_of_a_page_runs(
    world: World,
    tmp_path: Path,
    pytestconfig: pytest.Config,
    name: str,
) -> None:
    """Type every line of a page; of a script, its options only, but under ``--all``."""
    scripts = bool(pytestconfig.getoption("--all"))
    with nullcontext() if name == DRAWN else once_a_process.pictures(painted=scripts):
        type_all(name, Shell(world.copied(tmp_path / "project").root), scripts=scripts)


def type_all(name: str, shell: Shell, *, scripts: bool) -> None:
    """Type every line of a page."""
    filling = Filling()
    for line in BEFORE.get(name, ()):
        said = shell.type(line)
        assert said.code == 0, f"before {name}: {line}\n{said.text}"
    for line in TYPED[name]:
        check(shell, filling, line, scripts=scripts)


def check(shell: Shell, filling: Filling, line: str, *, scripts: bool = True) -> Said:
    """Run one line, and look at how it ended and what it wrote."""
    typed = filling.filled(line)
    script = SCRIPT.match(after(line))
    if only := row(ONLY_HELP, line):
        typed = f"{COMMAND} {only[0]} --help"
    elif script and not (scripts or row(MAKES, line)):
        typed = f"{COMMAND} {script[0]} --help"
    found, keys = row(CODES, line), row(KEYS, line)
    said = shell.type(typed, keys[1] if keys else "")
    assert said.code in (found[1] if found else DONE), (
        f"{line}\nas\n{typed}\n{said.code}\n{said.text}"
    )
    return said


def commands(names: Iterable[str]) -> set[str]:
    """Name the commands of the harness that these pages have typed."""
    every = {name for name, _ in leaves(command_tree())}
    lines = {" ".join(after(line).split()[1:3]) for name in names for line in TYPED[name]}
    return {name for name in every for line in lines if f"{line} ".startswith(f"{name} ")}


PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [(page.name, block) for page in pages() for block in PYTHON.findall(page.text)]
SKETCHES = {
    ("docs/engines.md", "def engine("): "tests/docs/test_guides.py",
    ("docs/shadow.md", "from functools import partial"): "tests/shadow/test_shadowed.py",
    ("docs/tutorial.md", "    return [word"): "tests/docs/test_guides.py",
    ("docs/tutorial.md", "COUNTS = {"): "tests/docs/test_guides.py",
}
"""Blocks that are no whole program, by page and beginning, and what runs the whole."""
MADE = {
    "docs/api.md": BEFORE["docs/api.md"],
    "docs/shadow.md": (SHADOW.replace("out/shadow", "shadow"),),
    "docs/stacks/documents.md": ("mkdir papers index",),
}
"""What a page takes for granted to be there."""
SAID = {
    "docs/stacks/documents.md": """
from pathlib import Path
from harness_engines.stacks.documents import collection, texts
from harness_engines.stacks.documents.library import DocumentSettings
from tests.make.files import pdf
Path("papers/q3.pdf").write_bytes(pdf([["Customer retention rose in the third quarter."]]))
index, cache = Path("index"), Path("cache")
settings = DocumentSettings(
    tier="free", embedder="", sparse="", max_tokens=256, fusion="specification",
)
""",
}
"""What a page takes for granted to be imported and named."""


def sketch(name: str, block: str) -> tuple[str, str] | None:
    return next((key for key in SKETCHES if key[0] == name and block.startswith(key[1])), None)


RUN = [(name, block) for name, block in BLOCKS if not sketch(name, block)]


def test_sketches_are_on_their_pages_and_what_runs_them_is_there() -> None:
    assert {sketch(name, block) for name, block in BLOCKS} - {None} == set(SKETCHES)
    assert all((ROOT / test).is_file() for test in SKETCHES.values())


@pytest.mark.parametrize(("name", "block"), RUN, ids=lambda text: text[:30])
def test_a_block_runs(world: World, tmp_path: Path, name: str, block: str) -> None:
    root = world.copied(tmp_path / "project").root
    for line in MADE.get(name, ()):
        assert Shell(root).type(line).code == 0, line
    known: dict[str, object] = {"__name__": "page"}
    with chdir(root):
        exec(SAID.get(name, ""), known)  # noqa: S102  our own pages
        before = set(known)
        exec(compile(block, name, "exec"), known)  # noqa: S102  our own pages
    assert set(known) > before or "import" not in block


SIMULATED = tuple(sorted(Path(ROOT / "docs").glob("*.md")))
SIMULATES = re.compile(r"benchmarks/simulate\.py (\w+) --trials (\d+)$", re.MULTILINE)
FIRST = "series"
TOO_LONG = ("gates",)
"""Simulations that take a processor more than five minutes."""


def told() -> Iterator[tuple[Path, str, int]]:
    """Give each command of a page that names its trials, the quickest first."""
    for page in SIMULATED:
        for part, trials in SIMULATES.findall(page.read_text(encoding="utf-8")):
            if part not in TOO_LONG:
                yield page, part, int(trials)


TOLD = sorted(told(), key=lambda case: case[1] != FIRST)


@pytest.mark.simulation
@pytest.mark.whole("test_every_command_of_a_page_runs")
@pytest.mark.parametrize(("page", "part", "trials"), TOLD, ids=[case[1] for case in TOLD])
def test_each_line_that_the_command_prints_stands_on_the_page(
    page: Path, part: str, trials: int
) -> None:
    lines = page.read_text(encoding="utf-8").splitlines()
    printed = [line for line in TABLES[part].lines(trials) if line]
    assert [line for line in printed if line not in lines] == []
    assert len(printed) > 2, "a head alone"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder)))
    return folder


@pytest.mark.filterwarnings("ignore:::mkdocs", "ignore:::markdown")
@pytest.mark.parametrize("wanted", ["negative queries", "nDCG gain", "no judgements"])
def test_the_search_has_every_word_on_one_page(site: Path, wanted: str) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    texts = [f"{one['title']} {one['text']}".lower() for one in index["docs"]]
    assert [text for text in texts if all(word in text for word in wanted.lower().split())]
