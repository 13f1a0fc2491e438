"""Every command of every page is run, in the order of its page, in a small project.

What cannot be run is in ``run_commands.toml`` with the test that does the same.
"""

import json
import re
import shlex
import tomllib
from collections.abc import Mapping
from contextlib import chdir, nullcontext
from dataclasses import dataclass, field
from difflib import get_close_matches
from itertools import dropwhile
from pathlib import Path
from typing import Any, TypeVar

import pytest

from benchmarks.simulate import TABLES
from tests import once_a_process
from tests.docs.pages import ASSIGNED, COMMAND, ROOT, Shell, page, pages
from tests.docs.world import World

GIVEN: dict[str, Any] = tomllib.loads(
    Path(__file__).with_name("run_commands.toml").read_text("utf-8")
)
FILLED: dict[str, str] = GIVEN["filled"]
CODES, BEFORE, MADE = (GIVEN[name] for name in ("codes", "before", "made"))
ELSEWHERE = {line: test for test, lines in GIVEN["elsewhere"].items() for line in lines}
OTHER_DATA = frozenset(GIVEN["other_data"]["pages"])
KEYS = {
    "harness judge out/first.qrels": "10" * 30 + "q",
    "harness judge out/sample.qrels": "0" * 20 + "q",
    "harness judge": "1s0uq",
}
"""What a person types while it runs."""
SMALLER = {"harness load": {"--seconds": "0.2", "--rounds": "1"}}
"""Options that are made small, also where a line leaves them to their defaults."""
MOST_ARMS = 3
"""More are not run side by side: the first of them, and the control."""
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
    """Return the longest key that the line begins with, word by word, and its entry."""
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
            raise NotFilled(f"{word}: say in run_commands.toml what {part} stands for")
        return FILLED[part]


def _few(arms: list[str], words: list[str]) -> list[str]:
    """Keep the first arms, and the control wherever it stands."""
    control = words[words.index("--control") + 1] if "--control" in words else ""
    return [arm for at, arm in enumerate(arms) if at < MOST_ARMS or arm == control]


SCRIPT = re.compile(r"python (?:benchmarks/\w+\.py|-m tests\.\w+)(?= |$)")
"""Repeats the figures of a page; it is only asked for its options."""
EVERY_LINE = [line for page in pages() for line in page.commands()]
SCRIPTS = sorted({
    found[0]
    for line in EVERY_LINE
    if (found := SCRIPT.match(after(line))) and not row(ELSEWHERE, line)
})
EVERY = {
    page.name: [
        line
        for line in page.commands()
        if not row(ELSEWHERE, line) and not SCRIPT.match(after(line))
    ]
    for page in pages()
    if page.name not in OTHER_DATA
}


def each_run_once() -> dict[str, list[str]]:
    """Leave out a run that another page types too, where no line of its own page reads it."""
    runs = [
        (name, *line.split(" --out "))
        for name, of in EVERY.items()
        for line in of
        if " harness run " in line
    ]
    needed = {said for name, said, to in runs if "\n".join(EVERY[name]).count(to) > 1}
    spared = set()
    for name, said, to in runs:
        if "\n".join(EVERY[name]).count(to) == 1:
            if said in needed:
                spared.add((name, f"{said} --out {to}"))
            needed.add(said)
    return {name: [one for one in of if (name, one) not in spared] for name, of in EVERY.items()}


TYPED = each_run_once()
DONE = (0,)


def stands_elsewhere(name: str) -> bool:
    """Tell whether another page has all lines of this one, in a project that is as ready."""
    lines = TYPED[name]
    for other, theirs in TYPED.items():
        more = len(theirs) > len(lines) or (len(theirs) == len(lines) and other < name)
        if more and set(lines) <= set(theirs) and BEFORE.get(name) == BEFORE.get(other):
            return True
    return False


TUTORIAL = "docs/tutorial.md"
"""Typed at the end of this file, its changes made between the lines."""
DRAWN = "SECURITY.md"
"""On the pages that its commands write there are pictures; on those of others empty ones."""
PAGES = [
    name
    for name, lines in TYPED.items()
    if lines and name != TUTORIAL and not stands_elsewhere(name)
]


def test_tests_that_run_the_rest_are_there() -> None:
    assert all((ROOT / path).exists() for path in ELSEWHERE.values())


@pytest.mark.parametrize("table", [CODES, ELSEWHERE, KEYS, SMALLER], ids=min)
def test_no_row_has_lost_its_line(table: dict[str, object]) -> None:
    used = {found[0] for line in EVERY_LINE if (found := row(table, line))}
    assert used == set(table)


@pytest.mark.parametrize("name", PAGES)
def test_every_command_of_a_page_runs(world: World, tmp_path: Path, name: str) -> None:
    with nullcontext() if name == DRAWN else once_a_process.pictures(painted=False):
        shell, filling = Shell(world.copied(tmp_path / "project").root), Filling()
        for line in BEFORE.get(name, ()):
            said = shell.type(line)
            assert said.code == 0, f"before {name}: {line}\n{said.text}"
        for line in TYPED[name]:
            check(shell, filling, line)


def check(shell: Shell, filling: Filling, line: str) -> int:
    """Run one line; return its code, which is one of its command."""
    typed = filling.filled(line)
    found, keys = row(CODES, line), row(KEYS, line)
    said = shell.type(typed, keys[1] if keys else "")
    assert said.code in (found[1] if found else DONE), (
        f"{line}\nas\n{typed}\n{said.code}\n{said.text}"
    )
    return said.code


@pytest.mark.parametrize("script", SCRIPTS)
def test_every_script_of_a_page_shows_its_options(script: str) -> None:
    said = Shell(ROOT).type(f"{COMMAND} {script} --help")
    assert said.code == 0, said.text


PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [(page.name, block) for page in pages() for block in PYTHON.findall(page.text)]
SKETCHES = {
    ("docs/engines.md", "def engine("): "tests/docs/test_guides.py",
    ("docs/shadow.md", "from functools import partial"): "tests/shadow/test_shadowed.py",
    ("docs/tutorial.md", "    return [word"): "tests/docs/test_guides.py",
    ("docs/tutorial.md", "COUNTS = {"): "tests/docs/test_guides.py",
}
"""Blocks that are no whole program, by page and beginning, and what runs the whole."""
SAID = {
    "docs/stacks/documents.md": """
from pathlib import Path
from harness_engines.kept.kit import DOCUMENTS
from harness_engines.stacks.documents import arm, texts
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


@pytest.fixture(scope="module")
def root(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return world.copied(tmp_path_factory.mktemp("blocks") / "project").root


@pytest.mark.parametrize(("name", "block"), RUN, ids=lambda text: text[:30])
def test_a_block_runs(root: Path, name: str, block: str) -> None:
    for line in MADE.get(name, ()):
        assert Shell(root).type(line).code == 0, line
    known: dict[str, object] = {"__name__": "page"}
    with chdir(root):
        exec(SAID.get(name, ""), known)  # noqa: S102  our own pages
        before = set(known)
        exec(compile(block, name, "exec"), known)  # noqa: S102  our own pages
    assert set(known) > before or "import" not in block


SIMULATES = re.compile(r"benchmarks/simulate\.py (\w+) --trials (\d+)$", re.MULTILINE)
TOO_LONG = ("gates",)
"""Simulations that take a processor more than five minutes."""
TOLD = {
    part: (page, int(trials))
    for page in pages()
    for part, trials in SIMULATES.findall(page.text)
    if part not in TOO_LONG
}


@pytest.mark.simulation
@pytest.mark.whole("test_every_command_of_a_page_runs")
@pytest.mark.parametrize("part", TOLD)
def test_each_line_that_the_command_prints_stands_on_the_page(part: str) -> None:
    told_on, trials = TOLD[part]
    printed = [line for line in TABLES[part].lines(trials) if line]
    assert [line for line in printed if line not in told_on.text.splitlines()] == []
    assert len(printed) > 2, "a head alone"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder)))
    return folder


@pytest.mark.filterwarnings("ignore:::mkdocs", "ignore:::markdown")
@pytest.mark.parametrize("wanted", ["negative queries", "nDCG gain", "no judgements"])
def test_the_search_has_every_word_on_one_page(site: Path, wanted: str) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text(encoding="utf-8"))
    texts = [f"{one['title']} {one['text']}".lower() for one in index["docs"]]
    assert [text for text in texts if all(word in text for word in wanted.lower().split())]


TUTORIAL_PAGE = page(TUTORIAL)
BETTER, WORSE = re.findall(r"^```python\n(.*)\n```", TUTORIAL_PAGE.text, re.MULTILINE)
(MARGIN,) = re.findall(r"^```toml\n(.*)\n```", TUTORIAL_PAGE.text, re.MULTILINE)
(COMPLETE,) = re.findall(r"^`(complete = .*)`$", TUTORIAL_PAGE.text, re.MULTILINE)
STEPS = [line for line in TUTORIAL_PAGE.commands() if not row(ELSEWHERE, line)]
RUN_OWN, TUNED, SEEN = (line for line in STEPS if "harness run" in line)
(DECIDE,) = (line for line in STEPS if "harness gate" in line)


class Reader:
    """Somebody who follows the page in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.shell, self.filling = folder, Shell(folder), Filling()

    def type(self, line: str) -> int:
        return check(self.shell, self.filling, line)

    def change(self, line: str) -> str:
        """Replace the line that this one resembles, and return that one."""
        path = self.folder / "my-search" / "engine.py"
        text = path.read_text("utf-8")
        (old,) = get_close_matches(line, text.splitlines(), n=1, cutoff=0.8)
        path.write_text(text.replace(old, line), "utf-8")
        return old

    def edit(self, file: str, old: str, new: str) -> None:
        path = self.folder / file
        path.write_text(re.sub(old, new, path.read_text("utf-8"), flags=re.MULTILINE), "utf-8")

    def page(self, name: str) -> str:
        return (self.folder / "out" / name / "index.html").read_text("utf-8")

    def verdict(self) -> tuple[str, set[str]]:
        """Return the outcome of the step, and what its gates say."""
        decided = json.loads((self.folder / "out" / "notes" / "decision.json").read_text("utf-8"))
        (step,) = decided["datasets"][0]["steps"]
        return step["outcome"], {finding["verdict"] for finding in step["findings"]}


@pytest.mark.whole("tests/docs/test_guides.py::test_a_step_of_the_tutorial_changes_the_engine_so")
def test_the_steps_of_the_tutorial_end_as_it_says(world: World, tmp_path: Path) -> None:
    reader = Reader(world.copied(tmp_path / "project").root)
    for line in STEPS[: STEPS.index(RUN_OWN)]:
        reader.type(line)
    reader.edit("datasets/notes/card.toml", r"\A", f"{COMPLETE}\n")
    reader.type(RUN_OWN)
    assert reader.verdict() == ("hold", {"pass", "inconclusive"})
    for line in STEPS[STEPS.index(RUN_OWN) + 1 : STEPS.index(DECIDE)]:
        reader.type(line)
    reader.change(BETTER)
    reader.type(RUN_OWN)
    assert reader.verdict() == ("hold", {"pass", "inconclusive"})
    policy = "my-search/policy/pairwise.toml"
    reader.edit(policy, r"^margin = 0\.02.*$", MARGIN)
    reader.edit(policy, "^version = 1", "version = 2")
    assert reader.type(DECIDE) == 0
    whole = reader.change(WORSE)
    reader.type(RUN_OWN)
    outcome, verdicts = reader.verdict()
    assert outcome == "hold"
    assert "fail" in verdicts
    assert (reader.folder / "out" / "notes" / "explore.html").is_file()
    ask, *tuning = STEPS[STEPS.index(DECIDE) + 1 :]
    reader.type(ask)
    said = json.loads(reader.shell.type(f"{ask} --json").text)
    first, own = ([hit["doc_id"] for hit in one["hits"]] for one in (said[0], said[1]))
    assert first[0] not in own
    reader.change(whole)
    reader.type(RUN_OWN)
    assert reader.verdict() == ("promote", {"pass"})
    assert tuning[-2:] == [TUNED, SEEN]
    for line in tuning:
        reader.type(line)
    assert "own-tuned was tuned on split/train, and on none" in reader.page("tuned")
    assert "INVALID: own-tuned was tuned on" in reader.page("seen")
