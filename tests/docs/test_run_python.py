"""Every block of Python on a page is run, or is a sketch and says where the whole of it is."""

from __future__ import annotations

import ast
import re
from contextlib import chdir
from pathlib import Path
from textwrap import dedent

import pytest

from tests.docs.pages import ROOT, pages
from tests.docs.shell import Shell
from tests.docs.tables import BEFORE, SHADOW, Elsewhere
from tests.docs.world import World

pytestmark = [pytest.mark.usefixtures("read_once"), pytest.mark.slow]
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = [(page.name, block) for page in pages() for block in PYTHON.findall(page.text)]
CHANGE = Elsewhere("a line to be changed in a file", "tests/docs/test_guides.py")
SKETCHES = {
    ("docs/engines.md", "def engine("): Elsewhere(
        "two protocols, without their code", "tests/docs/test_guides.py"
    ),
    ("docs/shadow.md", "from functools import partial"): Elsewhere(
        "its numbers are left out", "tests/shadow/test_shadowed.py"
    ),
    ("docs/tutorial.md", "    return [word"): CHANGE,
    ("docs/tutorial.md", "COUNTS = {"): CHANGE,
}
"""By page and beginning."""
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
    for (name, _), (why, test) in SKETCHES.items():
        assert why, name
        assert (ROOT / test).is_file(), test


def test_a_page_that_is_made_ready_has_a_block() -> None:
    assert {*MADE, *SAID} <= {name for name, _ in RUN}


@pytest.mark.parametrize("block", [block for _, block in BLOCKS], ids=lambda block: block[:30])
def test_a_block_is_python(block: str) -> None:
    assert ast.parse(dedent(block)).body


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
