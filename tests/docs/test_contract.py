"""Every promise of message search is kept by tests that ran and passed.

Outcomes come from this process where it ran the tests, and else from one run of those named. Where
several processes run the tests, ``tests/docs/promises.py`` asks in the place of this file.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs import outcomes
from tests.docs.contract import PAGE, Row, faults, known, nodes, repeated, rows
from tests.docs.pages import ROOT

pytestmark = pytest.mark.slow
ROWS = rows(PAGE.read_text("utf-8"))
HEAD = "| id | promise | reached by | tests | decision |\n| --- | --- | --- | --- | --- |\n"
PLANTED = {
    "good": "def test_it(): pass",
    "red": "def test_it(): assert False",
    "skipped": "import pytest\n@pytest.mark.skip\ndef test_it(): pass",
    "xfailed": "import pytest\n@pytest.mark.xfail\ndef test_it(): assert False",
    "partly": (
        "import pytest\n@pytest.mark.parametrize('n', [1, 2])\n"
        "def test_it(n):\n    if n > 1: pytest.skip()"
    ),
    "unready": (
        "import pytest\n@pytest.fixture\ndef gone(): raise OSError\ndef test_it(gone): pass"
    ),
    "unclosed": (
        "import pytest\n@pytest.fixture\ndef late():\n    yield\n    raise OSError\n"
        "def test_it(late): pass"
    ),
    "broken": "import no_such_module\ndef test_it(): pass",
    "renamed": "def test_other(): pass",
}
SAID = {
    "red": "failed",
    "skipped": "skipped",
    "xfailed": "xfailed",
    "partly": "skipped",
    "unready": "failed in setup",
    "unclosed": "failed in teardown",
    "broken": "did not run",
    "renamed": "there is no",
    "absent": "there is no",
}


@pytest.fixture(scope="session")
def results(request: pytest.FixtureRequest) -> outcomes.Results:
    """How the tests of all rows came out."""
    recorder = request.config.pluginmanager.get_plugin(outcomes.NAME)
    assert isinstance(recorder, outcomes.Outcomes)
    return known(ROWS, ROOT, recorder.results())


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_promise_is_kept(row: Row, results: outcomes.Results) -> None:
    assert faults(row, ROOT, results) == []


def test_an_id_names_one_promise() -> None:
    assert repeated(ROWS) == []
    assert {row.name[0] for row in ROWS} == {"Q", "A", "W", "D", "C", "E"}


def table(*names: str) -> str:
    start = "| Q-1.{0} | is {0} | `harness ask` | `test_{0}` | |"
    lines = (start.format(name) for name in names)
    return HEAD + "\n".join(lines) + "\n"


def test_a_planted_fault_is_told_and_names_its_row(tmp_path: Path) -> None:
    folder = tmp_path / "tests" / "a"
    folder.mkdir(parents=True)
    for name, text in PLANTED.items():
        path = folder / f"test_{name}.py"
        path.write_text(text.replace("test_it", f"test_{name}"), encoding="utf-8")
    planted = rows(table("good", *SAID))
    came_out = outcomes.run(nodes(planted, tmp_path), tmp_path, tmp_path)
    good, *bad = planted
    assert faults(good, tmp_path, came_out) == []
    for row, said in zip(bad, SAID.values(), strict=True):
        (fault,) = faults(row, tmp_path, came_out)
        assert fault.startswith(f"{row.name} (line {row.line}): ")
        assert said in fault


def test_a_repeated_id_is_told() -> None:
    text = PAGE.read_text("utf-8")
    last = next(line for line in text.splitlines() if line.startswith(f"| {ROWS[-1].name} |"))
    assert repeated(rows(f"{text}\n{last}\n"))[0].startswith(f"{ROWS[-1].name} (line ")


@pytest.mark.parametrize(
    "line",
    [
        "| Q-1.1 | a promise without a test | `harness ask` | | |",
        "| Q-1.1 | a promise | `harness ask` | some test | |",
        "| Q-1.1 | a promise | `harness ask` | `tests/a` | |",
        "| Q-1.1 | one misspelt | `harness ask` | `test_c`, `tests_d` | |",
        "| Q-1.1 | four columns | `harness ask` | `test_c` |",
        "| 1.1 | no specification | `harness ask` | `test_c` | |",
        "| Q-1.1 | | `harness ask` | `test_c` | |",
        "| Q-1.1 | no one reaches it | | `test_c` | |",
        "| Q-1.1 | a way in words | by a command | `test_c` | |",
    ],
)
def test_a_row_that_cannot_be_held_to_anything_is_refused(line: str) -> None:
    with pytest.raises(ValueError, match="line 3"):
        rows(HEAD + line)


def test_cases_that_were_left_out_are_no_evidence() -> None:
    recorder = outcomes.Outcomes()
    recorder.seen["tests/a/test_b.py::test_c"] = {"passed"}
    assert recorder.results() == {"tests/a/test_b.py::test_c": frozenset({"passed"})}
    recorder.pytest_deselected()
    assert recorder.results() == {}
