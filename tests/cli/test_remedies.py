"""A remedy that is printed is a way out: it is run in the state in which it is printed."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli import broken_engine
from tests.cli.conftest import Harness
from tests.make.toy import CONTROL, NAME, Toy

pytestmark = pytest.mark.slow
PRINTED = re.compile(r"[Rr]un: harness (.+?)(?:\.$|, and|; |$)")
MOST = 6
"""Steps to a command that works: one for each stage of the pipeline."""
ASK = ("ask", "balo", "--dataset", NAME, "--arm", CONTROL)


def gone(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def helped(harness: Harness, *words: str) -> list[str]:
    """Run a command and each remedy that it prints, until it works; return the remedies."""
    printed: list[str] = []
    for _ in range(MOST):
        said = harness(*words)
        if said.code != 2:
            return printed
        (remedy,) = PRINTED.findall(said.error)
        printed.append(remedy)
        done = harness(*shlex.split(remedy))
        assert done.code != 2, (remedy, done)
    raise AssertionError(printed)


STATES: dict[str, tuple[Callable[[Toy], Path], tuple[str, ...], str]] = {
    "no data": (lambda toy: toy.layout.data, ASK, f"stage prepare --dataset {NAME}"),
    "no index": (
        lambda toy: toy.layout.index(CONTROL), ASK,
        f"stage index --dataset {NAME} --arm {CONTROL}",
    ),
    "no scores": (
        lambda toy: toy.layout.per_query, ("gate",), f"stage score --dataset {NAME}",
    ),
    "no comparison": (
        lambda toy: toy.layout.agreement, ("gate",), f"stage compare --dataset {NAME}",
    ),
    "no decision": (lambda toy: toy.layout.decision, ("verify",), f"gate --dataset {NAME}"),
}  # fmt: skip


@pytest.mark.parametrize("state", STATES)
def test_what_is_missing_is_made_by_the_remedy(state: str, project: Toy, harness: Harness) -> None:
    path, words, first = STATES[state]
    assert harness("gate").code == 0
    gone(path(project))
    assert helped(harness, *words)[0] == first


def test_data_of_an_imported_set_that_no_setting_names(project: Toy, harness: Harness) -> None:
    """``harness stage prepare`` prepared the sets of params.yaml, and this one was none of them."""
    assert harness("import", "beir", "beir", "--name", "mine").code == 0
    said = harness("ask", "balo", "--dataset", "mine", "--arm", CONTROL).error
    assert said.endswith("Run: harness stage prepare --dataset mine"), said
    printed = helped(harness, "ask", "balo", "--dataset", "mine", "--arm", CONTROL)
    assert printed == [
        "stage prepare --dataset mine", f"stage index --dataset mine --arm {CONTROL}",
    ]  # fmt: skip
    assert project.root


def test_the_index_of_an_arm_from_a_file(project: Toy, harness: Harness) -> None:
    """``stage index --arm own`` knew no arm of this name."""
    arm = broken_engine.write(project.root / "mine")
    printed = helped(harness, "ask", "balo", "--dataset", NAME, "--arm", str(arm))
    assert printed == [f"stage index --dataset {NAME} --arm {arm}"]


def test_queries_of_an_arm_from_a_file_are_run_again(project: Toy, harness: Harness) -> None:
    arm = broken_engine.write(project.root / "mine")
    words = ("run", "--dataset", NAME, "--arms", f"{CONTROL},{arm}", "--control", CONTROL)
    assert harness(*words, "--out", "out").code == 0
    again = ("verify", "--from", "out", "--requery", "2")
    assert (
        "own: is an arm from a file. Name its TOML file beside --requery" in harness(*again).error
    )
    assert harness(*again, "--arm", arm).code == 0


def test_what_a_run_wrote_is_made_by_the_run(project: Toy, harness: Harness) -> None:
    words = ("run", "--dataset", NAME, "--arms", CONTROL, "--out", "out")
    assert harness(*words).code == 0
    gone(project.root / "out" / "work" / "build" / NAME / "data" / "queries.jsonl")
    asked = ("ask", "balo", "--from", "out", "--arm", CONTROL)
    assert "Repeat the harness run that wrote this folder" in harness(*asked).error
    assert harness(*words).code == 0
    assert harness(*asked).code == 0
