"""``harness policy pin`` as it is typed: of a pipeline, of what a run left, of a BEIR folder."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.policy.pins import read
from tests.cli.conftest import Harness
from tests.make.toy import GATES, HEAD, NAME, STEP, Toy

pytestmark = pytest.mark.slow

SAID = "41 queries, 2401 judgements of 41 queries, "


def test_a_data_set_is_pinned_beside_the_policy(project: Toy, harness: Harness) -> None:
    said = harness("policy", "pin", "policy/toy.toml", "--dataset", NAME)
    assert said.code == 0, said
    assert said.out.startswith("pinned in policy/toy.pins.json: " + SAID)
    assert "settings of the race" in said.out
    pins = json.loads((project.root / "policy" / "toy.pins.json").read_text())
    assert pins["datasets"]["toy"]["race"]["processes"] == 3
    queries = project.layout.data / "queries.jsonl"
    rows = queries.read_text().splitlines(keepends=True)
    queries.write_text("".join(rows[1:]))
    said = harness("policy", "pin", "policy/toy.toml", "--dataset", NAME)
    assert "changed: 1 query removed (q00)\n" in said.out
    assert len(read(project.root / "policy" / "toy.toml").datasets["toy"].made) == 2


def test_a_run_and_a_folder_are_pinned_by_their_names(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    left, file = tmp_path / "left", project.root / "policy" / "pairwise.toml"
    file.write_text(HEAD + STEP + GATES)
    beir = project.root / "beir"
    said = harness("policy", "pin", file, "--dataset", beir)
    assert said.out.endswith(SAID + "no race, for none was run\n")
    words = ("run", "--dataset", beir, "--arms", "fts5,tantivy", "--control", "fts5")
    assert harness(*words, "--out", left).code == 0
    (about,) = json.loads((left / "decision.json").read_text())["datasets"]
    assert about["evidence"]["pin"]["differences"] == []
    assert about["evidence"]["pin"]["times"] == 1
    said = harness("policy", "pin", file, "--from", left)
    assert said.code == 0, said
    assert len(read(file).datasets["beir"].made) == 2


def test_a_file_of_judgements_that_lost_some_is_told(
    project: Toy, harness: Harness, tmp_path: Path
) -> None:
    beir, left = project.root / "beir", tmp_path / "left"
    file = project.root / "policy" / "pairwise.toml"
    harness("policy", "pin", file, "--dataset", beir)
    qrels = beir / "qrels" / "test.tsv"
    lines = qrels.read_text().splitlines(keepends=True)
    qrels.write_text("".join(line for line in lines if not line.startswith("q05\t")))
    words = ("run", "--dataset", beir, "--arms", "fts5,tantivy", "--control", "fts5")
    said = harness(*words, "--out", left, "--exit-code")
    assert said.code in {1, 3}
    assert "1 query without judgements that had some (q05)" in said.out
    said = harness("gate", "--policy", file, "--from", left, "--control", "fts5")
    assert "1 query without judgements that had some (q05)" in said.out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((), "name what is pinned"),
        (("--dataset", "none"), "no dataset named 'none'"),
    ],
)
def test_bad_input_is_named(
    project: Toy, harness: Harness, words: tuple[str, ...], says: str
) -> None:
    assert says in harness("policy", "pin", "policy/toy.toml", *words).error
    assert not (project.root / "policy" / "toy.pins.json").exists()


def test_a_policy_that_is_none_is_not_pinned(harness: Harness) -> None:
    said = harness("policy", "pin", "policy/none.toml", "--dataset", NAME)
    assert "none.toml: cannot be read" in said.error


@pytest.mark.parametrize("more", [(), ("--log", "kept")])
def test_a_fresh_folder_resets_no_count(
    project: Toy, harness: Harness, tmp_path: Path, more: tuple[str, ...]
) -> None:
    policy = project.root / "policy" / "pairwise.toml"
    policy.write_text(policy.read_text().replace("attempts = 10", "attempts = 1"))
    words = ("run", "--dataset", project.root / "beir", "--control", "fts5", *more)
    pages = []
    for name, candidate in (("a", "tantivy"), ("b", "tantivy"), ("c", "fts5-porter")):
        asked = (*words, "--arms", f"fts5,{candidate}", "--out", tmp_path / name)
        assert harness(*asked).code == 0
        assert harness("verify", "--from", tmp_path / name).code == 0
        pages.append((tmp_path / name / "report.md").read_text())
    assert ["Attempts stay within the error budget" in page for page in pages] == [
        False,
        False,
        True,
    ]
    assert "this is attempt 2 and 1 were planned" in pages[2]
    (tmp_path / "c").rename(tmp_path / "moved")
    assert harness("verify", "--from", tmp_path / "moved").code == 0
