"""The tutorial, typed from its first line to its last, its changes made where it makes them."""

from __future__ import annotations

import json
import re
from difflib import get_close_matches
from pathlib import Path

import pytest

from tests.docs.pages import page
from tests.docs.shell import Shell
from tests.docs.tables import ELSEWHERE
from tests.docs.test_run_commands import Filling, check, row
from tests.docs.world import World

pytestmark = [
    pytest.mark.slow,
    pytest.mark.usefixtures("read_once", "none_drawn"),
]
PAGE = page("docs/tutorial.md")
PYTHON = re.findall(r"^```python\n(.*)\n```", PAGE.text, re.MULTILINE)
(MARGIN,) = re.findall(r"^```toml\n(.*)\n```", PAGE.text, re.MULTILINE)
(COMPLETE,) = re.findall(r"^`(complete = .*)`$", PAGE.text, re.MULTILINE)
BETTER, WORSE = PYTHON
LINES = [line for line in PAGE.commands() if not row(ELSEWHERE, line)]
RUN, TUNED, SEEN = (line for line in LINES if "harness run" in line)
(DECIDE,) = (line for line in LINES if "harness gate" in line)


class Reader:
    """Somebody who follows the page in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.shell, self.filling = folder, Shell(folder), Filling()

    def type(self, line: str) -> int:
        return check(self.shell, self.filling, line).code

    def change(self, line: str) -> str:
        """Put the line in the place of the one that it resembles, and give that one."""
        path = self.folder / "my-search" / "engine.py"
        text = path.read_text("utf-8")
        (old,) = get_close_matches(line, text.splitlines(), n=1, cutoff=0.8)
        path.write_text(text.replace(old, line), "utf-8")
        return old

    def bound(self) -> None:
        path = self.folder / "my-search" / "policy" / "pairwise.toml"
        text = re.sub(r"^margin = 0\.02.*$", MARGIN, path.read_text("utf-8"), flags=re.MULTILINE)
        path.write_text(text.replace("version = 1", "version = 2"), "utf-8")

    def complete(self) -> None:
        path = self.folder / "datasets" / "notes" / "card.toml"
        path.write_text(f"{COMPLETE}\n{path.read_text('utf-8')}", "utf-8")

    def page(self, name: str) -> str:
        return (self.folder / "out" / name / "index.html").read_text("utf-8")

    def verdict(self) -> tuple[str, set[str]]:
        """Give the outcome of the step, and what its gates say."""
        decided = json.loads((self.folder / "out" / "notes" / "decision.json").read_text("utf-8"))
        (step,) = decided["datasets"][0]["steps"]
        return step["outcome"], {finding["verdict"] for finding in step["findings"]}


@pytest.fixture(scope="module")
def reader(world: World, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """Follow the page up to its first verdict."""
    found = Reader(world.copied(tmp_path_factory.mktemp("reader") / "project").root)
    for line in LINES[: LINES.index(RUN)]:
        found.type(line)
    found.complete()
    found.type(RUN)
    return found


@pytest.mark.whole("tests/docs/test_guides.py::test_a_step_of_the_tutorial_changes_the_engine_so")
def test_the_steps_of_the_tutorial_end_as_it_says(reader: Reader) -> None:
    assert reader.verdict() == ("hold", {"pass", "inconclusive"})
    for line in LINES[LINES.index(RUN) + 1 : LINES.index(DECIDE)]:
        reader.type(line)
    reader.change(BETTER)
    reader.type(RUN)
    assert reader.verdict() == ("hold", {"pass", "inconclusive"})
    reader.bound()
    assert reader.type(DECIDE) == 0
    whole = reader.change(WORSE)
    reader.type(RUN)
    outcome, verdicts = reader.verdict()
    assert outcome == "hold"
    assert "fail" in verdicts
    assert (reader.folder / "out" / "notes" / "explore.html").is_file()
    ask, *tuning = LINES[LINES.index(DECIDE) + 1 :]
    reader.type(ask)
    said = json.loads(reader.shell.type(f"{ask} --json").text)
    first, own = ([hit["doc_id"] for hit in one["hits"]] for one in (said[0], said[1]))
    assert first[0] not in own
    reader.change(whole)
    reader.type(RUN)
    assert reader.verdict() == ("promote", {"pass"})
    assert tuning[-2:] == [TUNED, SEEN]
    for line in tuning:
        reader.type(line)
    assert "own-tuned was tuned on split/train, and on none" in reader.page("tuned")
    assert "INVALID: own-tuned was tuned on" in reader.page("seen")
