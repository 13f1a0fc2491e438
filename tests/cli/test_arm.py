"""``harness arm check``: what holds, what is broken and how to fix it, and the exit code."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.check.checks import CONTRACT_CHECKS
from tests.cli.conftest import Harness
from tests.docs.pages import ROOT
from tests.make.toy import NAME, Toy

pytestmark = pytest.mark.slow

OWN = ROOT / "examples" / "own_engine"


@pytest.fixture
def own(project: Toy) -> Path:
    """Copy the example into the project's folder."""
    for name in ("own.toml", "own.py"):
        shutil.copy(OWN / name, project.root)
    return project.root / "own.toml"


def broken(own: Path, before: str, after: str) -> Path:
    path = own.with_name("own.py")
    text = path.read_text("utf-8")
    assert before in text
    path.write_text(text.replace(before, after), "utf-8")
    return own


def test_an_engine_that_keeps_the_contract(own: Path, harness: Harness) -> None:
    said = harness("arm", "check", own)
    assert said.code == 0
    assert said.out.startswith(
        f"own: keeps the contract. {len(CONTRACT_CHECKS)} of {len(CONTRACT_CHECKS)} promises"
    )
    assert all(check.name in said.out for check in CONTRACT_CHECKS)
    assert "To fix" not in said.out


def test_an_engine_that_breaks_it_and_how_to_fix_it(own: Path, harness: Harness) -> None:
    cut = "Answer(by_best(named, k)[::-1], self.manifest.fingerprint)"
    broken(own, "Answer(by_best(named, k), self.manifest.fingerprint)", cut)
    said = harness("arm", "check", own)
    assert said.code == 2
    assert said.out.startswith("own: BREAKS THE CONTRACT.")
    assert "order: broken. The highest score comes first." in said.out
    assert "To fix: Order by (-score, doc_id)" in said.out
    assert said.err == ""


def test_json_for_machines_whatever_an_engine_prints(own: Path, harness: Harness) -> None:
    broken(own, "        k1, b = ", '        print("searching")\n        k1, b = ')
    broken(own, "self.manifest.fingerprint)\n", '"somebody")\n')
    said = harness("arm", "check", own, "--json")
    assert said.code == 2
    told = json.loads(said.out)
    assert (told["arm"], told["holds"], told["documents"]) == ("own", False, 15)
    wrong = {one["name"]: one for one in told["checks"] if one["outcome"] == "broken"}
    assert "identity" in wrong
    assert wrong["identity"]["violations"][0].endswith(f"the index is {told['fingerprint'][:12]!r}")
    assert wrong["identity"]["hint"].startswith("Give self.manifest.fingerprint")
    assert {one["outcome"] for one in told["checks"]} == {"holds", "broken"}


@pytest.mark.parametrize("dataset", [NAME, "beir"])
def test_a_data_set_in_place_of_the_sample(own: Path, harness: Harness, dataset: str) -> None:
    said = harness("arm", "check", own, "--dataset", dataset, "--json")
    assert said.code == 0, said
    told = json.loads(said.out)
    assert told["documents"] > 15
    left = {one["name"] for one in told["checks"] if one["outcome"] == "not checked"}
    assert left == {check.name for check in CONTRACT_CHECKS if check.own_documents}


def test_what_is_wrong_with_the_file_is_an_error(own: Path, harness: Harness) -> None:
    own.write_text(own.read_text("utf-8") + "k9 = 1\n", "utf-8")
    assert "settings.k9" in harness("arm", "check", own).error
    assert "absent.toml: no such file" in harness("arm", "check", "absent.toml").error
    assert "own.py: an arm is a .toml file" in harness("arm", "check", "own.py").error
    assert "no dataset named" in harness("arm", "check", "fts5", "--dataset", "absent").error


def test_an_index_that_cannot_be_built_is_an_error(own: Path, harness: Harness) -> None:
    broken(own, "doc_ids: list[str] = []", "doc_ids: list[str] = []\n            1 / 0")
    said = harness("arm", "check", own)
    assert said.error == "own: its index cannot be built: ZeroDivisionError: division by zero"


def test_nothing_is_left_in_the_project(own: Path, harness: Harness, project: Toy) -> None:
    before = {path for path in project.root.rglob("*") if ".cache" not in path.parts}
    assert harness("arm", "check", own).code == 0
    after = {path for path in project.root.rglob("*") if ".cache" not in path.parts}
    assert {path for path in after - before if "__pycache__" not in path.parts} == set()
